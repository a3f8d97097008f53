"""Compare the draws of two versions of the library bit for bit, on one machine.

Record them with the first version and compare with the second:

    python tests/recorded/bits.py --out before.npz
    python tests/recorded/bits.py --compare before.npz

Every case uses only the public interface. A change that must not affect numbers prints "same" for each of them;
otherwise the exit status is 1. Needs the data set a9a and the extra `numpyro`.
"""

import argparse
import sys
import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
import isotherm.data

LENGTH = {"num_draws": 20, "thinning": 2, "burn_in": 10, "num_chains": 3, "progress": False, "seed": 5}


def regression(num_data=400, size=3):
    """Return the posterior, the rows and a start of a logistic regression."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_data, size)).astype(np.float32)
    y = (rng.random(num_data) < 1 / (1 + np.exp(-x @ np.arange(size)))).astype(np.float32)
    posterior = iso.Posterior(
        lambda w, row: -jnp.logaddexp(0.0, (1 - 2 * row["y"]) * (row["x"] @ w)),
        lambda w: -0.5 * jnp.sum(w**2),
    )
    return posterior, {"x": x, "y": y}, jnp.zeros(size)


def default_on_a9a():
    """Run `iso.sample` with default settings on real data."""
    whole = iso.data.load("a9a")
    x = np.column_stack([np.ones(len(whole.x_train), np.float32), whole.x_train])
    posterior = iso.Posterior(
        lambda w, rows: -jnp.logaddexp(0.0, (1 - 2 * rows["y"]) * (rows["x"] @ w)),
        lambda w: -0.5 * jnp.sum(w**2),
        batched=True,
    )
    data = {"x": x, "y": (whole.y_train > 0).astype(np.float32)}
    return iso.sample(posterior, data, jnp.zeros(x.shape[1]), num_draws=100, progress=False, seed=1)


def network():
    """Run the default on a small network, whose posterior has several modes."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(600, 4)).astype(np.float32)
    y = np.sin(x[:, 0]).astype(np.float32)
    model = eqx.nn.MLP(4, 1, 8, 1, activation=jax.nn.tanh, key=jax.random.key(0))
    params, rest = eqx.partition(model, eqx.is_inexact_array)

    def log_likelihood(theta, row):
        return -0.5 * ((row["y"] - eqx.combine(theta, rest)(row["x"])[0]) / 0.3) ** 2

    log_prior = lambda theta: -0.5 * sum(jnp.sum(w**2) for w in jax.tree.leaves(theta))
    posterior = iso.Posterior(log_likelihood, log_prior)
    return iso.sample(posterior, {"x": x, "y": y}, params, num_draws=30, burn_in=50, progress=False, seed=2)


def controlled(scheme, covariance):
    """CCAdL with one scheme and one covariance."""
    sampler = iso.CCAdL(0.02, 2.0, covariance=covariance, scheme=scheme)
    return iso.sample(*regression(), sampler=sampler, batch_size=50, **LENGTH)


def of_sampler(sampler):
    """Any other sampler."""
    return iso.sample(*regression(), sampler=sampler, batch_size=50, **LENGTH)


def sweep():
    """Two shapes of sampler, two settings each."""
    samplers = [iso.CCAdL(h, 2.0, iso.Dense()) for h in (0.01, 0.02)] + [
        iso.SGHMC(h, 5.0) for h in (0.01, 0.02)
    ]
    runs = iso.sweep(*regression(), samplers, batch_size=50, **LENGTH)
    return {str(i): everything(run) for i, run in enumerate(runs)}


def moving_anchors():
    """Control variates whose anchors follow the chains."""
    sampler = iso.CCAdL(0.02, 2.0, iso.Dense(), scheme="symmetric")
    gradient = iso.ControlVariate(refresh=15)
    return iso.sample(*regression(), sampler=sampler, gradient=gradient, batch_size=50, **LENGTH)


def plan(minibatch):
    """Run CCAdL with another minibatch plan."""
    sampler = iso.CCAdL(0.02, 2.0, iso.Dense())
    return iso.sample(*regression(), sampler=sampler, minibatch=minibatch, batch_size=50, **LENGTH)


def numpyro_model():
    """Sample a NumPyro model with default settings."""
    import numpyro
    import numpyro.distributions as dist

    _, rows, _ = regression(2000)

    def model(x, y):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("y", dist.Normal(x @ w, scale), obs=y)

    converted = iso.interop.numpyro.posterior(model, (rows["x"], rows["y"]))
    return converted.sample(num_draws=50, progress=False, seed=3)


