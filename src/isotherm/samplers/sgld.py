"""Stochastic gradient Langevin dynamics."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.covariance import Covariance
from isotherm.hyper import Hyper, at, hyper_parameter, required_hyper_parameter
from isotherm.records import GradientEstimate, Info, State
from isotherm.samplers.base import LangevinSampler, status_of
from isotherm.samplers.traits import UNCONTROLLED, Traits


class SGLD(LangevinSampler):
    r"""Stochastic gradient Langevin dynamics (Welling & Teh 2011).

    $$d\theta = -\nabla U\,dt + \sqrt{2\beta^{-1}}\,dW, \qquad
      \theta \leftarrow \theta - h\,\nabla\tilde U(\theta) + \sqrt{2h/\beta}\,R.$$

    Nothing compensates for the gradient noise: relative variances are too large by about $h\beta C/2$, so the more
    noise, the smaller the step must be. The stationary density tends to $e^{-\beta U}$ as h tends to 0.

    **Arguments:**

    - `step_size`: h, a time step of the SDE. A schedule of the step number gives the decreasing steps of the
      original paper.
    - `temperature`: $1/\beta$; `None` takes the posterior's.
    """

    step_size: Hyper = required_hyper_parameter()
    temperature: Hyper | None = hyper_parameter(kw_only=True)

    covariance: Covariance | None = eqx.field(default=None, init=False)  # gradient noise is not controlled

    @property
    def traits(self) -> Traits:
        return Traits(s_power=1, s_limit=0.25, remedy=UNCONTROLLED)

    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        del key
        return State(position, None, None, None, jnp.zeros((), jnp.int32))

    def kick(self, state: State, estimate: GradientEstimate, *, key: Key[Array, ""]) -> tuple[State, Info]:
        h, T = at(self.step_size, state.step), self.temperature_at(state.step)
        R = tree.normal_like(state.position, key=key)
        position = tree.add_scaled(state.position, (h, estimate.force), (jnp.sqrt(2 * h * T), R))
        info = Info(
            kinetic_temperature=None,
            xi=None,
            clipped=None,
            status=status_of(tree.dot(position, position)),
        )
        return eqx.tree_at(lambda x: (x.position, x.step), state, (position, state.step + 1)), info
