"""The covariance-controlled adaptive Langevin thermostat."""

import equinox as eqx
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm.covariance import Covariance, Diagonal, Operator
from isotherm.hyper import (
    Schedule,
    check_mass,
    check_positive,
    hyper_parameter,
    mass_field,
    required_hyper_parameter,
)
from isotherm.records import GradientEstimate, Info, Needs, State
from isotherm.samplers import adaptive
from isotherm.samplers.base import Sampler, Scheme, check_scheme, momentum_stability


class CCAdL(Sampler):
    r"""Covariance-controlled adaptive Langevin thermostat (Shang, Zhu, Leimkuhler & Storkey 2015).

    $$d\theta = M^{-1}p\,dt, \quad dp = -\nabla U\,dt + \sqrt{hC}\,dW - \tfrac h2\beta CM^{-1}p\,dt - \xi p\,dt
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

    step_size: Float[Array, ""] | Schedule = required_hyper_parameter()
    friction: Float[Array, ""] | Schedule = required_hyper_parameter()
    covariance: Covariance = Diagonal()
    scheme: Scheme = eqx.field(default="euler", static=True, kw_only=True)
    mass: PyTree = mass_field()
    thermal_mass: Float[Array, ""] | None = hyper_parameter(kw_only=True)
    initial_xi: Float[Array, ""] | None = hyper_parameter(kw_only=True)
    temperature: Float[Array, ""] | Schedule | None = hyper_parameter(kw_only=True)

    def __check_init__(self) -> None:
        for name in ("step_size", "friction", "temperature"):
            check_positive(self, name)
        check_positive(self, "thermal_mass", finite=False)
        check_mass(self)
        check_scheme(self)

    @property
    def needs(self) -> Needs:
        return self.covariance.needs

    def stability(self, C: Operator, step: Int[Array, ""]) -> Float[Array, ""]:
        return momentum_stability(self, C, step)

    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        return adaptive.start(self, position, self.covariance.init(position), key=key)

    def drift(self, state: State, *, key: Key[Array, ""]) -> State:
        del key
        return adaptive.fly(self, state)

    def kick(self, state: State, estimate: GradientEstimate, *, key: Key[Array, ""]) -> tuple[State, Info]:
        average = self.covariance.update(state.covariance, estimate)
        return adaptive.kick(self, state, estimate, average, key=key)
