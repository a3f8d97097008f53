"""The traits of a sampler: plain values that are saved with its draws."""

import dataclasses

from isotherm.hyper import Hyper

# Remedies of several samplers.
UNCONTROLLED = "control the noise with `iso.CCAdL` and `iso.Dense()`, or reduce step_size"
EXPLICIT = 'reduce step_size, or use scheme="symmetric"'
PARTIAL = "reduce step_size, raise batch_size, or control all directions with `iso.Dense()`"


@dataclasses.dataclass(frozen=True)
class Thermostat:
    """The thermostat variable xi of a sampler.

    - `friction`: A, the mean of xi if all gradient noise is controlled.
    - `start`: xi before the first step.
    - `mass`: mu; `None` is the number of parameters.
    - `controlled`: whether a covariance absorbs the gradient noise. If not, xi has to, and its mean is larger by the
      friction that balances the noise.
    """

    friction: float
    start: float
    mass: float | None
    controlled: bool

    def mean(self, noise_friction: float | None) -> float | None:
        """Return the theoretical mean of xi, given the friction that balances the gradient noise."""
        if self.controlled:
            return self.friction
        return None if noise_friction is None else self.friction + noise_friction


@dataclasses.dataclass(frozen=True)
class Traits:
    """What the rest of the library needs to know about a sampler to choose settings, warn and judge.

    - `s_power`: s, the largest eigenvalue of S, grows with this power of the step size: 2 with a momentum, 1 without.
    - `scheme`: the name of the discretisation, for messages.
    - `s_limit`: largest s at which draws can be trusted; `None` if no limit is known.
    - `bias_order`: the power of the step size in the bias of averages; `exact_bias_order`: the same with exact
      gradients.
    - `clips_above`: s above which the added noise would need a negative variance; `None` if that cannot happen.
    - `friction`: A; `None` if there is none or it follows a schedule.
    - `thermostat`: the thermostat; `None` if there is none or its friction follows a schedule.
    - `alternative`: a setting of the sampler that tolerates a larger s, and that s: `('scheme="symmetric"', 4.0)`.
    - `remedy`: what to change first if variances are off.
    """

    s_power: int
    scheme: str = "euler"
    s_limit: float | None = None
    bias_order: int = 1
    exact_bias_order: int = 1
    clips_above: float | None = None
    friction: float | None = None
    thermostat: Thermostat | None = None
    alternative: tuple[str, float] | None = None
    remedy: str = "reduce step_size or raise batch_size"

    def step_for(self, h: float, s: float, target: float) -> float:
        """Return the step size at which s is `target`, given that it is `s` at step size `h`."""
        return h / (s / target) ** (1 / self.s_power)


def constant(value: Hyper | None) -> float | None:
    """Return a hyper-parameter as a number; `None` for a schedule and for one that is not set."""
    return None if value is None or callable(value) else float(value)
