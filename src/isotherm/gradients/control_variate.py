"""Control variates: the gradient of all rows at an anchor is known, and batches estimate only the change from it."""

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
    r"""The gradient of a Taylor expansion around an anchor $a$, plus a minibatch gradient of the remainder.

    $$\tilde F = \sum_{i=1}^N\bigl[g_i(a) + H_i(a)\,\delta\bigr] + \nabla\log\pi(\theta)
      + \frac Nn\sum_{i\in B}\bigl[g_i(\theta) - g_i(a) - H_i(a)\,\delta\bigr], \qquad \delta = \theta - a,$$

    with the terms in $H_i$, the Hessians of the rows, for order 2 only. It is unbiased, and its noise is that of the
    differences in the last sum. Near a mode they are smaller than the gradients by a factor r to the power of the
    order: r is the distance from the anchor over the distance on which a row's gradient changes. The sums over all
    rows are computed once, in a pass over the data.

    **Arguments:**

    - `order`: 1 or 2. Order 2 keeps a d x d matrix and takes about twice as long per step.
    - `anchor`: where to expand; the mean of the starts if `None`.
    - `refresh`: number of steps after which each chain moves its anchor to its current position, by a pass over the
      data (SVRG). For posteriors without a single mode, whose chains leave any anchor behind. Never if `None`.
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
                raise must("order", "1 if `refresh` is given, which computes no Hessian", self.order)

    def bound(self, posterior: Posterior, data: PyTree, start: PyTree) -> "ControlVariate":
        """Return a copy with posterior, anchor and sums filled in where they are missing.

        That takes one pass over the data, unless `refresh` is given.
        """
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
        flat = tree.ravel(anchor)
        like = flat.dtype
        if self.refresh is None:
            total = passes.sums(posterior, data, anchor, order=self.order)
        else:  # each chain takes the sums at its own anchor before the first step
            total = (jnp.zeros(()), jnp.zeros_like(flat), None)
        sums = jax.tree.map(lambda x: jnp.asarray(x, like), total)
        return ControlVariate(posterior, order=self.order, anchor=anchor, refresh=self.refresh, sums=sums)

    def anchored(self, data: PyTree, thetas: PyTree[Array]) -> "Anchor":
        """Return an anchor for each chain, stacked like `thetas`: one pass over the data for each."""
        assert self.posterior is not None
        value, gradient = passes.sums_at(self.posterior, data, thetas)
        like = tree.ravel(thetas).dtype
        return Anchor(thetas, (jnp.asarray(value, like), jnp.asarray(gradient, like), None))

    def at(self, anchor: "Anchor") -> "ControlVariate":
        """Return a copy with the anchor of one chain."""
        return eqx.tree_at(lambda g: (g.anchor, g.sums), self, (anchor.theta, anchor.sums))

    def __call__(
        self, position: PyTree, batch: Batch, *, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        return Minibatch(self.expanded)(position, batch, needs=needs, key=key)

    @property
    def expanded(self) -> Posterior:
        """The same posterior, with the remainders as its rows and the known sums added to its prior."""
        if self.posterior is None or self.anchor is None or self.sums is None:
            raise ValueError(
                "`ControlVariate` must be bound outside `iso.sample`. Call `.bound(posterior, data, start)` first."
            )
        rest = Remainder(self.posterior, self.anchor, self.order)
        known = Known(self.posterior, self.anchor, self.sums)
        return Posterior(rest, known, batched=True, temperature=self.posterior.temperature)


class Anchor(eqx.Module):
    """The point around which a chain's gradient is expanded, and the sums over all rows at that point."""

    theta: PyTree[Array]
    sums: tuple[Array, Array, None]


class Remainder(eqx.Module):
    """The log-likelihood of each row minus its expansion around the anchor."""

    posterior: Posterior
    anchor: PyTree[Array]
    order: int = eqx.field(static=True)

    def __call__(self, theta: PyTree, rows: PyTree) -> Float[Array, " n"]:
        """Return one value per row."""
        f = lambda x: self.posterior.row_log_likelihoods(x, rows)
        change = tree.subtract(theta, self.anchor)
        along = lambda x: jax.jvp(f, (x,), (change,))
        if self.order == 1:
            value, slope = along(self.anchor)
            return f(theta) - value - slope
        (value, slope), (_, curvature) = jax.jvp(along, (self.anchor,), (change,))
        return f(theta) - value - slope - curvature / 2


class Known(eqx.Module):
    """The log-prior plus the expansion of the log-likelihood of all rows."""

    posterior: Posterior
    anchor: PyTree[Array]
    sums: tuple[Array, Array, Array | None]

    def __call__(self, theta: PyTree) -> Float[Array, ""]:
        """Return the part of the log-density that needs no rows."""
        value, gradient, hessian = self.sums
        change = tree.ravel(tree.subtract(theta, self.anchor))
        total = self.posterior.prior_log_density(theta) + value + gradient @ change
        return total if hessian is None else total + change @ (hessian @ change) / 2
