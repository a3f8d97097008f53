"""From the encoded rows of a table to a regression: posterior, starting point, labels and description."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from isotherm.draws import Draws
from isotherm.draws.record import About
from isotherm.errors import must
from isotherm.posterior import Posterior
from isotherm.readable import Readable
from isotherm.sampling.sample import sample
from isotherm.tables.design import Design
from isotherm.tables.encoded import AnyDesign, EncodedSource
from isotherm.tables.families.base import Family, Params
from isotherm.tables.families.likelihood import Likelihood, LogPrior
from isotherm.tables.families.prior import Prior
from isotherm.tables.standardized import Standardized
from isotherm.tables.terms import GroupEffects, Predictor, Smooth, Term


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Regression(Readable):
    """A regression, which unpacks into a posterior, its data and a starting point.

    `data` are arrays if the columns are in memory, and a source of encoded rows if they are in a file.
    `labels` names the elements of a parameter along each axis: the columns, preceded by the classes for a softmax.
    `description` describes the model in words.
    """

    posterior: Posterior
    data: dict[str, np.ndarray] | EncodedSource
    init: Params
    labels: dict[str, list[list[str]]]
    description: dict[str, Any]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.posterior, self.data, self.init))

    def sample(
        self,
        *,
        num_draws: int = 1000,
        num_chains: int = 4,
        seed: int | Key[Array, ""] = 0,
        progress: bool = True,
        store: str | os.PathLike[str] | None = None,
    ) -> Draws:
        """Return draws of `iso.sample`, with the arguments of that, that know their names and their model."""
        return self.named(
            sample(
                *self,
                num_draws=num_draws,
                num_chains=num_chains,
                seed=seed,
                progress=progress,
                store=store,
            )
        )

    def named(self, draws: Draws) -> Draws:
        """Return draws of this regression with the names of their elements, and with what forecasts need."""
        model = self.description["model"]
        title = f"{model[0].upper()}{model[1:]} regression of {self.description['target']}"
        return dataclasses.replace(draws, about=About(title, self.description, {}), labels=self.labels)


def assembled(
    source: EncodedSource, family: Family, prior: Prior, *, standardize: bool, in_memory: bool
) -> Regression:
    """Return the regression on encoded rows. The description lacks what only the caller knows."""
    encoder = source.encoder
    design, response = encoder.design, encoder.response
    standard = standard_of(design, response.origin, response.unit)
    names = [*(["intercept"] if design.has_intercept else []), *design.names]
    _check_names(design, family)
    axes = [response.classes[1:], names] if family.per_class else [names]
    labels, facts = {"coefficients": axes}, response.facts
    init: Params = {"coefficients": standard(jnp.zeros([len(axis) for axis in axes]))}
    transforms: dict[str, Any] = {"coefficients": standard}
    predictors = []
    for auxiliary in family.auxiliaries:
        start, own = jnp.asarray(auxiliary.start(facts)), encoder.predictors.get(auxiliary.name)
        if own is not None:
            origin = float(auxiliary.transform.inv(start)) if own.has_intercept else 0.0
            made = Predictor(auxiliary.name, standard_of(own, origin, 1.0), auxiliary.transform)
            columns = [*(["intercept"] if own.has_intercept else []), *own.names]
            init[made.coefficients] = made.standard(jnp.zeros(len(columns)))
            transforms[made.coefficients] = made.standard
            labels[made.coefficients] = [[f"{auxiliary.name}: {name}" for name in columns]]
            predictors.append(made)
            continue
        init[auxiliary.name] = start
        transforms[auxiliary.name] = auxiliary.transform
        labels |= {} if auxiliary.elements is None else {auxiliary.name: [auxiliary.elements(facts)]}
    terms = terms_of(design, prior, response.unit, standardize=standardize)
    if terms and family.per_class:
        raise must("model", "another than softmax if the formula has groups or smooths", family.name)
    for term in terms:
        init |= term.start()
        transforms |= term.transforms()
        labels |= term.labels(levels_of(design, term)) if isinstance(term, GroupEffects) else term.labels()
    posterior = Posterior(
        Likelihood(standard, family, terms, tuple(predictors)),
        LogPrior(standard, family, prior, terms, tuple(predictors)),
        batched=True,
        transforms=transforms,
        groups=dict(term.group for term in terms),
    )
    data = source.in_memory() if in_memory else source
    priors = prior.describe(family, standardize=standardize, varying=list(encoder.predictors))
    unit = "of the target" if response.unit != 1.0 else "of the linear predictor"
    for term in terms:
        priors |= term.describe(unit)
    return Regression(posterior, data, init, labels, _described(source, family) | {"prior": priors})


def terms_of(design: AnyDesign, prior: Prior, unit: float = 1.0, *, standardize: bool) -> tuple[Term, ...]:
    """Return the effects of groups and the smooths of a design."""
    if isinstance(design, Design):
        return ()
    found = []
    for group in design.groups:
        sds = group.sd if standardize else [1.0] * len(group.terms)
        scales = tuple(float(prior.groups * unit / sd) for sd in sds)
        found.append(
            GroupEffects(group.name, len(group.levels), tuple(group.terms), scales, group.correlated)
        )
    return (*found, *(Smooth(x.name, x.size - 2, prior.smooths * unit) for x in design.smooths))


def levels_of(design: AnyDesign, term: GroupEffects) -> list[str]:
    """Return the levels of a factor."""
    assert not isinstance(design, Design)
    return next(group.levels for group in design.groups if group.name == term.name)


def standard_of(design: AnyDesign, origin: float, unit: float) -> Standardized:
    """Return the transform of the coefficients of a design."""
    put = lambda x: jnp.asarray(x, jnp.float32)
    center, scale = put(design.center), put(design.scale)
    if not design.has_intercept:
        return Standardized(0 * center, scale, put(0.0), put(unit), has_intercept=False)
    return Standardized(center, scale, put(origin), put(unit))


def _check_names(design: AnyDesign, family: Family) -> None:
    if not design.has_intercept and not design.names:
        raise must("formula", "one with an intercept or a column", "0", "Leave out the 0.")
    if not design.has_intercept and family.target.is_ordered:
        rule = f"one with an intercept for {family.name}, whose first threshold is zero"
        raise must("formula", rule, "0", "Leave out the 0.")
    taken = ["intercept", *(x.name for x in family.auxiliaries)]
    clash = [name for name in design.names if name in taken]
    if clash:
        raise must("features", "columns that are not named like a parameter", clash[0], "Rename the column.")


def _described(source: EncodedSource, family: Family) -> dict[str, Any]:
    """Return what the rows and the family are, in plain values."""
    design, response = source.encoder.design, source.encoder.response
    found: dict[str, Any] = {
        "model": family.name,
        "target": response.target,
        "features": list(design.features),
        "levels": design.levels,
        **response.special,
    }
    found |= {} if source.kept is None else {"rows dropped": source.kept.dropped}
    found |= {"column sd": np.asarray(design.sd).tolist()}
    if response.classes:
        found |= {"classes": response.classes, "class counts": response.class_counts}
    found |= {name.replace("_", " "): x for name, x in dataclasses.asdict(family).items()}
    records: Mapping[str, Any] = {
        name: x.record() for name, x in source.encoder.predictors.items() if not isinstance(x, Design)
    }
    return found if isinstance(design, Design) else found | {"design": design.record(), "predictors": records}
