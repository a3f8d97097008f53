"""Checks that a model can be sampled from minibatches of rows. Errors name the site and suggest a repair."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from isotherm.data.leaves import as_numbers
from isotherm.data.sources.base import Source
from isotherm.errors import must
from isotherm.interop.numpyro.run import Arguments, DryRun, Trial, is_array, row_leaves

_ROWS_TRIED = 6
_TOLERANCE, _ROUNDING = 1e-3, 1e-5  # relative and absolute: far above rounding in 32 bits


def check_call(model: Any, args: Any) -> None:
    """Raise unless `model` is a function and `args` a tuple."""
    if not callable(model):
        raise must("model", "a function with NumPyro's sites", model, error=TypeError)
    if not isinstance(args, tuple | list):
        raise must(
            "args",
            "a tuple of the model's arguments",
            args,
            "They are passed by position: write `(x, y)`, or `(x,)` for a single one.",
            error=TypeError,
        )
    if any(isinstance(arg, Source) for arg in args):
        raise must(
            "args",
            "arrays of a few rows",
            "a source",
            "Then pass the source to `iso.sample(model.posterior, source, model.init)`.",
            error=TypeError,
        )


def as_arrays(model: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with series and frames of pandas or polars as arrays."""
    leaves = [
        as_numbers(f"args.{name}", leaf) if hasattr(leaf, "to_numpy") else leaf
        for _, name, leaf in row_leaves(model, args)
    ]
    return jax.tree.unflatten(jax.tree.structure(args), leaves)


def check_run(run: DryRun) -> None:
    """Raise unless the model runs and has the kinds of sites that a posterior needs."""
    for name, (size, part) in run.plates.items():
        if part is not None and part != size:
            raise must(
                f"subsample_size` of plate `{name}",
                "left out, since isotherm draws the minibatches",
                part,
                f'Write `numpyro.plate("{name}", x.shape[0])`.',
            )
    _raise_if_failed(run)
    for name, site in run.sites.items():
        if site.type in ("param", "mutable"):
            raise _bad(
                "one whose parameters all have a prior",
                f"the {site.type} site {name!r}",
                "Replace it by `numpyro.sample` with a prior.",
            )
        if site.latent and site.discrete:
            raise _bad(
                "continuous in its latent sites, since sampling needs gradients",
                f"the discrete site {name!r}",
                "If it is observed, pass its values, since `obs` is `None`. Else sum it out, for example with "
                "`dist.MixtureSameFamily` or a `numpyro.factor` of a `logsumexp`.",
            )
    if run.draws_numbers:
        raise _bad(
            "one that is random only at its sites",
            "`numpyro.prng_key()`",
            "Sample at sites, or pass the random numbers as arguments.",
        )
    if not any(site.latent for site in run.sites.values()):
        raise _bad("one with parameters", "no latent site")
    if not any(site.observed for site in run.sites.values()):
        raise _bad(
            "one with data",
            "no observed site",
            "Write `numpyro.sample(..., obs=y)` and pass y as an argument.",
        )


def data_plate_of(run: DryRun, named: str | None) -> tuple[str, int]:
    """The name and size of the plate of rows."""
    observed = {name: site for name, site in run.sites.items() if site.observed}
    plates = list(dict.fromkeys(plate for site in observed.values() for plate in site.plates))
    if not plates:
        raise _bad(
            "written with a plate of rows",
            f"{_listed(observed)} outside any plate",
            'Put `with numpyro.plate("data", x.shape[0]):` around what is observed in each row.',
        )
    if named is None and len(plates) > 1:
        raise must("data_plate", f"the plate of rows, one of {_listed(plates)}", None)
    if named is not None and named not in plates:
        raise must("data_plate", f"a plate with observed sites: {_listed(plates)}", named)
    name = plates[0] if named is None else named
    for label, site in observed.items():
        if name in site.plates and not site.fits:
            raise _bad(
                "given observed values in the shape of their distribution",
                f"shape {site.shape} at {label!r}",
                "An extra axis of length 1 would compare each row with all others.",
            )
    size = run.plates[name][0]
    if size < 2:
        raise must(f"size` of plate `{name}", "at least 2 rows", size)
    return name, size


