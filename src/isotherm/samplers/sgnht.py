"""The stochastic gradient Nose-Hoover thermostat."""

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from isotherm.covariance import Covariance
from isotherm.hyper import Hyper, hyper_parameter, mass_field, required_hyper_parameter
from isotherm.samplers.adaptive import AdaptiveLangevin
from isotherm.samplers.momentum import Scheme


class SGNHT(AdaptiveLangevin):
    r"""Stochastic gradient Nosé-Hoover thermostat (Ding et al. 2014), the adaptive Langevin thermostat.

    $$d\theta = M^{-1}p\,dt, \quad dp = -\nabla U\,dt + \sqrt{hC}\,dW - \xi p\,dt
      + \sqrt{2A\beta^{-1}}M^{1/2}dW_A, \quad d\xi = \mu^{-1}(p^TM^{-1}p - N_d/\beta)\,dt.$$

    If C = sigma^2 M with sigma constant, the stationary density is
    $e^{-\beta H}e^{-\beta\mu(\xi-\bar\xi)^2/2}$ with $\bar\xi = A + \beta h\sigma^2/2$. For any other C it is
    not the target: the thermostat holds the mean temperature, which hides that directions differ.
    Scheme `"euler"`:

    $$\theta \leftarrow \theta + hM^{-1}p, \quad
      p \leftarrow p - h\nabla\tilde U(\theta) - h\xi p + \sqrt{2Ah/\beta}\,M^{1/2}R, \quad
      \xi \leftarrow \xi + \tfrac h\mu(p^TM^{-1}p - N_d/\beta).$$

    **Arguments:**

    - `step_size`, `friction`: h and A.
    - `scheme`: `"euler"`; `"euler-midpoint"`, whose thermostat is driven by the mean of the old and the new momentum;
      or `"symmetric"`, of second order.
    - `thermal_mass`: mu; N_d if `None`. If infinite, xi stays constant.
    - `initial_xi`: xi before the first step; A if `None`.
    - `mass`: diagonal M, one number or a pytree like the parameters.
    - `temperature`: $1/\beta$; `None` takes the posterior's.
    """

    step_size: Hyper = required_hyper_parameter()
    friction: Hyper = required_hyper_parameter()
    scheme: Scheme = eqx.field(default="euler", static=True, kw_only=True)
    mass: PyTree = mass_field()
    thermal_mass: Float[Array, ""] | float | None = hyper_parameter(kw_only=True)
    initial_xi: Float[Array, ""] | float | None = hyper_parameter(kw_only=True)
    temperature: Hyper | None = hyper_parameter(kw_only=True)

    covariance: Covariance | None = eqx.field(default=None, init=False)  # xi absorbs the gradient noise
