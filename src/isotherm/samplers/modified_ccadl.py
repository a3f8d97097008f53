"""CCAdL without a moving average, by splitting and an exponential."""

from typing import Any

from isotherm.covariance import Dense
from isotherm.samplers.ccadl import CCAdL


def ModifiedCCAdL(step_size: Any, friction: Any, **settings: Any) -> CCAdL:
    """Modified CCAdL in the manner of Wei & Shang (arXiv 2512.24515), as far as its description allows.

    The covariance is that of the current batch, without a moving average; its friction is solved by a truncated
    Taylor series after scaling; the step is a symmetric splitting, A D O D A and the gradient's kick between two
    halves of the covariance friction. The same as

        iso.CCAdL(step_size, friction, covariance=iso.Dense("exact", averaging=1.0), scheme="exponential")

    Where the noise of the batch is not Gaussian its own covariance correlates with the kick, which shifts the mean
    at large steps: prefer `CCAdL` with `scheme="symmetric"`.
    """
    return CCAdL(
        step_size, friction, covariance=Dense("exact", averaging=1.0), scheme="exponential", **settings
    )
