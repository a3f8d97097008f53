"""What a family of regressions is: all that the tables, predictions and reports ask of a model by name."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from isotherm.tables.checks import Rule
from isotherm.tables.families.laws import Law
from isotherm.tables.families.statistics import Statistic

Params = dict[str, Array]
Rows = Mapping[str, Array]
Numbers = Mapping[str, np.ndarray | np.floating | float]
Generator = np.random.Generator
Response = Float[np.ndarray, "..."]


class Facts(NamedTuple):
    """What is known of a target when chains start.

    - `mean`: of a target of numbers, per unit of exposure and exp(offset) if the family has a log link.
    - `unit`: how much 1 is in the rows that chains see: the sd of a target that is standardised, and 1 otherwise.
    - `classes`: the classes in order, and `class_counts`, their rows; none for a target of numbers.
    """

    mean: float = 0.0
    unit: float = 1.0
    classes: Sequence[str] = ()
    class_counts: Sequence[int] = ()


@dataclasses.dataclass(frozen=True)
class Link:
    """How the linear predictor is related to the expected response.

    - `origin`: the linear predictor at the mean of the target; `None` if priors are around zero.
    - `around`: what the prior of the intercept is around, in words.
    """

    origin: Callable[[float], float] | None = None
    around: str = "around zero"


@dataclasses.dataclass(frozen=True)
class Together:
    """A rule for the target and another column of the same row: `holds(y, values of the column)`.

    `role` is the argument that names the column, and `text` the rule in words, such as "at most the trials".
    """

    role: str
    text: str
    holds: Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Target:
    """What the column of the target must be.

    - `words`: what it holds, for the example of a spec.
    - `rule`: what each value must be; `together`: what it must be beside another column of its row.
    - `classes`: the least and the largest number of classes (`None`: any); `None` for numbers.
    - `is_ordered`: whether the order of the classes counts.
    - `is_whole`: whether observations are whole numbers.
    - `varies`: whether a target with the same value in all rows is refused.
    """

    words: str
    rule: Rule | None = None
    together: tuple[Together, ...] = ()
    classes: tuple[int, int | None] | None = None
    is_ordered: bool = False
    is_whole: bool = False
    varies: bool = False


@dataclasses.dataclass(frozen=True)
class Auxiliary:
    """A parameter of a distribution beside its linear predictor.

    - `transform`: from unconstrained numbers to the support of the parameter, such as `iso.Positive()`.
    - `start`: its value where chains start.
    - `prior`: its prior, and `scale`, the default scale of that; `None` if it has none. `Prior` can change the scale.
    - `in_target_units`: whether parameter and scale are in units of a standardised target.
    - `comment`: what the scale is, for the example of a spec.
    - `elements`: the names of its elements, of which `start` has as many; `None` for a number. A vector is the last
      axis of what `Family.log_density` gets.
    - `may_vary`: whether it may differ between rows: it is then a predictor of the family, and `transform` its link.
    """

    name: str
    transform: Any
    start: Callable[[Facts], Any]
    prior: Law
    scale: float | None = 1.0
    in_target_units: bool = False
    comment: str = ""
    elements: Callable[[Facts], list[str]] | None = None
    may_vary: bool = True


@dataclasses.dataclass(frozen=True)
class Effect:
    """What a coefficient does, in words.

    - `ratio`: what exp(coefficient) is, such as "odds ratio"; `None` if effects are differences.
    - `sentence`: goes before the size of an effect: "multiplies the mean of `{target}` by". It may hold `{target}`,
      the `{first}` and the `{last}` class, and for a score per class that `{group}`.
    """

    ratio: str | None = None
    sentence: str = "changes `{target}` by"


@dataclasses.dataclass(frozen=True)
class Family(abc.ABC):
    """A distribution of the target of a regression given its linear predictor eta. Its fields are fixed numbers.

    - `name`: as in `model = "name"`.
    - `target`: what the target must be.
    - `auxiliaries`: parameters beside the coefficients.
    - `link`: where eta is at the mean of the target.
    - `effect`: what a coefficient does, in words.
    - `statistics`: of the target, by name, that are compared with those of replicated data.
    - `roles`: arguments that name further columns. The rows have those of `needs` in any case.
    - `settings`: what each field of the family is, for the example of a spec.
    - `proposed`: for the kinds of target that `isotherm check` tells apart, when to choose the family; "" is the
      first choice. The kinds are "two values", "classes", "whole numbers from 1", "counts", "shares",
      "positive numbers" and "numbers".
    - `per_class`: whether there is a score for each class but the first, in place of one linear predictor. The last
      axis of eta is then that of the scores of all classes, where that of the first is zero.
    - `mean_likelihood`: (eta, y) -> the mean over the last axis of exp(log_density), if that can be had at less cost
      than from `log_density`: as `isotherm.prediction.blocks.mean_exp` returns it.

    `eta`, `y`, the auxiliary parameters and the columns of the rows are arrays of shapes that broadcast against each
    other. The methods are pure.
    """

    name: ClassVar[str]
    target: ClassVar[Target]
    auxiliaries: ClassVar[tuple[Auxiliary, ...]] = ()
    link: ClassVar[Link] = Link()
    effect: ClassVar[Effect] = Effect()
    statistics: ClassVar[Mapping[str, Statistic]] = {}
    roles: ClassVar[tuple[str, ...]] = ("offset", "weights")
    needs: ClassVar[tuple[str, ...]] = ()
    settings: ClassVar[Mapping[str, str]] = {}
    proposed: ClassVar[Mapping[str, str]] = {}
    per_class: ClassVar[bool] = False
    mean_likelihood: ClassVar[Callable[[Array, Array], tuple[Array, Array, Array]] | None] = None

    @abc.abstractmethod
    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        """Return log p(y|eta) of each element. JAX must be able to differentiate it twice.

        `rows` has the further columns of `roles` by name, of those that were given: `trials` and `censored`. Offset,
        exposure and weights are dealt with outside. A class is given by its index.
        """

    @abc.abstractmethod
    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        """Return the expected response or, of two classes, the probability of the second.

        With more classes it is that of all classes, on a further axis unless eta has it already.
        """

    @abc.abstractmethod
    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        """Return an observation for each element of `response`, which is what the method of that name returns.

        It must return a number for any finite response and parameters, however large.
        """

    @property
    def predictors(self) -> tuple[str, ...]:
        """The parameters that may depend on the row: the one that eta is for, and auxiliary ones."""
        return ("eta", *(x.name for x in self.auxiliaries if x.may_vary))

    @property
    def is_binary(self) -> bool:
        """Whether the target has two classes, and the response is the probability of the second."""
        return self.target.classes == (2, 2)

    @property
    def has_classes(self) -> bool:
        """Whether the target is one of several classes."""
        return self.target.classes is not None

    @property
    def has_probabilities(self) -> bool:
        """Whether the response has an axis of classes."""
        return self.has_classes and not self.is_binary


class LocationFamily(Family):
    """A family whose density depends on y - eta alone.

    The target is standardised, and offsets are subtracted from it.
    """

    @abc.abstractmethod
    def residual_log_density(self, residual: Array, aux: Params, rows: Rows) -> Array:
        """Return the log-density at each residual y - eta."""

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        """Return log p(y|eta) of each element."""
        return self.residual_log_density(y - eta, aux, rows)

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        """Return eta, the location."""
        del aux, rows
        return eta
