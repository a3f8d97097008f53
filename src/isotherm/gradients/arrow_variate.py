"""Control variates for posteriors with effects of groups: a second-order expansion whose Hessian is an arrow.

Chains move v. The expansion is in the natural coordinates, the free parameters with the effects b_g themselves, in
which a row depends on its own levels alone. So the Hessian of all rows has few blocks and no matrix over all levels
is formed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm.arrow import ArrowPreconditioner
from isotherm.centring import Charted
from isotherm.gradients.control_variate import Remainder
from isotherm.gradients.minibatch import Gradient, Minibatch
from isotherm.posterior import Posterior
from isotherm.readable import Readable
from isotherm.records import Batch, GradientEstimate, LinearOperator, Needs
from isotherm.sums.precision import exact


class Natural(Readable, eqx.Module):
    """Where a chain is in the natural coordinates.

    `theta` are the free parameters, as rows see them. `moved` is how far dense leaves are from the anchor, outer ones
    first: not the difference of rounded numbers, so that raw columns, whose coefficients are large and correlated,
    do not spoil the expansion. `stretch` is log |det d theta / dv|, up to a constant.
    """

    theta: PyTree[Array]
    moved: Float[Array, " p"]
    stretch: Float[Array, ""]


class Between(Readable, eqx.Module):
    """The Hessian between the levels of two factors: block i is that of the pair `first[i]`, `second[i]`."""

    first: Int[Array, " pairs"]
    second: Int[Array, " pairs"]
    values: Float[Array, "pairs q r"]


class Effects(Readable, eqx.Module):
    """Gradient and Hessian of the log-likelihood of all rows by the effects of one factor.

    `leaf` is the position of its leaf of the parameters, and `column` that of the leaf of the rows with its levels;
    `None` if all rows share a single one.
    """

    leaf: int = eqx.field(static=True)
    column: int | None = eqx.field(static=True)
    gradient: Float[Array, "L q"]
    hessian: Float[Array, "L q q"]
    by_dense: Float[Array, "L q p"]


class ArrowSums(Readable, eqx.Module):
    """The log-likelihood of all rows at the anchor and its derivatives.

    Those by dense parameters are by y = `to_white` times their distance from the anchor, in which the Hessian of
    dense parameters has ones and zeros on its diagonal. `between` goes by pairs of positions in `factors`.
    """

    value: Float[Array, ""]
    to_white: Float[Array, "p p"]
    gradient: Float[Array, " p"]
    hessian: Float[Array, "p p"]
    factors: tuple[Effects, ...]
    pairs: tuple[tuple[int, int], ...] = eqx.field(static=True)
    between: tuple[Between, ...]


class AlwaysUsed(Readable, eqx.Module):
    """Rows that are used in every step: all those of a level whose rows would be too noisy in a batch.

    `columns` are the positions of the leaves of a row that hold levels, and `levels` say for each of their levels
    whether its rows are among them.
    """

    rows: PyTree[Array]
    columns: tuple[int, ...] = eqx.field(static=True)
    levels: tuple[Array, ...]

    @property
    def count(self) -> int:
        """The number of these rows."""
        return jax.tree.leaves(self.rows)[0].shape[0]

    def others(self, rows: PyTree) -> Array:
        """Return for each row whether it is left to batches."""
        leaves = jax.tree.leaves(rows)
        used = [levels[leaves[column]] for column, levels in zip(self.columns, self.levels, strict=True)]
        return ~jnp.any(jnp.stack(used), axis=0)


class ArrowVariate(Gradient):
    r"""The gradient of a second-order expansion of all rows, plus a minibatch gradient of the remainder.

    $$\tilde F = J'\Bigl[\nabla\log\pi(\theta) + g + H\delta + \sum_{i\in A}\rho_i(\theta)
      + \frac Nn\sum_{j\in B} \rho_j(\theta)\Bigr] + \nabla\log|J|, \qquad
      \rho_i(\theta) = g_i(\theta) - g_i(a) - H_i(a)\,\delta, \quad \delta = \theta - a,$$

    where J = d theta/dv belongs to the coordinates of the chains. A are the rows of `always`, which are not in the
    second sum. The noise is that of the second sum, as with `ControlVariate`.
    """

    posterior: Posterior
    anchor: PyTree[Array]
    sums: ArrowSums
    chart: Charted
    preconditioner: ArrowPreconditioner
    always: AlwaysUsed | None = None

    all_rows = False

    def __call__(
        self, position: PyTree, batch: Batch, *, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        return exact(self._estimate)(position, batch, needs, key)

    def _estimate(
        self, position: PyTree, batch: Batch, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        x, pull = jax.vjp(self.natural, position)
        found = Minibatch(self.by_natural, fused=False)(x, batch, needs=needs, key=key)
        operator = None if found.operator is None else _Pulled(self, position, found.operator)
        if found.contrasts is None:
            return GradientEstimate(pull(found.force)[0], None, found.log_density, operator)
        stacked = jax.tree.map(lambda f, z: jnp.concatenate([f[None], z]), found.force, found.contrasts)
        pulled = jax.vmap(lambda y: pull(y)[0])(stacked)
        force, contrasts = (jax.tree.map(lambda y, i=i: y[i], pulled) for i in (0, slice(1, None)))
        return GradientEstimate(force, contrasts, found.log_density, operator)

    def natural(self, v: PyTree) -> Natural:
        """Return the natural coordinates of a position of the chains."""
        change, parts = self.preconditioner.multiply(v), self.preconditioner.parts
        u = jax.tree.map(jnp.add, self.preconditioner.center, change)
        outer, head, _ = parts.split(change)
        leaves = jax.tree.leaves(v)
        dense = head[: sum(leaves[i].size for i in parts.dense)]
        stretch = self.chart.log_stretch(u).astype(outer.dtype)
        return Natural(self.chart.centred(u), jnp.concatenate([outer, dense]), stretch)

    @property
    def by_natural(self) -> Posterior:
        """The density as a function of the natural coordinates, with the remainders as its rows."""
        rest, T = Remainder(self.posterior, self.anchor, 2), self.posterior.temperature
        known = ArrowKnown(self.posterior, self.anchor, self.sums, rest, self.always)
        return Posterior(ArrowRemainder(rest, self.always), known, batched=True, temperature=T)

    @property
    def expanded(self) -> Posterior:
        """The density of v, with the remainders as its rows."""
        inner = self.by_natural
        rows, known = AtNatural(inner.log_likelihood, self), AtNatural(inner.log_prior, self)
        return Posterior(rows, known, batched=True, temperature=inner.temperature)


class AtNatural(Readable, eqx.Module):
    """A function of the natural coordinates as a function of v."""

    function: PyTree
    gradient: ArrowVariate

    def __call__(self, v: PyTree, *rest: PyTree) -> Array:
        """Return its value."""
        return self.function(self.gradient.natural(v), *rest)


class ArrowRemainder(Readable, eqx.Module):
    """The remainders of rows, zero for those that are used in every step."""

    rest: Remainder
    always: AlwaysUsed | None

    def __call__(self, x: Natural, rows: PyTree) -> Float[Array, " n"]:
        """Return one for each row."""
        values = self.rest(x.theta, rows)
        return values if self.always is None else jnp.where(self.always.others(rows), values, 0)


class ArrowKnown(Readable, eqx.Module):
    """The log-prior, the expansion of all rows, and the remainders of the rows that are used in every step."""

    posterior: Posterior
    anchor: PyTree[Array]
    sums: ArrowSums
    rest: Remainder
    always: AlwaysUsed | None

    def __call__(self, x: Natural) -> Float[Array, ""]:
        """Return the part of the log-density that needs no batch."""
        sums, dtype = self.sums, x.stretch.dtype
        total = self.posterior.prior_log_density(x.theta).astype(dtype)
        total += jnp.asarray(self.posterior.temperature, dtype) * x.stretch
        y = sums.to_white @ x.moved
        total += sums.value + y @ (sums.gradient + sums.hessian @ y / 2)
        here, there = jax.tree.leaves(x.theta), jax.tree.leaves(self.anchor)
        changes = []
        for factor in sums.factors:
            change = (here[factor.leaf] - there[factor.leaf]).reshape(factor.gradient.shape)
            slope = factor.gradient + factor.by_dense @ y
            slope += jnp.einsum("lij,lj->li", factor.hessian, change) / 2
            total += jnp.sum(slope * change)
            changes.append(change)
        for (i, j), between in zip(sums.pairs, sums.between, strict=True):
            pick = lambda change, index: change.at[index].get(mode="promise_in_bounds")
            first, second = pick(changes[i], between.first), pick(changes[j], between.second)
            total += jnp.sum(first[:, :, None] * between.values * second[:, None, :])
        return total if self.always is None else total + jnp.sum(self.rest(x.theta, self.always.rows))


class _Pulled(Readable, eqx.Module):
    """J' C J, where C is the noise covariance of one batch in the natural coordinates."""

    gradient: ArrowVariate
    position: PyTree[Array]
    operator: LinearOperator

    def mv(self, x: PyTree) -> PyTree:
        """J' C J x."""
        _, moved = jax.jvp(self.gradient.natural, (self.position,), (x,))
        return jax.vjp(self.gradient.natural, self.position)[1](self.operator.mv(moved))[0]
