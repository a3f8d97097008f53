"""The stochastic gradient Nose-Hoover thermostat."""

import equinox as eqx
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm.covariance import Operator
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


class SGNHT(Sampler):
    r"""Stochastic gradient Nosé-Hoover thermostat (Ding et al. 2014), the adaptive Langevin thermostat.

    $$d\theta = M^{-1}p\,dt, \quad dp = -\nabla U\,dt + \sqrt{hC}\,dW - \xi p\,dt
      + \sqrt{2A\beta^{-1}}M^{1/2}dW_A, \quad d\xi = \mu^{-1}(p^TM^{-1}p - N_d/\beta)\,dt.$$

    If C = sigma^2 M with sigma constant, the stationary density is
    $e^{-\beta H}e^{-\beta\mu(\xi-\bar\xi)^2/2}$ with $\bar\xi = A + \beta h\sigma^2/2$. For any other C it is
    not the target: the thermostat holds the mean temperature and hides that directions differ.
    Scheme `"euler"`:

    $$\theta \leftarrow \theta + hM^{-1}p, \quad
      p \leftarrow p - h\nabla\tilde U(\theta) - h\xi p + \sqrt{2Ah/\beta}\,M^{1/2}R, \quad
      \xi \leftarrow \xi + \tfrac h\mu(p^TM^{-1}p - N_d/\beta).$$

    **Arguments:**

    - `step_size`, `friction`: h and A.
    - `thermal_mass`: mu, N_d where `None`; infinite freezes xi.
    - `initial_xi`: xi before the first step; A where `None`.
    - `mass`: diagonal M, one number or a pytree like the parameters.
    - `temperature`: $1/\beta$; `None` takes the posterior's.
    """

    step_size: Float[Array, ""] | Schedule = required_hyper_parameter()
    friction: Float[Array, ""] | Schedule = required_hyper_parameter()
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
        return Needs.NOTHING

    def stability(self, C: Operator, step: Int[Array, ""]) -> Float[Array, ""]:
        return momentum_stability(self, C, step)

    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        return adaptive.start(self, position, None, key=key)

    def drift(self, state: State, *, key: Key[Array, ""]) -> State:
        del key
        return adaptive.fly(self, state)

    def kick(self, state: State, estimate: GradientEstimate, *, key: Key[Array, ""]) -> tuple[State, Info]:
        return adaptive.kick(self, state, estimate, None, key=key)
