"""The covariance-controlled adaptive Langevin thermostat."""

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from isotherm.covariance import Covariance, Diagonal
from isotherm.hyper import Hyper, hyper_parameter, mass_field, required_hyper_parameter
from isotherm.samplers.adaptive import AdaptiveLangevin
from isotherm.samplers.base import check_covariance
from isotherm.samplers.momentum import Scheme


class CCAdL(AdaptiveLangevin):
    r"""Covariance-controlled adaptive Langevin thermostat (Shang, Zhu, Leimkuhler & Storkey 2015).

    $$d\theta = M^{-1}p\,dt, \quad
      dp = -\nabla U\,dt + \sqrt{hC}\,dW - \tfrac h2\beta CM^{-1}p\,dt - \xi p\,dt
      + \sqrt{2A\beta^{-1}}M^{1/2}dW_A, \quad d\xi = \mu^{-1}(p^TM^{-1}p - N_d/\beta)\,dt,$$

    with stationary density $e^{-\beta H}e^{-\beta\mu(\xi-A)^2/2}$ for any $C(\theta)$: a friction proportional to C
    balances the gradient noise, and the thermostat absorbs only what the estimate of C misses.
    Scheme `"euler"`, Algorithm 1 of the paper:

    $$\theta \leftarrow \theta + hM^{-1}p, \quad
      p \leftarrow p - h\nabla\tilde U(\theta) - \tfrac{h^2}2\beta\hat CM^{-1}p - h\xi p
      + \sqrt{2Ah/\beta}\,M^{1/2}R, \quad
      \xi \leftarrow \xi + \tfrac h\mu(p^TM^{-1}p - N_d/\beta).$$

    Scheme `"symmetric"`, with $S = h^2\beta\hat CM^{-1}$: half a drift, half a step of xi, the exact solution for
    friction xi and noise A, half a step of xi, half a drift, the gradient, and the implicit midpoint rule

    $$p \leftarrow \bigl(I + \tfrac14S\bigr)^{-1}\bigl[\bigl(I - \tfrac14S\bigr)p - h\nabla\tilde U(\theta)\bigr],$$

    With `Dense` and `Diagonal` it keeps $p \sim N(0, M/\beta)$ under gradient noise of covariance C however large S
    is. The inverses of `DiagonalLowRank` and `MatrixFree` are approximate, and good for s up to 4 and 0.5.

    **Arguments:**

    - `step_size`, `friction`: h and A. A is the mean of xi if the control is right.
    - `covariance`: how C is estimated. `Dense()` controls all directions, `DiagonalLowRank(rank)` the leading ones,
      `MatrixFree()` all of them in any dimension, and `Diagonal()` each parameter by itself.
    - `scheme`: `"euler"`; `"euler-midpoint"`, whose thermostat is driven by the mean of the old and the new momentum;
      `"symmetric"`, which allows steps many times longer; or `"exponential"`, that of `ModifiedCCAdL`.
    - `thermal_mass`: mu; N_d if `None`. If infinite, xi stays constant.
    - `initial_xi`: xi before the first step; A if `None`.
    - `mass`: diagonal M, one number or a pytree like the parameters.
    - `temperature`: $1/\beta$; `None` takes the posterior's.
    """

    step_size: Hyper = required_hyper_parameter()
    friction: Hyper = required_hyper_parameter()
    covariance: Covariance | None = Diagonal()
    scheme: Scheme = eqx.field(default="euler", static=True, kw_only=True)
    mass: PyTree = mass_field()
    thermal_mass: Float[Array, ""] | float | None = hyper_parameter(kw_only=True)
    initial_xi: Float[Array, ""] | float | None = hyper_parameter(kw_only=True)
    temperature: Hyper | None = hyper_parameter(kw_only=True)

    def __check_init__(self) -> None:
        check_covariance(self, "SGNHT")
