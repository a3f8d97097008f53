"""The methods that `benchmarks/tall` compares. Each returns a record of its accuracy and its cost.

The time has a part that does not depend on the number of draws (set-up, warm-up, burn-in, compilation) and a part
that does. The time to an rms error of 0.05 in the means is the first part plus a share of the second: the square of
the rms error that the draws have by chance, divided by 0.05. For `iso.sample` that error is the one of
`draws.mean()`, which uses the gradient as a control variate.
"""

import hmcecs as hmcecs_runs
import jax
import jax.numpy as jnp
import numpy as np
import nuts as nuts_runs
from problems import PROBLEMS
from quality import TARGET, flat, moments, quality, timed, truth

import isotherm as iso
from isotherm import tree


def sampled(record: dict, fixed: float, sampling: float, suffix: str = "") -> dict:
    """Return the speeds that follow from the two parts of the time."""
    needed = (record.get("refined_error", record["monte_carlo_rms"]) / TARGET) ** 2
    return {
        f"seconds{suffix}": fixed + sampling,
        f"ess_per_second{suffix}": record["ess_min"] / (fixed + sampling),
        f"seconds_to_target{suffix}": fixed + sampling * needed,
    }


def ours(name: str, chains: int, draws: int) -> dict:
    """Return the record of the default, and of a second call that compiles nothing."""
    posterior, data, init = PROBLEMS[name]()
    data = jax.tree.map(jnp.asarray, data)
    prepare = lambda: iso.warmup(posterior, data, init)
    # `iso.sample(posterior, data, init)` is a warm-up followed by this.
    warm_first, tuned = timed(prepare)
    draw = lambda: iso.sample(posterior, data, tuned, num_draws=draws, num_chains=chains, progress=False)
    first, drawn = timed(draw)
    warm_again, again = timed(prepare)[0], timed(draw)[0]
    run = drawn.record
    kept = again * (1 - run.burn_in / run.steps)
    record = {"problem": name, "method": "iso.sample", "batch_size": run.batch_size}
    record |= {"verdict": drawn.summary().verdict, "device": jax.devices()[0].device_kind}
    record |= quality(flat(drawn.flat()), truth(name))
    record |= {"passes_warmup": tuned.passes, "passes": tuned.passes + run.data_passes * chains}
    means, errors = (np.concatenate([np.ravel(x) for x in jax.tree.leaves(part)]) for part in drawn.mean())
    known, rms = truth(name), lambda x: float(np.sqrt(np.mean(np.square(x))))
    record |= {"refined_rms": rms((means - known["mean"]) / np.array(known["sd"]))}
    record |= {"refined_error": rms(errors / np.array(known["sd"]))}
    record |= sampled(record, warm_first + first - kept, kept)
    return record | sampled(record, warm_again + again - kept, kept, "_compiled")


def laplace(name: str) -> dict:
    """Return the record of the normal approximation at the mode, which meets the target at once or never."""
    from isotherm.tuning.newton import climb, moved, point_at

    posterior, data, init = PROBLEMS[name]()
    data = jax.tree.map(jnp.asarray, data)

    def fit() -> tuple[np.ndarray, np.ndarray]:
        frame = climb(posterior, data, init, key=jax.random.key(0)).point.frame
        for _ in range(4):
            here = point_at(posterior, data, frame)
            frame = moved(frame, np.linalg.solve(here.hessian, -here.gradient))
        root = np.asarray(frame.root, np.float64)
        covariance = root @ np.linalg.inv(here.hessian) @ root.T
        return np.asarray(tree.ravel(frame.center), np.float64), np.sqrt(np.diag(covariance))

    fit()  # compiles what `iso.warmup` has not compiled
    seconds, (mean, sd) = timed(fit)
    record = {"problem": name, "method": "Laplace", "seconds_compiled": seconds}
    record |= moments(mean, sd, truth(name))
    if record["mean_rms"] <= TARGET:
        record |= {"seconds_to_target_compiled": seconds}
    return record | {"device": jax.devices()[0].device_kind}


def nuts(name: str, chains: int, warmup: int, draws: int) -> dict:
    """Return the record of NumPyro's NUTS, run here."""
    x, record = nuts_runs.nuts(name, chains, warmup, draws)
    record |= quality(x, truth(name))
    return record | sampled(record, record["seconds_warmup"], record["seconds_sampling"])


def hmcecs(name: str, chains: int) -> dict:
    """Return the record of NumPyro's HMCECS, run here."""
    x, record = hmcecs_runs.hmcecs(name, chains)
    record |= quality(x, truth(name))
    before = record["seconds_mode"] + record["seconds_warmup"]
    return record | sampled(record, before, record["seconds_sampling"])
