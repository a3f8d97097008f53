"""CCAdL with the covariance of the current batch, by splitting and a matrix exponential."""

from jaxtyping import Array, Float, PyTree

from isotherm.covariance import Dense
from isotherm.hyper import Hyper, hyper_parameter, mass_field, required_hyper_parameter
from isotherm.samplers.adaptive import AdaptiveLangevin


class ModifiedCCAdL(AdaptiveLangevin):
    r"""Modified CCAdL in the manner of Wei & Shang (arXiv 2512.24515), as far as its description allows.

    The dynamics is that of `CCAdL`. The covariance is that of the current batch, without a moving average, and its
    friction is solved by scaling and a truncated Taylor series. The step is a symmetric splitting: half a drift, half
    a step of xi, the exact solution for friction xi and noise A, half a step of xi, half a drift, and the gradient's
    kick between two halves of the covariance friction,

    $$p \leftarrow e^{-S/4}\bigl(e^{-S/4}p - h\nabla\tilde U(\theta)\bigr), \qquad S = h^2\beta\hat CM^{-1}.$$

    It equals `iso.CCAdL(..., covariance=iso.Dense("exact", averaging=1.0), scheme="exponential")`. If the noise of a
    batch is not Gaussian, its covariance correlates with the kick, which shifts the mean at large steps: prefer
    `CCAdL` with `scheme="symmetric"`.

    **Arguments:**

    - `step_size`, `friction`: h and A.
    - `thermal_mass`: mu; N_d if `None`. If infinite, xi stays constant.
    - `initial_xi`: xi before the first step; A if `None`.
    - `mass`: diagonal M, one number or a pytree like the parameters.
    - `temperature`: $1/\beta$; `None` takes the posterior's.
    """

    step_size: Hyper = required_hyper_parameter()
    friction: Hyper = required_hyper_parameter()
    mass: PyTree = mass_field()
    thermal_mass: Float[Array, ""] | float | None = hyper_parameter(kw_only=True)
    initial_xi: Float[Array, ""] | float | None = hyper_parameter(kw_only=True)
    temperature: Hyper | None = hyper_parameter(kw_only=True)

    covariance = Dense("exact", averaging=1.0)
    scheme = "exponential"