def split(
    model: Callable[..., Any], args: tuple[Any, ...], plate: str, size: int, rows: Sequence[str] | None
) -> tuple[Arguments, dict[str, Any]]:
    """The arguments and their arrays of rows by name: those with `size` rows, or all in the arguments `rows`."""
    leaves = row_leaves(model, args)
    known = list(dict.fromkeys(label for label, *_ in leaves))
    for label in rows or ():
        if label not in known:
            raise must("rows", f"names of arguments, among {_listed(known)}", label)
    data: dict[str, Any] = {}
    names, constants = [], []
    for label, name, leaf in leaves:
        has_rows = is_array(leaf) and (leaf.shape[0] == size if rows is None else label in rows)
        if has_rows and leaf.shape[0] != size:
            raise must(
                f"args.{name}",
                f"an array with the {size} rows of plate `{plate}`",
                leaf,
                "Leave it out of `rows`.",
            )
        names.append(name if has_rows else None)
        constants.append(None if has_rows else jnp.asarray(leaf) if is_array(leaf) else leaf)
        if has_rows:
            data[name] = leaf
    if not data:
        raise must(
            "args",
            f"arrays with the {size} rows of plate `{plate}`",
            known,
            "Pass the data as arguments; the model must not close over them.",
        )
    return Arguments(tuple(constants), tuple(names), jax.tree.structure(tuple(args))), data


def check_rows(few: DryRun, more: DryRun, plate: str, size: int) -> None:
    """Raise unless the model works on any number of rows. `few` is a run on 2 rows, `more` on 3."""
    if few.plates.get(plate, (2, None))[0] != 2:
        raise must(
            f"size` of plate `{plate}",
            "the number of rows that the model is given",
            few.plates[plate][0],
            f'A minibatch has fewer: write `numpyro.plate("{plate}", x.shape[0])`.',
        )
    _raise_if_failed(few, f"with 2 of the {size} rows. Arrays of all rows must be among `args`")
    for name, site in few.sites.items():
        if site.latent and (plate in site.plates or site.shape != more.sites[name].shape):
            raise _bad(
                "without a latent variable for each row",
                f"the site {name!r} with {size} of them",
                "A minibatch has no information on those of other rows. Integrate them out, or let groups of rows "
                "share one, in a plate of few groups.",
            )
        if plate in site.plates and not site.fits:
            raise _bad(
                "given its observations as arguments",
                f"shape {site.shape} at {name!r} in a run on 2 rows",
                "Pass them in `args`; the model must not close over them.",
            )


def check_trial(trial: Trial) -> None:
    """Raise unless supports are fixed, rows are independent, and the prior does not depend on rows."""
    for name, transform in trial.transforms[0].items():
        if not _same(transform, trial.transforms[1][name]):
            raise _bad(
                "one whose supports are fixed",
                f"a support of {name!r} that depends on other sites",
                "Scale a site with a fixed support, such as u * high with u uniform on (0, 1).",
            )
    beside, alone = trial.beside
    if not _same(beside[jnp.asarray([-1, 0])], alone):
        raise _bad(
            "one in which rows are independent",
            "a row whose log-likelihood depends on the other rows",
            "Centre, scale and lag columns beforehand. If a constant has as many rows as the data, list in `rows` "
            "the arguments that hold rows.",
        )
    for name, x in trial.log_probs[0].items():
        if not _same(x, trial.log_probs[1][name]):
            raise _bad(
                "one in which only sites in the data plate depend on rows",
                f"the site {name!r} outside it",
                "Put it into the plate, or compute beforehand what it needs from all rows.",
            )


def row_independent_sites(trial: Trial) -> tuple[str, ...]:
    """The deterministic sites that do not depend on the rows."""
    return tuple(name for name, x in trial.values[0].items() if _same(x, trial.values[1][name]))


def some_rows(data: dict[str, Any], *, backwards: bool = False) -> dict[str, Any]:
    """A few evenly spaced rows; with `backwards`, only the last and the first of them."""
    size = next(iter(data.values())).shape[0]
    index = np.unique(np.linspace(0, size - 1, min(size, _ROWS_TRIED)).astype(int))
    index = index[[-1, 0]] if backwards else index
    return {name: jnp.asarray(x[index]) for name, x in data.items()}


def _same(a: PyTree, b: PyTree) -> bool:
    """Whether all leaves agree in shape and, up to rounding, in value."""
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True)]
    close = lambda x, y: np.allclose(x, y, rtol=_TOLERANCE, atol=_ROUNDING, equal_nan=True)
    return all(x.shape == y.shape and close(x, y) for x, y in pairs)


def _raise_if_failed(run: DryRun, where: str = "on the shapes of `args`") -> None:
    error = run.error
    if error is None:
        return
    if isinstance(error, jax.errors.JAXTypeError | jax.errors.JAXIndexError):
        raise _bad(
            "one whose shapes and branches do not depend on values in arrays",
            type(error).__name__,
            "Pass sizes, such as the number of groups, as integers, and use `jax.numpy` in place of NumPy.",
        ) from error
    error.add_note(f"This was raised by the model, run {where}.")
    raise error


def _bad(rule: str, got: str, repair: str = "") -> Exception:
    return ValueError(f"`model` must be {rule}; got {got}. {repair}".rstrip())


def _listed(names: Sequence[str] | dict[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in names)
