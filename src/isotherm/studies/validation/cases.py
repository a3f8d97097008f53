"""The rows of the validation table: each combines a sampler, a target, a minibatch plan and a gradient."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from isotherm.data.plans import (
    AllRows,
    MinibatchPlan,
    Reshuffled,
    WithoutReplacement,
    WithReplacement,
)
from isotherm.data.random_blocks import RandomBlocks
from isotherm.gradients.minibatch import FullData, Gradient, Minibatch
from isotherm.posterior import Posterior
from isotherm.samplers import Sampler
from isotherm.studies.validation.known import TARGETS
from isotherm.studies.validation.methods import METHODS, VARIANTS, Scales, method, usual_s
from isotherm.studies.validation.targets import Target
from isotherm.studies.validation.theory import Linear

PLANS: dict[str, MinibatchPlan] = {
    "with replacement": WithReplacement(),
    "without replacement": WithoutReplacement(),
    "random blocks": RandomBlocks(rows_per_run=4, reshuffle_every=64),
    "reshuffled": Reshuffled(),
}

GRADIENTS: dict[str, Callable[[Posterior], Gradient]] = {"minibatch": Minibatch, "full data": FullData}


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the table.

    - `s`: the stability number, which sets the step size.
    - `friction`: A, for a mass that gives the stiffest direction a frequency of about 1.
    - `thermal_mass`: mu; `None` means N_d. With a large mu, xi barely fluctuates and theory is sharp.
    """

    target: str
    method: str
    plan: str = "with replacement"
    gradient: str = "minibatch"
    s: float = 0.05
    friction: float = 0.65
    thermal_mass: float | None = None

    @property
    def name(self) -> str:
        """The method, the target, and every setting that is not the default."""
        extras = [self.plan] if self.plan != "with replacement" else []
        extras += [self.gradient] if self.gradient != "minibatch" else []
        extras += [f"s = {self.s:g}"] if self.s != usual_s(self.method) else []
        extras += [f"A = {self.friction:g}"] if self.friction != Case.friction else []
        extras += [f"mu = {self.thermal_mass:g}"] if self.thermal_mass is not None else []
        return ", ".join([self.method, self.target, *extras])

    @property
    def problem(self) -> Target:
        """The target, built once and cached."""
        return _target(self.target)

    @property
    def minibatch(self) -> MinibatchPlan:
        """The minibatch plan: all rows if the gradient uses the full data."""
        return AllRows() if self.estimator.all_rows else PLANS[self.plan]

    @property
    def estimator(self) -> Gradient:
        """The gradient estimator for the target."""
        return GRADIENTS[self.gradient](self.problem.posterior)

    @property
    def sampler(self) -> Sampler:
        """The sampler with its hyper-parameters, at the target's temperature."""
        target = self.problem
        root = np.sqrt(target.mass)
        C = noise(target, WithReplacement())
        largest = np.linalg.eigvalsh(C / np.outer(root, root))[-1]
        scales = Scales(
            step=float(np.sqrt(self.s * target.temperature / largest)),
            langevin_step=float(self.s * target.temperature / (2 * np.linalg.eigvalsh(C)[-1])),
            friction=self.friction,
            mass=1.0 if np.all(target.mass == 1) else target.unravel(target.mass),
        )
        sampler = dataclasses.replace(method(self.method)(scales), temperature=target.temperature)
        if self.thermal_mass is None:
            return sampler
        mu = jnp.asarray(self.thermal_mass)
        return eqx.tree_at(lambda s: s.thermal_mass, sampler, mu, is_leaf=lambda x: x is None)

    def linear(self, covariance: np.ndarray | None = None) -> Linear:
        """Return the Gaussian with the target's moments and mean noise, which theory can solve.

        The noise is averaged over parameters with this `covariance`, by default that of the posterior.
        """
        target, plan = self.problem, self.minibatch
        N, n = target.num_data, target.batch_size
        reshuffled = isinstance(plan, Reshuffled)
        return Linear(
            P=target.precision,
            m=target.mass,
            C=noise(target, plan, covariance),
            T=target.temperature,
            carry=n / (N - n) if reshuffled else 0.0,
            epoch=N // n if reshuffled else 0,
        )


