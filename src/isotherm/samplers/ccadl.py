"""The covariance-controlled adaptive Langevin thermostat."""

import equinox as eqx
from jaxtyping import Array, Float, Key, PyTree

from isotherm.covariance import Covariance, Diagonal
from isotherm.hyper import Hyper, hyper_parameter, mass_field, required_hyper_parameter
from isotherm.records import GradientEstimate, Info, Needs, State
from isotherm.samplers.adaptive import AdaptiveLangevin
from isotherm.samplers.momentum import Scheme


class CCAdL(AdaptiveLangevin):
    r"""Covariance-controlled adaptive Langevin thermostat (Shang, Zhu, Leimkuhler & Storkey 2015).

    $$d\theta = M^{-1}p\,dt, \quad
      dp = -\nabla U\,dt + \sqrt{hC}\,dW - \tfrac h2\beta CM^{-1}p\,dt - \xi p\,dt
      + \sqrt{2A\beta^{-1}}M^{1/2}dW_A, \quad d\xi = \mu^{-1}(p^TM^{-1}p - N_d/\beta)\,dt,$$

    with stationary density $e^{-\beta H}e^{-\beta\mu(\xi-A)^2/2}$ for any $C(\theta)$: the gradient noise is
    damped by its own covariance and the thermostat takes up only what the estimate of C misses.
    Scheme `"euler"`, Algorithm 1 of the paper:

    $$\theta \leftarrow \theta + hM^{-1}p, \quad
      p \leftarrow p - h\nabla\tilde U(\theta) - \tfrac{h^2}2\beta\hat CM^{-1}p - h\xi p
      + \sqrt{2Ah/\beta}\,M^{1/2}R, \quad
      \xi \leftarrow \xi + \tfrac h\mu(p^TM^{-1}p - N_d/\beta).$$

    **Arguments:**

    - `step_size`, `friction`: h and A. A is the mean of xi when the control is right.
    - `covariance`: how C is estimated. `Dense()` controls all directions; `Diagonal()` each parameter alone.
    - `thermal_mass`: mu, N_d where `None`; infinite freezes xi.
    - `initial_xi`: xi before the first step; A where `None`.
    - `mass`: diagonal M, one number or a pytree like the parameters.
    - `temperature`: $1/\beta$; `None` takes the posterior's.
    """

    step_size: Hyper = required_hyper_parameter()
    friction: Hyper = required_hyper_parameter()
    covariance: Covariance = Diagonal()
    scheme: Scheme = eqx.field(default="euler", static=True, kw_only=True)
    mass: PyTree = mass_field()
    thermal_mass: Float[Array, ""] | float | None = hyper_parameter(kw_only=True)
    initial_xi: Float[Array, ""] | float | None = hyper_parameter(kw_only=True)
    temperature: Hyper | None = hyper_parameter(kw_only=True)

    @property
    def needs(self) -> Needs:
        return self.covariance.needs

    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        return self.start(position, self.covariance.init(position), key=key)

    def settle(self, state: State) -> State:
        return eqx.tree_at(lambda x: x.covariance, state, self.covariance.init(state.position))

    def kick(self, state: State, estimate: GradientEstimate, *, key: Key[Array, ""]) -> tuple[State, Info]:
        average = self.covariance.update(state.covariance, estimate)
        return self.thermostatted_kick(state, estimate, average, key=key)
