"""Effects of groups in coordinates that hardly depend on the scale of their prior.

With prior N(0, S) and information I_g from the rows of a level, the effects b_g are about normal given S, with
covariance V = (r I_g + S^-1)^-1 and mean V V_0^-1 m_g, where m_g is the mean at the center, and V_0 the covariance
there.
Chains move u_g, which has mean m_g and covariance V_0 whatever S is:

    b_g = V r (V_0^-1 m_g - B_g d) + F^-1 F_0 (u_g - m_g),    F' F = V^-1.

F is lower triangular. With S = L L' it is R L^-1, where R' R = 1 + r L' I_g L, which stays right as S goes to zero.
The factor r is 1 at the center and says how information depends on parameters of the likelihood: 1/sigma^2, say. For
the largest group, B_g d says how the mean follows the other coefficients, whose distance from the center is d.
A level with many rows is then in the centred form (b_g = u_g), one with few is in the non-centred form, and the
others are between the two.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PyTree

from isotherm import tree
from isotherm.arrow import Border, Parts
from isotherm.deviations import Deviations, prior_factor
from isotherm.own_levels import OwnLevels
from isotherm.posterior import Posterior
from isotherm.readable import Readable
from isotherm.small_matrices import Lower, reversed_cholesky
from isotherm.sums.precision import exact
from isotherm.transforms import Constraint

_FAR = 30.0  # largest change of log r


class Centring(Readable, eqx.Module):
    """The coordinates of one group.

    `information` is I_g, `mode` m_g, `weighted` V_0^-1 m_g, and `factor` F_0. `slopes` are the derivatives of log r
    along the outer parameters, or along their logarithms if they are positive. `by_dense` and `borders` are B_g, if
    effects follow the head.
    """

    leaf: str = eqx.field(static=True)
    scale: str = eqx.field(static=True)
    correlations: str | None = eqx.field(static=True)
    information: Float[Array, "G q q"]
    mode: Float[Array, "G q"]
    weighted: Float[Array, "G q"]
    factor: Float[Array, "G q q"]
    slopes: Float[Array, " o"]
    by_dense: Float[Array, "G q p"] | None = None
    borders: tuple[Border, ...] = ()

    @exact
    def effects(self, at: "_At", u: Float[Array, "G q"]) -> Float[Array, "G q"]:
        """Return b_g."""
        L, R = self._roots(at)
        apart = Lower(self.factor).times(u - self.mode)
        return R.solve(R.solve_transposed(self._mean(at) @ L) + apart) @ L.T

    @exact
    def coordinates(self, at: "_At", b: Float[Array, "G q"]) -> Float[Array, "G q"]:
        """Return u_g."""
        L, R = self._roots(at)
        whitened = solve_triangular(L, b.T, lower=True).T
        apart = R.times(whitened) - R.solve_transposed(self._mean(at) @ L)
        return self.mode + Lower(self.factor).solve(apart)

    @exact
    def log_stretch(self, at: "_At") -> Float[Array, ""]:
        """Return log |det db/du|, summed over the levels."""
        L, R = self._roots(at)
        by_level = Lower(self.factor).log_determinants() - R.log_determinants()
        return jnp.sum(by_level + jnp.sum(jnp.log(jnp.diagonal(L))))

    def _mean(self, at: "_At") -> Float[Array, "G q"]:
        """Return V^-1 times the mean of b_g."""
        weighted = self.weighted
        if self.by_dense is not None:
            weighted = weighted - self.by_dense @ at.head[: self.by_dense.shape[2]]
        for border in self.borders:
            weighted = border.add(-at.head, weighted)
        return self._information_ratio(at) * weighted

    def _information_ratio(self, at: "_At") -> Float[Array, ""]:
        return jnp.exp(jnp.clip(self.slopes @ at.outer, -_FAR, _FAR))

    def _roots(self, at: "_At") -> tuple[Float[Array, "q q"], Lower]:
        """Return L and R."""
        L = prior_factor(at.params, self.scale, self.correlations, self.mode.shape[1])
        by_prior = jnp.einsum("ji,gjk,kl->gil", L, self.information, L)
        return L, reversed_cholesky(
            jnp.eye(len(L), dtype=L.dtype)[None] + self._information_ratio(at) * by_prior
        )


class _At(NamedTuple):
    """Parameters by name, and the distance of outer ones, or of their logarithms, and of the head from the center."""

    params: dict[str, Array]
    outer: Float[Array, " o"]
    head: Float[Array, " h"]


class Charted(Readable, eqx.Module):
    """A constraint on parameters that chains move as the u_g of `centrings`; used in place of a `Constraint`.

    `positive` says which outer parameters enter by their logarithm, and `outer` holds them at the center. `head` is
    the center of the head, and `own` says how rows find their levels. Centrings are in the order of the parts: the
    largest group is the last.
    """

    constraint: Constraint | Deviations
    centrings: tuple[Centring, ...]
    parts: Parts = eqx.field(static=True)
    positive: tuple[bool, ...] = eqx.field(static=True)
    outer: Float[Array, " o"]
    head: Float[Array, " h"]
    own: OwnLevels

    def centred(self, free: PyTree) -> PyTree:
        """The free parameters, with b_g in the place of u_g."""
        params, out = self.constraint.constrained(free), free
        for c in self.centrings:  # the largest group follows the others, which are centred before it
            out = _replaced(out, c, c.effects(self._at(free, params, out), _levels(out, c)))
        return out

    def constrained(self, free: PyTree) -> PyTree:
        """The parameters from the coordinates of the chains."""
        return self.constraint.constrained(self.centred(free))

    def free(self, params: PyTree) -> PyTree:
        """The coordinates of the chains from parameters that are inside their support."""
        centred = out = self.constraint.free(params)
        for c in self.centrings:
            out = _replaced(out, c, c.coordinates(self._at(centred, params, centred), _levels(out, c)))
        return out

    def named(self) -> list[tuple[str, Any]]:
        """Transforms with the name of their leaf or branch; `None` if it is unconstrained."""
        return self.constraint.named()

    def log_volume(self, free: PyTree) -> Float[Array, ""]:
        """log |det d centred / d free| plus that of the constraint."""
        return self.constraint.log_volume(self.centred(free)) + self.log_stretch(free)

    def log_stretch(self, free: PyTree) -> Float[Array, ""]:
        """log |det d centred / d free|."""
        at = self._at(free, self.constraint.constrained(free), free)
        return sum((c.log_stretch(at) for c in self.centrings), start=jnp.zeros(()))

    def _at(self, free: PyTree, params: PyTree, centred: PyTree) -> _At:
        """Return what centrings depend on; outer parameters are the same in both kinds of coordinates."""
        outer = outer_numbers(self.parts, self.positive, free, params) - self.outer
        return _At(dict(tree.named_leaves(params)), outer, self.parts.split(centred)[1] - self.head)


def _levels(theta: PyTree, c: Centring) -> Float[Array, "G q"]:
    return dict(tree.named_leaves(theta))[c.leaf].reshape(c.mode.shape)


def _replaced(theta: PyTree, c: Centring, levels: Float[Array, "G q"]) -> PyTree:
    leaves = dict(tree.named_leaves(theta))
    leaves[c.leaf] = levels.reshape(leaves[c.leaf].shape)
    return jax.tree.unflatten(jax.tree.structure(theta), list(leaves.values()))


def outer_numbers(
    parts: Parts, positive: tuple[bool, ...], free: PyTree, params: PyTree
) -> Float[Array, " o"]:
    """Return the outer parameters, free ones or the logarithms of positive ones."""
    plain, which = parts.split(free)[0], np.array(positive, bool)
    # A constrained leaf may have another size than its free one, and is then not positive elementwise.
    same = lambda x, y: y if jnp.shape(x) == jnp.shape(y) else x
    constrained = parts.split(jax.tree.map(same, free, params))[0]
    return jnp.where(which, jnp.log(jnp.where(which, constrained, 1)), plain)


def charted(posterior: Posterior, chart: Charted) -> Posterior:
    """Return the density of the coordinates of the chains, for the `posterior` of the free parameters."""
    likelihood, prior = ChartedLikelihood(posterior, chart), ChartedPrior(posterior, chart)
    return Posterior(likelihood, prior, batched=True, temperature=posterior.temperature)


def uncharted(density: Posterior) -> Posterior:
    """Return the posterior of the free parameters, of which `density` may be that of the coordinates of a chart."""
    likelihood = density.log_likelihood
    return likelihood.posterior if isinstance(likelihood, ChartedLikelihood) else density


class ChartedLikelihood(Readable, eqx.Module):
    """The log-likelihoods of rows as a function of the coordinates of the chains."""

    posterior: Posterior
    chart: Charted

    def __call__(self, free: PyTree, rows: PyTree) -> Float[Array, " n"]:
        """Return one for each row."""
        return self.chart.own.row_log_likelihoods(self.posterior, self.chart.centred(free), rows)


class ChartedPrior(Readable, eqx.Module):
    """The log-prior of the coordinates of the chains. The factor T keeps the power of the volume in rho at 1."""

    posterior: Posterior
    chart: Charted

    def __call__(self, free: PyTree) -> Float[Array, ""]:
        """Return it at one position."""
        volume = self.chart.log_stretch(free)
        scaled = jnp.asarray(self.posterior.temperature, volume.dtype) * volume
        return self.posterior.prior_log_density(self.chart.centred(free)) + scaled
