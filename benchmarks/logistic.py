"""Section 4.2's logistic regression in coordinates of its own: w = mode + L v, with a reference for v.

The files are looked for in the folder that ISOTHERM_DATA_DIR names first.
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
    """Rows x and labels y, and coordinates in which L is the identity or the root of the inverse Hessian.

    The prior is that of w; chains move v.
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
        """Rows as the posterior takes them."""
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
    """The posterior in whitened coordinates or, but for the origin, as it is."""
    rows = logistic_problem.problem(0)
    mode, hessian = logistic_problem.mode(rows)
    values, vectors = np.linalg.eigh(hessian)
    return Problem(rows, mode, vectors / np.sqrt(values) if whitened else np.eye(len(mode)))


def reference(p: Problem, *, chains: int, draws: int, seed: int = 0) -> np.ndarray:
    """Draws of v by Hamiltonian Monte Carlo on all rows: (chain, draw, d)."""
    w, accepted = logistic_problem.hamiltonian(p.rows, chains, draws, jax.random.key(seed))
    print(f"reference: {chains} x {draws} draws, accepted {accepted:.2f}")
    return (w - p.mode) @ np.linalg.inv(p.root).T


def step_for(p: Problem, s: float, batch_size: int) -> float:
    """h at which the largest eigenvalue of S is s, from all rows at the mode, for unit mass."""
    q = 1 / (1 + np.exp(p.rows.y * (p.rows.x.astype(np.float64) @ p.mode)))
    rows = (p.rows.y * q)[:, None] * (p.rows.x @ p.root)
    C = len(rows) ** 2 / batch_size * np.cov(rows.T)
    return float(np.sqrt(s / np.linalg.eigvalsh(C)[-1]))
