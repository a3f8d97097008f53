"""The record of a run: plain values, saved with the draws, that say what was run, how, and what it cost."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from isotherm import tree
from isotherm.printed import Printed
from isotherm.samplers.traits import Traits, constant
from isotherm.typed_json import typed

Labels = dict[str, list[list[str]]]  # names of the elements of a parameter, for each of its axes
ANOTHER_WAY = "scale or reparametrise the model, or pass a sampler of your own"
UNDECLARED = (
    "groups",
    "not declared",
)  # choice and value of the reason why effects of groups may be at fault
_MAX_LISTED = 64  # size up to which an array is recorded number by number


class Reason(NamedTuple):
    """One setting of a run: its name, its value, and why it has that value."""

    choice: str
    value: str
    why: str


@dataclasses.dataclass(frozen=True)
class SamplerRecord:
    """A sampler in plain values: its name, its settings by name, and its traits.

    `step_size` and `temperature` are numbers, or `None` for a schedule.
    """

    name: str
    step_size: float | None
    temperature: float | None
    traits: Traits
    settings: dict[str, Any]

    @staticmethod
    def of(sampler: Any) -> "SamplerRecord":
        """Return the record of a sampler."""
        settings = describe(sampler)
        return SamplerRecord(
            name=settings.pop("name"),
            step_size=constant(sampler.step_size),
            temperature=constant(sampler.temperature),
            traits=sampler.traits,
            settings=settings,
        )


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """The arithmetic of a run that a warm-up has set up, and what a check of it found.

    - `dtype`: that of the chains.
    - `rounding`: rms distance, in standard deviations, by which rounding moves positions; `None` if unknown.
    - `why_not_float64`: why nothing could be computed in float64; `None` if it could.
    - `force_error`: rms difference, in standard deviations, between the force that chains used and the gradient in
      float64; `None` if it was not checked.
    - `density_error`: difference between the change of U and the integral of its gradient, in units of T, on lines
      from the mode through two draws, or between these if there is no mode; `integration_error`: an estimate of the
      error of that integral.
    """

    dtype: str
    rounding: float | None = None
    why_not_float64: str | None = None
    force_error: float | None = None
    density_error: float | None = None
    integration_error: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class RunRecord(Printed):
    """What was run, how, and what it cost; prints as a table of settings with their reasons.

    - `gradient`, `preconditioner`, `minibatch`, `transforms`: the names of the kinds that were used.
    - `gradient_order`, `gradient_refresh`: `order` and `refresh` of control variates.
    - `num_draws`: requested draws per chain; `steps`: steps that each chain took.
    - `s`: largest eigenvalue of h^2 beta C M^-1 where the chains ended or, with moving anchors, just before these
      last moved; `None` if it could not be measured.
    - `noise_friction`: the friction that balances the gradient noise, for samplers with a momentum.
    - `data_passes`: passes over the data by one chain, including those that moved anchors.
    - `reasons`: the settings and why they were chosen; `setup_passes`, `setup_seconds`: what choosing them cost.
    - `key`: the data of the random key.
    - `arithmetic`: the precision of the run and a check of it, after a warm-up.
    """

    sampler: SamplerRecord
    num_data: int
    batch_size: int
    num_parameters: int
    num_chains: int
    burn_in: int
    thinning: int
    num_draws: int
    steps: int
    data_passes: float
    seconds: float
    key: list[int]
    versions: dict[str, str]
    interrupted: bool = False
    gradient: str | None = None
    gradient_order: int | None = None
    gradient_refresh: int | None = None
    preconditioner: str | None = None
    transforms: dict[str, str] | None = None
    minibatch: dict[str, Any] | None = None
    s: float | None = None
    noise_friction: float | None = None
    reasons: tuple[Reason, ...] = ()
    setup_passes: float = 0.0
    setup_seconds: float = 0.0
    arithmetic: Arithmetic | None = None

    @property
    def temperature(self) -> float:
        """The target temperature of the draws; 1 if it followed a schedule."""
        return 1.0 if self.sampler.temperature is None else self.sampler.temperature

    @property
    def is_tuned(self) -> bool:
        """Whether a warm-up chose the settings."""
        return self.arithmetic is not None

    @property
    def is_explored(self) -> bool:
        """Whether the warm-up chose from a short run of the sampler, and not from the Hessian at the mode."""
        return any(reason.choice == "start" for reason in self.reasons)

    @property
    def remedy(self) -> str:
        """What to change first if variances are off. After a warm-up, it names no setting that you did not choose."""
        if not self.is_tuned:
            return self.sampler.traits.remedy
        larger = "raise batch_size or leave it to the warm-up, " if self.was_given("batch_size") else ""
        return f"the warm-up did not find settings that suit this posterior, so {larger}{ANOTHER_WAY}"

    def was_given(self, setting: str) -> bool:
        """Return whether you gave a setting to the warm-up."""
        return any(reason.choice == setting and reason.why.startswith("given") for reason in self.reasons)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return dataclasses.asdict(self) | {"reasons": [list(reason) for reason in self.reasons]}

    @staticmethod
    def from_json(record: Any) -> "RunRecord":
        """Return the record that `to_json` turned into `record`; raise a `ValueError` that names a wrong field."""
        return typed(RunRecord, record, "record")

    def _parts(self) -> Iterator[Any]:
        yield from table_of(self.reasons, self.setup_passes, self.setup_seconds)
        yield (
            f"{self.num_chains} chains of {self.steps:,} steps, {self.data_passes:.3g} passes over the data each, "
            f"{self.seconds:.1f} s"
        )


@dataclasses.dataclass(frozen=True)
class About:
    """A title, and the model and the data of the draws in plain values. Shown in reports.

    `fit` says how well a regression describes its data.
    """

    title: str = "Posterior draws"
    model: dict[str, Any] = dataclasses.field(default_factory=dict)
    data: dict[str, Any] = dataclasses.field(default_factory=dict)
    fit: dict[str, Any] = dataclasses.field(default_factory=dict)


def table_of(reasons: tuple[Reason, ...], passes: float, seconds: float):  # noqa: ANN201
    """Yield the settings of a run as a table for Rich, and what choosing them cost."""
    from isotherm.terminal import Table

    table = Table(box=None, header_style="bold")
    for title in ("choice", "value", "why"):
        table.add_column(title, no_wrap=title != "why")
    for reason in reasons:
        table.add_row(*reason)
    yield table
    if passes:
        yield f"{passes:.1f} passes over the data, {seconds:.1f} s"


def describe(module: Any) -> dict[str, Any]:
    """Return the name and fields of a module as plain JSON values."""
    out: dict[str, Any] = {"name": type(module).__name__}
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if hasattr(value, "__dataclass_fields__"):
            value = describe(value)
        elif callable(value):
            value = getattr(value, "__name__", type(value).__name__)
        elif hasattr(value, "ndim"):
            value = _plain(value) if value.size <= _MAX_LISTED else f"{value.dtype} {value.shape}"
        elif isinstance(value, dict | list | tuple):
            value = {name: _plain(x) for name, x in tree.named_leaves(value)}
        elif value is not None and not isinstance(value, int | float | str):
            value = repr(value)
        out[field.name] = value
    return out


def _plain(x: Any) -> Any:
    """Return numbers as lists and anything else as text."""
    try:
        return np.asarray(x, np.float64).tolist()
    except (TypeError, ValueError):
        return repr(x)