def noise(target: Target, plan: MinibatchPlan, covariance: np.ndarray | None = None) -> np.ndarray:
    """Return the exact covariance of the noisy force: (N^2/n) S times the plan's factor; S has divisor N - 1.

    The factors are derived here from the definition of each plan, independently of those in the plans' code.
    """
    N, n = target.num_data, target.batch_size
    match plan:
        case AllRows():
            factor = 0.0
        case WithReplacement():
            factor = 1 - 1 / N
        case WithoutReplacement() | Reshuffled():
            factor = 1 - n / N
        case RandomBlocks(rows_per_run=r):
            factor = 1 - ((n // r) * r**2 + (n % r) ** 2) / (n * N)
        case _:
            name = type(plan).__name__
            raise TypeError(
                f"`plan` must be one whose noise factor is known; got `{name}`. Add its factor here."
            )
    S = target.row_covariance if covariance is None else target.row_covariance_for(covariance)
    return N**2 / n * factor * S


@functools.cache
def _target(name: str) -> Target:
    return TARGETS[name]()


def _cases() -> list[Case]:
    pairs = itertools.product(TARGETS, METHODS)
    # A dense square root in 400 dimensions at every step would take hours and add no evidence.
    costly = {
        "ModifiedSGLD dense",
        "ModifiedSGLD first-order",
        "SGHMC dense",
        "CCAdL dense",
        "CCAdL symmetric",
    }
    usual = [Case(t, m, s=usual_s(m)) for t, m in pairs if not (t == "many" and m in costly)]
    compared = ("SGHMC dense", "SGNHT", "CCAdL diagonal", "CCAdL dense")
    plans = [Case("regression-ill", m, plan=p) for p in PLANS for m in compared if p != "with replacement"]
    exact = [
        Case(t, m, gradient="full data")
        for t in ("gaussian-cold", "poisson", "heavy-tailed")
        for m in ("SGHMC", "SGNHT", "CCAdL dense")
    ]
    large_steps = [Case("regression-ill", m, s=s) for s in (0.2, 0.5) for m in compared]
    weak_friction = [
        Case("gaussian", m, friction=0.2) for m in ("SGHMC diagonal", "SGHMC dense", "CCAdL dense")
    ]
    large_steps_exact = [Case("gaussian-cold", m, gradient="full data", s=1.0) for m in ("SGHMC", "SGNHT")]
    heavy_thermostat = [
        Case(t, m, thermal_mass=100.0)
        for t in ("gaussian", "regression-ill")
        for m in ("SGNHT", "CCAdL diagonal", "CCAdL dense")
    ]
    variants = [Case(t, m, s=usual_s(m)) for t in ("gaussian", "regression-ill", "poisson") for m in VARIANTS]
    # Steps too large for Euler. The noise of "gaussian" grows with the parameters, and a fluctuating xi turns
    # that into heat, so its thermal mass is large.
    large_symmetric = [
        Case(t, "CCAdL symmetric", s=s, thermal_mass=100.0 if t == "gaussian" else None)
        for t in ("gaussian", "regression-ill", "poisson")
        for s in (0.25, 1.0, 4.0)
    ]
    large_symmetric += [
        Case("regression-ill", m, s=1.0)
        for m in ("SGNHT symmetric", "CCAdL diagonal symmetric", "CCAdL low rank symmetric")
    ]
    large_symmetric += [
        Case("regression-ill", m, s=0.25) for m in ("CCAdL midpoint", "CCAdL matrix-free symmetric")
    ]
    exact_symmetric = [
        Case(t, "CCAdL symmetric", gradient="full data", s=1.0) for t in ("gaussian-cold", "poisson")
    ]
    plans_symmetric = [
        Case("regression-ill", "CCAdL symmetric", plan=p) for p in ("without replacement", "random blocks")
    ]
    many_dimensions = [
        Case("many", m) for m in ("CCAdL low rank", "CCAdL matrix-free", "CCAdL diagonal symmetric")
    ]
    return [
        *usual,
        *plans,
        *exact,
        *large_steps,
        *weak_friction,
        *large_steps_exact,
        *heavy_thermostat,
        *variants,
        *large_symmetric,
        *exact_symmetric,
        *plans_symmetric,
        *many_dimensions,
    ]


CASES = _cases()

QUICK_SET = {
    *(Case(t, "CCAdL dense") for t in TARGETS if t != "many"),
    *(Case("gaussian", m) for m in METHODS if "SGLD" not in m),
    *(Case("regression", m, s=usual_s(m)) for m in ("SGLD", "ModifiedSGLD dense")),
    *(Case("regression-ill", "CCAdL dense", plan=p) for p in PLANS),
    *(Case("many", m) for m in ("SGNHT", "CCAdL diagonal")),
    Case("regression", "SGNHT"),
    Case("poisson", "CCAdL dense", gradient="full data"),
    Case("regression-ill", "CCAdL dense", s=0.2),
    Case("gaussian-cold", "SGHMC", gradient="full data", s=1.0),
    Case("gaussian", "SGNHT", thermal_mass=100.0),
    *(Case("regression-ill", "CCAdL symmetric", s=s) for s in (1.0, 4.0)),
    *(
        Case("gaussian", m)
        for m in ("CCAdL low rank", "CCAdL matrix-free symmetric", "SGHMC dense symmetric")
    ),
}
QUICK = [case for case in CASES if case in QUICK_SET]


def cases_of(name: str, *, quick: bool) -> list[Case]:
    """Return the rows for a user's sampler, `file.py:function`: every target, or three of them if `quick`."""
    targets = ("gaussian", "regression", "poisson") if quick else tuple(TARGETS)
    return [Case(target, name, s=usual_s(name)) for target in targets]
