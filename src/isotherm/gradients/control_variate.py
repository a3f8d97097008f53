"""Control variates: the sum of all gradients at an anchor is known, and only the change from there is estimated."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from isotherm import tree
from isotherm.errors import check_count, must
from isotherm.gradients.minibatch import Gradient, Minibatch
from isotherm.posterior import Posterior
from isotherm.records import Batch, GradientEstimate, Needs
from isotherm.sums import passes


class ControlVariate(Gradient):
    r"""The minibatch gradient of what a Taylor expansion around an anchor $a$ leaves of each row.

    $$\tilde F = \sum_{i=1}^N\bigl[g_i(a) + H_i(a)\,\delta\bigr] + \nabla\log\pi(\theta)
      + \frac Nn\sum_{i\in B}\bigl[g_i(\theta) - g_i(a) - H_i(a)\,\delta\bigr], \qquad \delta = \theta - a,$$

    without the terms in $H_i$, the Hessians of the rows, to order 1. It has no bias, and its noise is that of the
    differences: near a mode smaller by the distance from the anchor over the distance on which a row's gradient
    changes, to the power of the order. The sums over all rows are taken once, in a pass over the data.

    **Arguments:**

    - `order`: 1, or 2, which keeps a matrix of d x d numbers and takes about twice as long in a step.
    - `anchor`: where to expand; the mean of the starts where `None`.
    - `refresh`: steps after which each chain takes its own position for its anchor, in a pass over the data. For
      posteriors without one mode, whose chains leave any anchor behind (SVRG); never where `None`.
    """

    posterior: Posterior | None = None
    order: Literal[1, 2] = eqx.field(default=1, static=True, kw_only=True)
    anchor: PyTree = eqx.field(default=None, kw_only=True)
    refresh: int | None = eqx.field(default=None, static=True, kw_only=True)
    sums: Any = eqx.field(default=None, kw_only=True)

    all_rows = False

    def __check_init__(self) -> None:
        if self.order not in (1, 2):
            raise must("order", "1 or 2", self.order)
        if self.refresh is not None:
            check_count("refresh", self.refresh, minimum=1)
            if self.order != 1:
                raise must("order", "1 where there is a `refresh`, which takes no Hessian", self.order)

    def bound(self, posterior: Posterior, data: PyTree, start: PyTree) -> "ControlVariate":
        """With posterior, anchor and sums filled in where they are open: one pass over the data."""
        if self.sums is not None:
            return self
        posterior = posterior if self.posterior is None else self.posterior
        anchor = start if self.anchor is None else self.anchor
        if jax.tree.structure(anchor) != jax.tree.structure(start):
            raise must("anchor", "a pytree like the parameters", jax.tree.structure(anchor))
        anchor = jax.tree.map(lambda a, x: jnp.asarray(a, x.dtype), anchor, start)
        for (name, a), x in zip(tree.named_leaves(anchor), jax.tree.leaves(start), strict=True):
            if a.shape != x.shape:
                raise must(f"anchor.{name}" if name else "anchor", f"of shape {x.shape}", a)
        total = passes.sums(posterior, data, anchor, order=self.order)
        like = tree.ravel(anchor).dtype
        sums = jax.tree.map(lambda x: jnp.asarray(x, like), total)
        return ControlVariate(posterior, order=self.order, anchor=anchor, refresh=self.refresh, sums=sums)

    def anchored(self, data: PyTree, thetas: PyTree[Array]) -> "Anchor":
        """An anchor for each of several chains, along the leading axis of `thetas`: a pass over the data for each."""
        assert self.posterior is not None
        value, gradient = passes.sums_at(self.posterior, data, thetas)
        like = tree.ravel(thetas).dtype
        return Anchor(thetas, (jnp.asarray(value, like), jnp.asarray(gradient, like), None))

    def at(self, anchor: "Anchor") -> "ControlVariate":
        """The same around the anchor of one chain."""
        return eqx.tree_at(lambda g: (g.anchor, g.sums), self, (anchor.theta, anchor.sums))

    def __call__(
        self, position: PyTree, batch: Batch, *, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        return Minibatch(self.expanded)(position, batch, needs=needs, key=key)

    @property
    def expanded(self) -> Posterior:
        """The same posterior: what is left of each row, and in place of the prior the prior and the known sums."""
        if self.posterior is None or self.anchor is None or self.sums is None:
            raise ValueError(
                "`ControlVariate` must be bound outside `iso.sample`: `.bound(posterior, data, start)` does it."
            )
        rest = Rest(self.posterior, self.anchor, self.order)
        known = Known(self.posterior, self.anchor, self.sums)
        return Posterior(rest, known, batched=True, temperature=self.posterior.temperature)


class Anchor(eqx.Module):
    """Where a chain's gradient is expanded, and the sums over all rows there."""

    theta: PyTree[Array]
    sums: tuple[Array, Array, None]


class Rest(eqx.Module):
    """The log-likelihood of each row less its expansion around the anchor."""

    posterior: Posterior
    anchor: PyTree[Array]
    order: int = eqx.field(static=True)

    def __call__(self, theta: PyTree, rows: PyTree) -> Float[Array, " n"]:
        """One value per row."""
        f = lambda x: self.posterior.row_log_likelihoods(x, rows)
        change = tree.subtract(theta, self.anchor)
        along = lambda x: jax.jvp(f, (x,), (change,))
        if self.order == 1:
            value, slope = along(self.anchor)
            return f(theta) - value - slope
        (value, slope), (_, curvature) = jax.jvp(along, (self.anchor,), (change,))
        return f(theta) - value - slope - curvature / 2


class Known(eqx.Module):
    """The log-prior and the expansion of the log-likelihood of all rows."""

    posterior: Posterior
    anchor: PyTree[Array]
    sums: tuple[Array, Array, Array | None]

    def __call__(self, theta: PyTree) -> Float[Array, ""]:
        """The log-density that needs no rows."""
        value, gradient, hessian = self.sums
        change = tree.ravel(tree.subtract(theta, self.anchor))
        total = self.posterior.prior_log_density(theta) + value + gradient @ change
        return total if hessian is None else total + change @ (hessian @ change) / 2
