"""Control variates: the gradient of all rows at an anchor is known, and batches estimate only the change from it."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from isotherm import tree
from isotherm.errors import check_count, must
from isotherm.gradients.minibatch import Gradient, Minibatch
from isotherm.hyper import count_field
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner, in_coordinates
from isotherm.records import Batch, GradientEstimate, Needs
from isotherm.sums import precision
from isotherm.sums.totals import derivatives, values_and_gradients


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

    With a `preconditioner`, which `iso.sample` fills in, all of it is in the coordinates v in which the chains move:
    position, anchor, force, and the Hessian, which is near the identity in them. In the parameters it may be so
    ill-conditioned that single precision does not hold it.
    """

    posterior: Posterior | None = None
    order: Literal[1, 2] = eqx.field(default=1, static=True, kw_only=True)
    anchor: PyTree = eqx.field(default=None, kw_only=True)
    refresh: int | None = count_field(default=None, kw_only=True)
    sums: Any = eqx.field(default=None, kw_only=True)
    preconditioner: Preconditioner | None = eqx.field(default=None, kw_only=True)

    all_rows = False

    def __check_init__(self) -> None:
        if type(self.order) is not int or self.order not in (1, 2):
            raise must("order", "1 or 2", self.order)
        if self.refresh is not None:
            check_count("refresh", self.refresh, minimum=1, below=2**31)
            if self.order != 1:
                raise must("order", "1 if `refresh` is given, which computes no Hessian", self.order)

    def bound(
        self,
        posterior: Posterior,
        data: PyTree,
        start: PyTree,
        preconditioner: Preconditioner | None = None,
    ) -> "ControlVariate":
        """Return a copy with posterior, anchor and sums filled in where they are missing.

        That takes one pass over the data, unless `refresh` is given. `start` and `anchor` are parameters.
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
        if preconditioner is not None:
            anchor = preconditioner.from_params(anchor)
        flat = tree.ravel(anchor)
        sums = (jnp.zeros((), flat.dtype), jnp.zeros_like(flat), None)
        gradient = ControlVariate(
            posterior,
            order=self.order,
            anchor=anchor,
            refresh=self.refresh,
            sums=sums,
            preconditioner=preconditioner,
        )
        if self.refresh is not None:  # each chain takes the sums at its own anchor before the first step
            return gradient
        second = "hessian" if self.order == 2 else None
        with gradient._wide(data) as (density, widened):
            total = derivatives(density, data, widened(anchor), second=second)
        sums = jax.tree.map(lambda x: jnp.asarray(x, flat.dtype), total)
        return eqx.tree_at(lambda g: g.sums, gradient, sums, is_leaf=lambda x: x is None)

    def anchored(self, data: PyTree, positions: PyTree[Array]) -> "Anchor":
        """Return an anchor for each chain, stacked like `positions`: one pass over the data for all of them."""
        with self._wide(data) as (density, widened):
            value, gradient = values_and_gradients(density, data, widened(positions))
        dtype = tree.ravel(positions).dtype
        return Anchor(positions, (jnp.asarray(value, dtype), jnp.asarray(gradient, dtype), None))

    @property
    def density(self) -> Posterior:
        """The posterior over the coordinates of the anchor."""
        if self.posterior is None:
            raise ValueError(
                "`ControlVariate` must be bound outside `iso.sample`. Call `.bound(posterior, data, start)` first."
            )
        if self.preconditioner is None:
            return self.posterior
        return in_coordinates(self.posterior, self.preconditioner)

    @contextlib.contextmanager
    def _wide(self, data: PyTree) -> Iterator[tuple[Posterior, Callable[[PyTree], PyTree]]]:
        """Enter float64 if it can be used; yield the density in it and a function that converts to it."""
        possible = precision.why_not_float64(self.density, data, self.anchor) is None
        with precision.float64(possible):
            widened = precision.widened if possible else lambda x: x
            yield widened(self.density), widened

    def at(self, anchor: "Anchor") -> "ControlVariate":
        """Return a copy with the anchor of one chain."""
        return eqx.tree_at(lambda g: (g.anchor, g.sums), self, (anchor.theta, anchor.sums))

    def __call__(
        self, position: PyTree, batch: Batch, *, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        # The differences in a remainder are small: they need the full precision of the rows.
        return precision.exact(Minibatch(self.expanded))(position, batch, needs=needs, key=key)

    @property
    def expanded(self) -> Posterior:
        """The same density, with the remainders as its rows and the known sums added to its prior."""
        density = self.density
        if self.anchor is None or self.sums is None:
            raise ValueError(
                "`ControlVariate` must be bound outside `iso.sample`. Call `.bound(posterior, data, start)` first."
            )
        rest = Remainder(density, self.anchor, self.order)
        known = Known(density, self.anchor, self.sums)
        return Posterior(rest, known, batched=True, temperature=density.temperature)


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
