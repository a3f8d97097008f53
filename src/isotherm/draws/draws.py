"""`Draws`: the draws of a run, with everything needed to judge and repeat it."""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import PyTree

from isotherm import tree
from isotherm.draws.elements import elements_of, labels_of, unknown
from isotherm.draws.record import About, RunRecord
from isotherm.notebook import html
from isotherm.readable import Readable
from isotherm.storage import write_archive
from isotherm.text import visible

if TYPE_CHECKING:
    from pandas import DataFrame

    from isotherm.chains.setup import Setup
    from isotherm.judging.summary import Summary


PER_PARAMETER = ("mean", "variance", "temperature")  # of the moments
OPTIONAL = ("kinetic", "refined")
_MOST_NAMES = 20  # in a notebook


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Moments(Readable):
    """Moments over every step after burn-in, kept or not. Leaves are (chain, ...), in float64.

    `temperature` is the configurational temperature of each parameter, cov(theta_i, dU/dtheta_i). It is 1/beta for
    every parameter if the samples are right, and shows errors that cancel in the mean over parameters. With a
    preconditioner it is that of the coordinate nearest to the parameter. `kinetic` is the kinetic temperature of each
    leaf, (chain, leaf), if there is a momentum. `refined` is a more exact mean, corrected by the mean gradient: see
    `Draws.mean`. It is `None` without a preconditioner, with transforms, in a sweep that runs several samplers side
    by side, and if there are too few steps.
    """

    count: np.ndarray
    mean: PyTree[np.ndarray]
    variance: PyTree[np.ndarray]
    temperature: PyTree[np.ndarray]
    kinetic: np.ndarray | None = None
    refined: PyTree[np.ndarray] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Draws:
    """Posterior draws with everything needed to judge and repeat them.

    `draws["w"]` are the draws of a parameter, (chain, draw, ...), and `list(draws)` the names that there are.

    - `posterior`: a pytree with the structure of the parameters and leaves (chain, draw, ...). The draws of a chain
      are NaN from its failure on.
    - `stats`: (chain, draw) arrays `kinetic_temperature` and `xi` if the sampler has them; per chain
      `configurational_temperature` and, if noise can be clipped, `clipped_steps`, burn-in included.
    - `moments`: streaming mean, variance and temperature of every parameter.
    - `status`: why each chain ended, in a sentence.
    - `lengths`, `complete`: valid draws of each chain, and whether it was still running at the end.
    - `record`: what was run and what it cost, in plain values: `draws.record.batch_size`, `draws.record.s`.
    - `setup`: the setup of the run, to sample again or to diagnose; `None` for draws that were loaded from a file.
    - `derived`: functions of the parameters by name, (chain, draw, ...), such as NumPyro's deterministic sites.
    - `labels`: names for the elements of a parameter, one list for each of its axes, such as
      `{"coefficients": [["intercept", "age"]]}`.
    - `about`: a title, the model and the data, for reports.
    """

    posterior: PyTree[np.ndarray]
    stats: dict[str, np.ndarray]
    moments: Moments
    status: tuple[str, ...]
    lengths: np.ndarray
    complete: np.ndarray
    record: RunRecord
    derived: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    labels: dict[str, list[list[str]]] = dataclasses.field(default_factory=dict)
    about: About = dataclasses.field(default_factory=About)
    setup: "Setup | None" = None

    def __getstate__(self) -> dict[str, Any]:
        # The setup holds functions and the data, which are not pickled.
        return {**self.__dict__, "setup": None}

    @property
    def num_chains(self) -> int:
        """The number of chains, including failed ones."""
        return len(self.status)

    @property
    def num_draws(self) -> int:
        """The number of draws of the longest chain."""
        return tree.named_leaves(self.posterior)[0][1].shape[1]

    def flat(self) -> dict[str, np.ndarray]:
        """Return the leaves by name, such as `layers.0.weight`; a bare array is called `theta`."""
        return {name or "theta": leaf for name, leaf in tree.named_leaves(self.posterior)}

    def __getitem__(self, name: str) -> np.ndarray:
        """Return draws by name: a parameter or a derived quantity, or one element of it, such as `w[2]`."""
        leaves = {**self.flat(), **self.derived}
        if name in leaves:
            return np.asarray(leaves[name])
        labels = labels_of(self)
        for leaf, names in labels.items():
            if name in names:
                return next(itertools.islice(elements_of(leaves[leaf]), names.index(name), None))
        raise KeyError(unknown(name, leaves))

    def __iter__(self) -> Iterator[str]:
        return iter({**self.flat(), **self.derived})

    def mean(self) -> tuple[PyTree[np.ndarray], PyTree[np.ndarray]]:
        """Return posterior means over every step, and their standard errors from the spread between chains.

        The errors of a single chain are NaN. After a warm-up, if no parameter is transformed, the means are several
        times more exact than those of the draws: the gradient has mean zero under the posterior, so its mean over the
        run measures the error of the mean position, which is then corrected.
        """
        source = self.moments.mean if self.moments.refined is None else self.moments.refined
        complete = jax.tree.map(lambda x: x[self.complete], source)
        count = int(np.sum(self.complete))
        error = lambda x: x.std(axis=0, ddof=1) / count**0.5 if count > 1 else np.full(x.shape[1:], np.nan)
        each = lambda f: jax.tree.map(lambda x: np.asarray(f(x)), complete)
        return each(lambda x: x.mean(axis=0)), each(error)

    def summary(self) -> "Summary":
        """Return mean, sd, ESS and R-hat of every parameter, temperatures and a verdict; prints as a table."""
        from isotherm.judging.summary import summarise

        return summarise(self)

    def to_pandas(self) -> "DataFrame":
        """Return a `DataFrame` with a row for each (chain, draw) and a column for each element of a parameter.

        Columns have the names of the summary, derived quantities included. Chains that failed are left out.
        """
        from isotherm.draws.to_pandas import to_pandas

        return to_pandas(self)

    def to_arviz(
        self,
        coords: dict[str, Any] | None = None,
        dims: dict[str, list[str]] | None = None,
        *,
        posterior_predictive: Mapping[str, Any] | None = None,
        observed_data: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the draws for ArviZ, with groups `posterior` and `sample_stats` and those that you pass.

        This is an `xarray.DataTree`, or an `arviz.InferenceData` if a version of ArviZ before 1.0 is installed.
        A slash in a name becomes a dot.

        - `coords`, `dims`: names of dimensions by parameter, and labels along them.
        - `posterior_predictive`: predicted outcomes by name, (chain, draw, ...).
        - `observed_data`: the outcomes that were observed, by the same names.
        """
        from isotherm.draws.to_arviz import checked_predictive, to_arviz

        return to_arviz(self, checked_predictive(self, posterior_predictive, observed_data), coords, dims)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file of arrays and JSON, with checksums; replace an existing file atomically."""
        record = {
            "posterior": self.posterior,
            "stats": self.stats,
            "count": self.moments.count,
            **{name: getattr(self.moments, name) for name in PER_PARAMETER},
            "lengths": self.lengths,
            "complete": self.complete,
            "derived": self.derived,
        }
        for name in OPTIONAL:
            if (value := getattr(self.moments, name)) is not None:
                record[name] = value
        plain = {
            "kind": "draws",
            "status": list(self.status),
            "record": self.record.to_json(),
            "labels": self.labels,
            "about": dataclasses.asdict(self.about),
        }
        write_archive(path, record, plain)

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{visible(name)}: {x.shape[2:]}" for name, x in {**self.flat(), **self.derived}.items()
        )
        return f"Draws({self._run()}; {shapes})"

    def _repr_html_(self) -> str:
        from isotherm.terminal import Table

        table, leaves = Table(box=None), {**self.flat(), **self.derived}
        for title in ("parameter", "shape"):
            table.add_column(title)
        for name, x in itertools.islice(leaves.items(), _MOST_NAMES):
            table.add_row(name, " x ".join(map(str, x.shape[2:])) or "scalar")
        more = [f"... and {len(leaves) - _MOST_NAMES} more"] if len(leaves) > _MOST_NAMES else []
        return html([f"Draws: {self._run()}", table, *more])

    def _run(self) -> str:
        failed = int(np.sum(~self.complete))
        note = f", {failed} stopped early" if failed else ""
        note += ", interrupted" if self.record.interrupted else ""
        name = self.record.sampler.name
        return f"{name}, {self.num_chains} chains x {self.num_draws} draws{note}"
