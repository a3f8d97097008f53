"""Stochastic gradient Hamiltonian Monte Carlo."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.covariance import Covariance
from isotherm.hyper import Hyper, at, hyper_parameter, mass_field, required_hyper_parameter
from isotherm.records import GradientEstimate, Info, State, Temperatures
from isotherm.samplers.base import check_root, status_of
from isotherm.samplers.momentum import S_LIMITS, UNCONTROLLED_LIMIT, MomentumSampler, Scheme
from isotherm.samplers.traits import EXPLICIT, PARTIAL, UNCONTROLLED, Traits, constant


class SGHMC(MomentumSampler):
    r"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014).

    $$d\theta = M^{-1}p\,dt, \qquad dp = -\nabla U\,dt + \sqrt{hC}\,dW - A p\,dt
      + \sqrt{2\beta^{-1}(A M - \beta h C/2)}\,dW_A,$$

    with stationary density $e^{-\beta H}$, $H = U + p^T M^{-1}p/2$, as long as $AM - \beta hC/2$ is positive
    semidefinite. Scheme `"euler"`:

    $$\theta \leftarrow \theta + hM^{-1}p, \qquad
      p \leftarrow p - h\nabla\tilde U(\theta) - hAp + \eta, \quad
      \mathrm{Cov}\,\eta = \frac{2h}{\beta}\Bigl(AM - \frac{\beta h}{2}C\Bigr).$$

    Scheme `"symmetric"`: half a drift, the gradient, the same kick with the friction on (p_old + p_new)/2, and half a
    drift. On a quadratic potential the variance of its positions is exact at every stable step.

    **Arguments:**

    - `step_size`, `friction`: h and A.
    - `covariance`: how C is estimated. With `None` it is left out, and gradient noise heats the chain. Directions in
      which the matrix is negative (in the metric of M) are clipped and counted in `Info.clipped`.
    - `scheme`: `"euler"` or `"symmetric"`.
    - `mass`: diagonal M, one number or a pytree like the parameters.
    - `temperature`: $1/\beta$; `None` takes the posterior's.
    """

    step_size: Hyper = required_hyper_parameter()
    friction: Hyper = required_hyper_parameter()
    covariance: Covariance | None = None
    scheme: Scheme = eqx.field(default="euler", static=True, kw_only=True)
    mass: PyTree = mass_field()
    temperature: Hyper | None = hyper_parameter(kw_only=True)

    def __check_init__(self) -> None:
        check_root(self)

    @property
    def traits(self) -> Traits:
        noisy, exact = self.bias_orders
        h, A = constant(self.step_size), constant(self.friction)
        # A M - (beta h/2) C is, in units of M, A - s/(2 h).
        clips = None if self.covariance is None or h is None or A is None else 2 * h * A
        limit, remedy = S_LIMITS[self.scheme], EXPLICIT
        if self.scheme == "symmetric" and self.covariance is None:
            limit = UNCONTROLLED_LIMIT
        if self.covariance is None:
            remedy = UNCONTROLLED
        elif self.scheme == "symmetric":
            remedy = Traits.remedy if self.covariance.controls_all else PARTIAL
        return Traits(
            s_power=2,
            scheme=self.scheme,
            s_limit=limit,
            bias_order=noisy,
            exact_bias_order=exact,
            clips_above=clips,
            friction=A,
            remedy=remedy,
        )

    def temperatures(self, before: State, after: State, visited: PyTree) -> Temperatures:
        if self.scheme != "symmetric":
            return Temperatures(visited, self.leaf_temperatures(after.momentum))
        # The gradient is taken halfway, where a quadratic potential is hotter than at the two ends.
        position = tree.multiply(0.5, tree.add_scaled(before.position, (1.0, after.position)))
        middle = tree.multiply(0.5, tree.add_scaled(before.momentum, (1.0, after.momentum)))
        h, A = at(self.step_size, before.step), at(self.friction, before.step)
        return Temperatures(position, (1 + h * A / 2) * self.leaf_temperatures(middle))

    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        momentum = self.thermal_momentum(position, key=key)
        average = self._no_average(position, applies="root")
        return State(position, momentum, None, average, jnp.zeros((), jnp.int32))

    def drift(self, state: State, *, key: Key[Array, ""]) -> State:
        del key
        return self.drifted(state, 0.5 if self.scheme == "symmetric" else 1.0)

    def kick(self, state: State, estimate: GradientEstimate, *, key: Key[Array, ""]) -> tuple[State, Info]:
        h, A, T = (
            at(self.step_size, state.step),
            at(self.friction, state.step),
            self.temperature_at(state.step),
        )
        state = self._refreshed(self.learn(state, estimate), h / (2 * A * T))
        C, p, clipped = self._noise(state, estimate), state.momentum, None
        R = tree.normal_like(p, key=key)
        if C is not None:
            R, clipped = C.sqrt_remainder(h / (2 * A * T), R)
        eta = self.mass_root_times(R)
        terms = ((h, estimate.force), (-h * A, p), (jnp.sqrt(2 * A * h * T), eta))
        if self.scheme == "symmetric":  # friction on (p_old + p_new)/2
            terms = tuple((x / (1 + h * A / 2), y) for x, y in terms)
        new = tree.add_scaled(p, *terms)
        state = eqx.tree_at(lambda x: x.momentum, state, new)
        kinetic = self.kinetic_temperature(new)
        if self.scheme == "symmetric":
            state = self.drifted(state, 0.5)
            # On a quadratic potential the mean of this is 1/beta at every step size; that of p'M^-1p is not.
            middle = tree.multiply(0.5, tree.add_scaled(p, (1.0, new)))
            kinetic = (1 + h * A / 2) * self.kinetic_temperature(middle)
        info = Info(
            kinetic_temperature=kinetic,
            xi=None,
            clipped=clipped,
            status=status_of(kinetic),
        )
        return eqx.tree_at(lambda x: x.step, state, state.step + 1), info
