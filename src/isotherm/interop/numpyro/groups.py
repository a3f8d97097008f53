"""Effects of groups in a NumPyro model: sites with a leading axis of levels, of which each row uses one.

They are found by what they do, not by how the model is written: the log-likelihood of a row must change with the
level that a column of integers names, and with no other.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from isotherm.compilation import compile_quickly
from isotherm.errors import must
from isotherm.groups import Group
from isotherm.interop.numpyro.priors import Normal, factors, named_parts, normal_priors, scales_of
from isotherm.interop.numpyro.run import RowIndependent, RowLikelihood
from isotherm.transforms import Scale

_ROWS_TRIED = 48
_MOVE, _UNCHANGED, _CHANGED = 0.5, 1e-5, 1e-3  # of an effect, and of log-likelihoods relative to 1 + |value|
_DENSE = 1000  # most parameters for which a warm-up without groups computes a Hessian
_OUTER, _HEAD = 64, 4000  # most parameters in scales and the like, and in all but those and the largest group
_SPREAD = 0.5  # sd of the free parameters at the positions tried

Declared = Mapping[str, str | Group] | bool | None


@dataclasses.dataclass(frozen=True)
class Effects:
    """The groups of a model, and transforms of their scales that suit scales close to zero."""

    groups: dict[str, Group]
    transforms: dict[str, Scale]


def effects_of(
    likelihood: RowLikelihood,
    prior: RowIndependent,
    transforms: dict[str, Any],
    init: dict[str, Array],
    data: dict[str, Any],
    declared: Declared,
) -> Effects:
    """Return the groups that are recognised, or those that are declared with what is recognised of their priors."""
    check_declared(declared, init, data)
    if declared is False or (isinstance(declared, Mapping) and not declared):
        return Effects({}, {})
    given = dict(declared) if isinstance(declared, Mapping) else None
    columns = integer_columns(data)
    levels = {
        name: x.shape[0] for name, x in init.items() if x.ndim and x.shape[0] > 1 and transforms[name] is None
    }
    if given is None and not (levels and columns):
        return Effects({}, {})
    found = Search(likelihood, prior, transforms, init, data)
    groups: dict[str, Group] = {}
    for name in levels if given is None else given:
        wanted = None if given is None else given[name]
        if isinstance(wanted, Group):
            groups[name] = wanted
            continue
        if wanted is None and not found.worth_a_group(name):
            continue
        column = wanted or found.column(name, {c: x for c, x in columns.items() if x.max() < levels[name]})
        if column is not None:
            groups[name] = found.group(name, column)
    if given is None:
        groups = found.independent(prior, groups)
        groups = groups if _is_tractable(groups, transforms, init) else {}
    scales = {group.scale for group in groups.values()} - {None}
    better = {
        name: Scale(m / np.log(2)) for name, m in found.medians.items() if name in scales and 0 < m < np.inf
    }
    return Effects(groups, better)


def check_declared(declared: Declared, init: dict[str, Array], data: dict[str, Any]) -> None:
    """Raise unless `groups` is a dictionary from sites to arguments, a flag or `None`."""
    if declared is None or isinstance(declared, bool):
        return
    if not isinstance(declared, Mapping):
        rule = "a dictionary from sites to arguments, such as `{'intercept': 'region'}`, or `False`"
        raise must("groups", rule, declared, error=TypeError)
    for name, group in declared.items():
        if name not in init:
            raise must("groups", f"latent sites by name: {_listed(init)}", name)
        column = group.rows if isinstance(group, Group) else group
        if column not in data:
            raise must(f"groups.{name}", f"the name of an argument with rows: {_listed(data)}", column)


def integer_columns(data: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the columns that may hold numbers of levels, those with the largest numbers first."""
    columns = {
        name: np.asarray(x) for name, x in data.items() if x.ndim == 1 and np.issubdtype(x.dtype, np.integer)
    }
    fitting = {name: x for name, x in columns.items() if x.min() >= 0}
    return dict(sorted(fitting.items(), key=lambda item: -int(item[1].max())))