def constrained():
    """Sample positive and bounded parameters with default settings."""
    rng = np.random.default_rng(3)
    rows = rng.gamma(2.0, 1.5, size=3000).astype(np.float32)

    def log_likelihood(theta, x):
        a, b = theta["shape"], theta["rate"]
        return a * jnp.log(b) - jax.scipy.special.gammaln(a) + (a - 1) * jnp.log(x) - b * x

    log_prior = lambda theta: -theta["shape"] - theta["rate"]
    posterior = iso.Posterior(
        log_likelihood, log_prior, transforms={"shape": iso.Positive(), "rate": iso.Bounded(0.0, 10.0)}
    )
    init = {"shape": jnp.asarray(1.0), "rate": jnp.asarray(1.0)}
    return iso.sample(posterior, rows, init, num_draws=50, progress=False, seed=4)


def all_cases():
    """Return the function of every case by name."""
    cases = {
        "default, a9a": default_on_a9a,
        "default, network": network,
        "sweep": sweep,
        "moving anchors": moving_anchors,
        "NumPyro": numpyro_model,
        "constrained": constrained,
    }
    covariances = {
        "diagonal": iso.Diagonal(),
        "dense": iso.Dense(),
        "low rank": iso.DiagonalLowRank(2),
        "matrix-free": iso.MatrixFree(),
    }
    for scheme in ("euler", "euler-midpoint", "symmetric"):
        for name, covariance in covariances.items():
            cases[f"CCAdL, {scheme}, {name}"] = lambda s=scheme, c=covariance: controlled(s, c)
    samplers = {
        "SGLD": iso.SGLD(1e-3),
        "ModifiedSGLD": iso.ModifiedSGLD(1e-3, iso.Dense()),
        "SGHMC": iso.SGHMC(0.02, 5.0),
        "SGHMC, symmetric, dense": iso.SGHMC(0.02, 20.0, iso.Dense(), scheme="symmetric"),
        "SGNHT": iso.SGNHT(0.02, 2.0),
        "ModifiedCCAdL": iso.ModifiedCCAdL(0.02, 2.0),
        "CCAdL, mass and temperature": iso.CCAdL(
            0.02, 2.0, iso.Dense(), mass=jnp.asarray([1.0, 2.0, 3.0]), temperature=0.5
        ),
    }
    for name, sampler in samplers.items():
        cases[name] = lambda s=sampler: of_sampler(s)
    plans = {
        "without replacement": iso.WithoutReplacement(),
        "random blocks": iso.RandomBlocks(rows_per_run=4, reshuffle_every=9),
        "reshuffled": iso.Reshuffled(),
    }
    for name, minibatch in plans.items():
        cases[f"plan, {name}"] = lambda p=minibatch: plan(p)
    return cases


def everything(draws):
    """Return all numbers of a run."""
    m = draws.moments
    return {
        "posterior": draws.posterior,
        "stats": draws.stats,
        "mean": m.mean,
        "variance": m.variance,
        "temperature": m.temperature,
        "kinetic": m.kinetic,
        "refined": m.refined,
    }


def flat(numbers):
    """Return the arrays by name."""
    return {
        jax.tree_util.keystr(path): np.asarray(x) for path, x in jax.tree_util.tree_leaves_with_path(numbers)
    }


def record(only):
    """Return the arrays of every case, as (case, name) -> array."""
    found = {}
    for name, case in all_cases().items():
        if only and only not in name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", iso.IsothermWarning)
            drawn = case()
        numbers = drawn if isinstance(drawn, dict) else everything(drawn)
        found |= {f"{name}|{key}": x for key, x in flat(numbers).items()}
        print(f"ran {name}", file=sys.stderr, flush=True)
    return found


def main():
    """Record or compare, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", help="run only cases whose name contains this text")
    given = parser.parse_args()
    found = record(given.only)
    if given.out:
        np.savez(given.out, **found)
        print(f"{len(found)} arrays of {len({k.split('|')[0] for k in found})} cases")
    if not given.compare:
        return 0
    known, wrong = np.load(given.compare), 0
    for case in dict.fromkeys(key.split("|")[0] for key in found):
        names = {key for key in found if key.startswith(f"{case}|")}
        known_names = {key for key in known.files if key.startswith(f"{case}|")}
        differ = [
            key for key in names & known_names if not np.array_equal(found[key], known[key], equal_nan=True)
        ]
        differ += sorted(names ^ known_names)
        wrong += bool(differ)
        print(f"{case:36} {'same' if not differ else 'differs: ' + ', '.join(differ[:4])}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
