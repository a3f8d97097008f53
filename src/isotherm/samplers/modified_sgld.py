"""SGLD whose added noise is reduced by the noise of the gradient."""

import dataclasses
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.covariance import Covariance, Diagonal
from isotherm.errors import check_choice
from isotherm.hyper import Hyper, at, hyper_parameter, required_hyper_parameter
from isotherm.records import GradientEstimate, Info, State
from isotherm.samplers.base import LangevinSampler, check_covariance, check_root, status_of
from isotherm.samplers.traits import PARTIAL, Traits


class ModifiedSGLD(LangevinSampler):
    r"""SGLD corrected for its gradient noise (Vollmer, Zygalakis & Teh 2015).

    $$\theta \leftarrow \theta - h\,\nabla\tilde U(\theta) + \eta, \qquad
      \mathrm{Cov}\,\eta = \frac{2h}{\beta}\Bigl(I - \frac{h\beta}{2}C\Bigr),$$

    so that added and gradient noise together have the covariance $2h/\beta$ of Langevin dynamics. Directions
    in which the bracket is negative get no added noise. They stay too hot and are counted in `Info.clipped`.

    **Arguments:**

    - `step_size`: h.
    - `covariance`: how C is estimated.
    - `form`: `"exact"` takes the square root of the bracket. `"first-order"`, the published form, multiplies the
      noise vector by $I - (h\beta/4)C$, whose covariance is too large by $(h\beta/4)^2C^2$.
    - `temperature`: $1/\beta$; `None` takes the posterior's.
    """

    step_size: Hyper = required_hyper_parameter()
    covariance: Covariance | None = Diagonal()
    form: Literal["exact", "first-order"] = eqx.field(default="exact", static=True, kw_only=True)
    temperature: Hyper | None = hyper_parameter(kw_only=True)

    def __check_init__(self) -> None:
        check_covariance(self, "SGLD")
        check_choice("form` of `ModifiedSGLD", self.form, ("exact", "first-order"))
        if self.form == "exact":
            check_root(self)

    @property
    def traits(self) -> Traits:
        limit = 4.0  # above it the added noise would need a negative variance
        plain = Traits(s_power=1, s_limit=limit, clips_above=limit)
        whole = self.covariance is not None and self.covariance.controls_all
        return plain if whole else dataclasses.replace(plain, remedy=PARTIAL)

    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        del key
        average = self._no_average(position, applies="root" if self.form == "exact" else None)
        return State(position, None, None, average, jnp.zeros((), jnp.int32))

    def kick(self, state: State, estimate: GradientEstimate, *, key: Key[Array, ""]) -> tuple[State, Info]:
        h, T = at(self.step_size, state.step), self.temperature_at(state.step)
        state = self._refreshed(self.learn(state, estimate), h / (2 * T))
        C = self._noise(state, estimate)
        R = tree.normal_like(state.position, key=key)
        if self.form == "exact":
            eta, clipped = C.sqrt_remainder(h / (2 * T), R)
        else:
            eta, clipped = tree.add_scaled(R, (-h / (4 * T), C.mv(R))), None
        position = tree.add_scaled(state.position, (h, estimate.force), (jnp.sqrt(2 * h * T), eta))
        info = Info(
            kinetic_temperature=None,
            xi=None,
            clipped=clipped,
            status=status_of(tree.dot(position, position)),
        )
        return eqx.tree_at(lambda x: (x.position, x.step), state, (position, state.step + 1)), info
