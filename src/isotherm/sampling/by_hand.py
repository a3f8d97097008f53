"""`setup`: a setup prepared from settings that the user chooses."""

import dataclasses

import equinox as eqx
import jax
from jaxtyping import PyTree

from isotherm.caller import check_caller
from isotherm.chains.problem import Problem
from isotherm.chains.setup import Setup, at_temperature
from isotherm.chains.starts import GivenStarts
from isotherm.data.plans import AllRows, MinibatchPlan, WithReplacement
from isotherm.data.stream import Stream
from isotherm.draws.record import Reason, describe
from isotherm.errors import check_count, check_flag, must
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Gradient, Minibatch
from isotherm.kernel import Kernel
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.samplers.base import Sampler
from isotherm.sampling import checks
from isotherm.sampling.prepare import freed, prepare


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choices:
    """The settings of a run beside its sampler, as `iso.sample` takes them."""

    batch_size: int | None = None
    thinning: int = 1
    burn_in: int = 0
    num_chains: int = 4
    minibatch: MinibatchPlan | None = None
    gradient: Gradient | None = None
    preconditioner: Preconditioner | None = None
    init_scale: float = 0.0
    init_per_chain: bool | None = None


def setup(
    posterior: Posterior,
    data: PyTree,
    init: PyTree,
    *,
    sampler: Sampler,
    batch_size: int | None = None,
    thinning: int = 1,
    burn_in: int = 0,
    num_chains: int = 4,
    minibatch: MinibatchPlan | None = None,
    gradient: Gradient | None = None,
    preconditioner: Preconditioner | None = None,
    init_scale: float = 0.0,
    init_per_chain: bool | None = None,
) -> Setup:
    """Return a setup for `iso.sample`, to inspect before sampling or to use several times.

    `iso.sample(posterior, data, iso.setup(posterior, data, init, ...))` and `iso.sample(posterior, data, init, ...)`
    return the same draws.
    Arguments are those of `iso.sample`. `num_chains` is the number of starts in `init` if it has one per chain.
    """
    choices = Choices(
        batch_size=batch_size,
        thinning=thinning,
        burn_in=burn_in,
        num_chains=num_chains,
        minibatch=minibatch,
        gradient=gradient,
        preconditioner=preconditioner,
        init_scale=init_scale,
        init_per_chain=init_per_chain,
    )
    check_caller("iso.setup", data=data, init=init)
    (made,) = setups(posterior, data, init, [sampler], choices)
    made.problem.remember_rows()
    return made


def setups(
    posterior: Posterior, data: PyTree, init: PyTree, samplers: list[Sampler], choices: Choices
) -> list[Setup]:
    """Return one setup for each of `samplers`. Everything is checked before anything is computed."""
    plan = WithReplacement() if choices.minibatch is None else choices.minibatch
    gradient = Minibatch() if choices.gradient is None else choices.gradient
    for sampler in samplers:
        checks.check_kinds(posterior, sampler, plan, gradient, choices.preconditioner)
        checks.check_temperature(posterior, sampler)
    choices = _checked(choices)
    problem = prepare(
        posterior,
        data,
        init,
        num_chains=choices.num_chains,
        init_per_chain=choices.init_per_chain,
        latents_allowed=gradient.all_rows,
    )
    batch_size = choices.batch_size
    if isinstance(problem.data, Stream):
        _check_stream(plan, gradient, problem.num_data)
    if gradient.all_rows:
        plan, batch_size = AllRows(), problem.num_data
    elif batch_size is None:
        raise must("batch_size", "a number of rows if a sampler is given", None)
    batch_size = checks.check_batch_size(batch_size, problem.num_data, samplers, gradient)
    plan.check(problem.num_data)
    gradient = _for_free_parameters(gradient, problem)
    start = jax.tree.map(lambda x: x[0], problem.init) if problem.per_chain else problem.init
    if choices.preconditioner is not None:
        checks.check_coordinates(choices.preconditioner, start)
    starts = GivenStarts(problem.init, problem.per_chain, choices.init_scale)
    made = []
    for sampler in samplers:
        sampler = at_temperature(sampler, posterior)
        _check_mass(sampler, start)
        coordinates = (choices.preconditioner, posterior.constraint)
        kernel = Kernel(sampler, gradient, problem.num_data, batch_size, plan, *coordinates)
        reasons = tuple(_reasons(kernel, choices))
        made.append(Setup(problem, kernel, starts, choices.burn_in, choices.thinning, reasons))
    return made


def _check_stream(plan: MinibatchPlan, gradient: Gradient, num_data: int) -> None:
    """Raise if the rows cannot be read from a source as the plan and the gradient need them."""
    plan.check_stream(num_data)
    if gradient.all_rows:
        rule = "one that uses some rows in each step, if they are read from a source"
        raise must("gradient", rule, type(gradient).__name__, "Use `iso.ControlVariate()`, or pass arrays.")


def _for_free_parameters(gradient: Gradient, problem: Problem) -> Gradient:
    """Return the gradient for the free parameters, if its posterior is open or is the user's posterior."""
    target = getattr(gradient, "posterior", problem.density)
    if hasattr(gradient, "posterior") and (target is None or target is problem.posterior):
        gradient = eqx.tree_at(lambda g: g.posterior, gradient, problem.density, is_leaf=lambda x: x is None)
    if isinstance(gradient, ControlVariate) and gradient.anchor is not None and gradient.sums is None:
        anchor = freed(gradient.anchor, problem.posterior, "anchor")
        gradient = eqx.tree_at(lambda g: g.anchor, gradient, anchor)
    return gradient


def _checked(choices: Choices) -> Choices:
    """Return the choices, with counts and scales as numbers of Python. Raises if one of them cannot be."""
    if choices.init_per_chain is not None:
        check_flag("init_per_chain", choices.init_per_chain)
    return dataclasses.replace(
        choices,
        thinning=check_count("thinning", choices.thinning, minimum=1, below=2**31),
        burn_in=check_count("burn_in", choices.burn_in, minimum=0, below=2**31),
        num_chains=check_count("num_chains", choices.num_chains, minimum=1, below=2**31),
        init_scale=checks.check_init_scale(choices.init_scale),
    )


def _check_mass(sampler: Sampler, start: PyTree) -> None:
    """Raise if the shapes of the mass do not fit the parameters."""
    jax.eval_shape(lambda x: sampler.init(x, key=jax.random.key(0)), start)


def _reasons(kernel: Kernel, choices: Choices) -> list[Reason]:
    """Return the settings, with which were given and which are defaults."""
    sampler, preconditioner = describe(kernel.sampler), kernel.preconditioner
    origin = lambda name: "the default" if getattr(choices, name) is None else "given"
    rows = [Reason("sampler", sampler.pop("name"), "given")]
    for name, value in sampler.items():
        if value is not None:
            value = value["name"] if isinstance(value, dict) and "name" in value else value
            rows.append(Reason(name, f"{value:.4g}" if isinstance(value, float) else str(value), ""))
    return [
        *rows,
        Reason("gradient", type(kernel.gradient).__name__, origin("gradient")),
        Reason("minibatch", type(kernel.minibatch).__name__, origin("minibatch")),
        Reason("batch_size", str(kernel.batch_size), f"of {kernel.num_data} rows"),
        Reason("preconditioner", "none" if preconditioner is None else type(preconditioner).__name__, ""),
        Reason("burn_in", str(choices.burn_in), "steps"),
        Reason("thinning", str(choices.thinning), "steps"),
    ]