class Search:
    """Answers questions about the sites of a model by evaluating it at two random positions."""

    def __init__(
        self,
        likelihood: RowLikelihood,
        prior: RowIndependent,
        transforms: dict[str, Any],
        init: dict[str, Array],
        data: dict[str, Any],
    ) -> None:
        self.likelihood, self.data, self.size = likelihood, data, sum(x.size for x in init.values())
        rng, two = np.random.default_rng(0), [{}, {}]
        for name, x in init.items():
            t = transforms[name]
            free = x if t is None else t._inverse(x)
            for params in two:
                at = jnp.asarray(free + _SPREAD * rng.standard_normal(free.shape), free.dtype)
                params[name] = at if t is None else t(at)
        self.params = two[0]
        self.both = {name: np.stack([np.asarray(x[name]) for x in two]) for name in init}
        self.positive = tuple(
            name
            for name, x in self.both.items()
            if transforms[name] is not None and x.ndim < 3 and np.all(x > 0)
        )
        rows = prior.rows
        self.priors, self.medians = normal_priors(
            likelihood.model,
            likelihood.arguments,
            rows,
            tuple(init),
            {n: jnp.asarray(x) for n, x in self.both.items()},
        )

    def worth_a_group(self, name: str) -> bool:
        """Whether a warm-up gains by the structure: priors with unknown scales, or many parameters."""
        prior = self.priors.get(name)
        if prior is None:
            return False
        return not prior.fixed or self.size > _DENSE or self._standardized(name, prior) is not None

    def column(self, name: str, columns: dict[str, np.ndarray]) -> str | None:
        """Return the column that names the level of each row; `None` if there is none."""
        rows = self._rows(columns)
        for column, values in columns.items():
            if bool(
                _own_level_alone(
                    self.likelihood, self.params, self._at(rows), jnp.asarray(values[rows]), name
                )
            ):
                return column
        return None

    def group(self, name: str, column: str) -> Group:
        """Return the group with as much of its prior as is certain."""
        prior = self.priors.get(name)
        if prior is None or not prior.shared:
            return Group(column)
        found = self._standardized(name, prior)
        if found is not None:
            return Group(column, scale=found[0], correlations=found[1], standardized=True)
        named = named_parts(prior, self.both, self.positive)
        if named.scale is None or named.location is None:
            return Group(column)
        return Group(column, scale=named.scale, correlations=named.correlations, location=named.location)

    def independent(self, prior: RowIndependent, groups: dict[str, Group]) -> dict[str, Group]:
        """Return those groups whose levels are independent under the prior, of each other and of other groups'."""
        kept = dict(groups)
        while kept:
            names = tuple(sorted(kept, key=lambda name: len(self.params[name])))
            together = np.asarray(_interactions(prior, self.params, names))
            if not together.any():
                break
            del kept[names[int(np.argmax(together.any(axis=1)))]]  # the smallest of those that interact
        return kept

    def _standardized(self, name: str, prior: Normal) -> tuple[str, str | None] | None:
        """Return scale and Cholesky factor by which rows multiply a standard normal site.

        The log-likelihood then depends on their product alone.
        """
        if not prior.standard:
            return None
        rows = self._at(self._rows({}))
        value = lambda changed: np.asarray(
            _log_likelihoods(self.likelihood, {**self.params, **changed}, rows)
        )
        shape = self.params[name].shape
        z, before = np.asarray(self.params[name]).reshape(shape[0], -1), value({})
        like = np.zeros((2, z.shape[1], z.shape[1]))
        for scale, correlations in scales_of(self.both, self.positive, z.shape[1]):
            K = factors(self.both, scale, correlations, like)
            other = {n: jnp.asarray(self.both[n][1]) for n in (scale, correlations) if n is not None}
            same = np.linalg.solve(K[1], K[0] @ z.T).T.reshape(shape)
            kept = value({**other, name: jnp.asarray(same, self.params[name].dtype)})
            if _all_close(kept, before) and not _all_close(value(other), before):
                return scale, correlations
        return None

    def _rows(self, columns: dict[str, np.ndarray]) -> np.ndarray:
        """Return numbers of rows: some at equal distances, and some in which the columns differ."""
        count = next(iter(self.data.values())).shape[0]
        chosen = [np.linspace(0, count - 1, min(count, _ROWS_TRIED)).astype(int)]
        values = list(columns.values())
        for i, x in enumerate(values):
            for y in values[:i]:
                apart = np.flatnonzero(x != y)
                chosen.append(apart[np.linspace(0, len(apart) - 1, min(len(apart), _ROWS_TRIED)).astype(int)])
        return np.unique(np.concatenate(chosen))

    def _at(self, rows: np.ndarray) -> dict[str, Array]:
        return {name: jnp.asarray(x[rows]) for name, x in self.data.items()}


@compile_quickly
def _log_likelihoods(likelihood: RowLikelihood, params: PyTree, rows: PyTree) -> Float[Array, " n"]:
    return likelihood(params, rows)


@compile_quickly
def _own_level_alone(
    likelihood: RowLikelihood, params: PyTree, rows: PyTree, level: Int[Array, " n"], name: str
) -> Bool[Array, ""]:
    """Return whether rows change with their own level of a site, and with no other."""
    leaf = params[name]

    def one(row: PyTree, own: Int[Array, ""]) -> tuple[Array, Array, Array]:
        at = lambda x: likelihood({**params, name: x}, jax.tree.map(lambda r: r[None], row))[0]
        mine = (jnp.arange(leaf.shape[0]) == own).reshape(-1, *(1,) * (leaf.ndim - 1))
        return at(leaf), at(leaf + _MOVE * mine), at(leaf + _MOVE * ~mine)

    still, by_own, by_others = jax.lax.map(lambda x: one(*x), (rows, level))
    size = 1 + jnp.abs(still)
    moves = jnp.any(jnp.abs(by_own - still) > _CHANGED * size)
    return moves & jnp.all(jnp.abs(by_others - still) <= _UNCHANGED * size)


@compile_quickly
def _interactions(prior: RowIndependent, params: PyTree, names: tuple[str, ...]) -> Bool[Array, "k k"]:
    """Return between which groups, and within which, levels depend on each other under the prior."""
    found = []
    for name in names:
        even = (jnp.arange(len(params[name])) % 2 == 0).reshape(-1, *(1,) * (params[name].ndim - 1))
        nothing = jax.tree.map(jnp.zeros_like, params)
        product = jax.jvp(jax.grad(prior), (params,), ({**nothing, name: even * (1 + params[name])},))[1]
        rest = {**product, name: jnp.where(even, 0, product[name])}
        most = _UNCHANGED * jnp.max(jnp.abs(product[name]))
        found.append(jnp.stack([jnp.max(jnp.abs(rest[other])) > most for other in names]))
    return jnp.stack(found)


def _is_tractable(groups: dict[str, Group], transforms: dict[str, Any], init: dict[str, Array]) -> bool:
    """Return whether the warm-up for groups takes as many other parameters as there are."""
    sizes = {name: x.size for name, x in init.items()}
    used = {name for group in groups.values() for name in group.parameters.values()}
    curved = sum(size for name, size in sizes.items() if name in used or transforms[name] is not None)
    largest = max((sizes[name] for name in groups), default=0)
    return curved <= _OUTER and sum(sizes.values()) - curved - largest <= _HEAD


def _all_close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.all(np.abs(a - b) <= 1e-4 * (1 + np.abs(b))))


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in names)
