"""The logistic regression of section 4.2 in coordinates v, where w = mode + L v, with reference draws of v.

The data files are searched for in the folder named by ISOTHERM_DATA_DIR first.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm.models import logistic_regression
from isotherm.studies.experiments.logistic import problem as logistic_problem


@dataclasses.dataclass(frozen=True)
class Problem:
    """Rows x and labels y, with the coordinates v. `root` is L: the identity or a root of the inverse Hessian.

    The prior is on w; chains sample v.
    """

    rows: logistic_problem.Problem
    mode: np.ndarray
    root: np.ndarray

    @property
    def y(self) -> np.ndarray:
        """The labels."""
        return self.rows.y

    @property
    def data(self) -> dict[str, jax.Array]:
        """The rows in the form that the posterior takes."""
        return jax.tree.map(jnp.asarray, self.rows.rows)

    @property
    def posterior(self) -> iso.Posterior:
        """The posterior of v."""
        base = logistic_regression()
        mode, root = jnp.asarray(self.mode, jnp.float32), jnp.asarray(self.root, jnp.float32)
        to_w = lambda v: mode + root @ v
        return iso.Posterior(
            lambda v, batch: base.log_likelihood(to_w(v), batch),
            lambda v: base.log_prior(to_w(v)),
            batched=base.batched,
        )


def problem(*, whitened: bool) -> Problem:
    """Return the problem in whitened coordinates, or with L = I, which only moves the origin to the mode."""
    rows = logistic_problem.problem(0)
    mode, hessian = logistic_problem.mode(rows)
    values, vectors = np.linalg.eigh(hessian)
    return Problem(rows, mode, vectors / np.sqrt(values) if whitened else np.eye(len(mode)))


def reference(p: Problem, *, chains: int, draws: int, seed: int = 0) -> np.ndarray:
    """Return draws of v (chain, draw, d) by Hamiltonian Monte Carlo on all rows."""
    w, accepted = logistic_problem.hamiltonian(p.rows, chains, draws, jax.random.key(seed))
    print(f"reference: {chains} x {draws} draws, acceptance rate {accepted:.2f}")
    return (w - p.mode) @ np.linalg.inv(p.root).T


def step_for(p: Problem, s: float, batch_size: int) -> float:
    """Return the h at which the largest eigenvalue of S is s, for unit mass, from all rows at the mode."""
    q = 1 / (1 + np.exp(p.rows.y * (p.rows.x.astype(np.float64) @ p.mode)))
    rows = (p.rows.y * q)[:, None] * (p.rows.x @ p.root)
    C = len(rows) ** 2 / batch_size * np.cov(rows.T)
    return float(np.sqrt(s / np.linalg.eigvalsh(C)[-1]))
