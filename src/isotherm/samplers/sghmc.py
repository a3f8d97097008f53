"""Stochastic gradient Hamiltonian Monte Carlo."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.covariance import Covariance
from isotherm.hyper import Hyper, at, hyper_parameter, mass_field, required_hyper_parameter
from isotherm.records import GradientEstimate, Info, Needs, State
from isotherm.samplers.base import status_of, virial
from isotherm.samplers.momentum import MomentumSampler, Scheme


class SGHMC(MomentumSampler):
    r"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014).

    $$d\theta = M^{-1}p\,dt, \qquad dp = -\nabla U\,dt + \sqrt{hC}\,dW - A p\,dt
      + \sqrt{2\beta^{-1}(A M - \beta h C/2)}\,dW_A,$$

    with stationary density $e^{-\beta H}$, $H = U + p^T M^{-1}p/2$, as long as $AM - \beta hC/2$ is positive
    semidefinite. Scheme `"euler"`:

    $$\theta \leftarrow \theta + hM^{-1}p, \qquad
      p \leftarrow p - h\nabla\tilde U(\theta) - hAp + \eta, \quad
      \mathrm{Cov}\,\eta = \frac{2h}{\beta}\Bigl(AM - \frac{\beta h}{2}C\Bigr).$$

    **Arguments:**

    - `step_size`, `friction`: h and A.
    - `covariance`: how C is estimated; `None` leaves it out, and gradient noise then heats the chain. Where
      the matrix is indefinite it is clipped (in the metric of M) and counted in `Info.clipped`.
    - `mass`: diagonal M, one number or a pytree like the parameters.
    - `temperature`: $1/\beta$; `None` takes the posterior's.
    """

    step_size: Hyper = required_hyper_parameter()
    friction: Hyper = required_hyper_parameter()
    covariance: Covariance | None = None
    scheme: Scheme = eqx.field(default="euler", static=True, kw_only=True)
    mass: PyTree = mass_field()
    temperature: Hyper | None = hyper_parameter(kw_only=True)

    @property
    def needs(self) -> Needs:
        return Needs.NOTHING if self.covariance is None else self.covariance.needs

    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        average = None if self.covariance is None else self.covariance.init(position)
        momentum = self.thermal_momentum(position, key=key)
        return State(position, momentum, None, average, jnp.zeros((), jnp.int32))

    def settle(self, state: State) -> State:
        if self.covariance is None:
            return state
        return eqx.tree_at(lambda x: x.covariance, state, self.covariance.init(state.position))

    def kick(self, state: State, estimate: GradientEstimate, *, key: Key[Array, ""]) -> tuple[State, Info]:
        h, A = at(self.step_size, state.step), at(self.friction, state.step)
        T, p, average = self.temperature_at(state.step), state.momentum, state.covariance
        R = tree.normal_like(p, key=key)
        s, clipped = None, None
        if self.covariance is not None:
            average = self.covariance.update(average, estimate)
            R, clipped = average.operator.sqrt_remainder(h / (2 * A * T), R, self.mass)
            s = self.stability(average.operator, state.step)
        eta = self.mass_root_times(R)
        p = tree.add_scaled(p, (h, estimate.force), (-h * A, p), (jnp.sqrt(2 * A * h * T), eta))
        kinetic = self.kinetic_temperature(p)
        info = Info(
            kinetic_temperature=kinetic,
            virial=virial(state.position, estimate.force),
            xi=None,
            s=s,
            clipped=clipped,
            status=status_of(kinetic),
        )
        return State(state.position, p, None, average, state.step + 1), info
