"""NumPyro's HMCECS on the posteriors of `problems.py`: Hamiltonian Monte Carlo that also samples minibatches.

    python benchmarks/tall/hmcecs.py --out DIR
    python benchmarks/tall/judge.py DIR --to benchmarks/references/hmcecs

The inner kernel is NUTS. Batches have 1,000 rows in 10 blocks, one of which is redrawn with each draw. The control
variate is a second-order Taylor expansion around the mode (`HMCECS.taylor_proxy`), where chains start. The mode is
found as in `iso.warmup`, and that time counts. The mass matrix is the Hessian at the mode and stays fixed: NumPyro's
adaptation (`--adapt`, with `--warmup 500`) takes many times as many steps, so this is HMCECS at its best. The stored
run of the synthetic data has batches of 200 rows, which are enough.
"""

import jax
import jax.numpy as jnp
import numpy as np
from nuts import arguments, chain_method, save
from problems import PROBLEMS, Problem
from quality import flat, timed

from isotherm.tuning.newton import climb


def model_of(problem: Problem, batch_size: int):
    """Return the posterior as a NumPyro model: a site per leaf, `w` if there is only one, and a plate of rows."""
    import numpyro
    from numpyro import distributions as dist

    posterior, data, init = problem
    num_data = len(jax.tree.leaves(data)[0])

    def model(data: dict) -> None:
        free = lambda name, x: numpyro.sample(name, dist.Normal(jnp.zeros(x.shape)).to_event().mask(False))
        theta = {k: free(k, v) for k, v in named(init).items()}
        theta = theta if isinstance(init, dict) else theta["w"]
        numpyro.factor("prior", posterior.prior_log_density(theta))
        with numpyro.plate("rows", num_data, subsample_size=batch_size):
            rows = {k: numpyro.subsample(v, event_dim=v.ndim - 1) for k, v in data.items()}
            numpyro.factor("likelihood", posterior.row_log_likelihoods(theta, rows))

    return model


def named(theta: object) -> dict:
    """Return the parameters by name."""
    return theta if isinstance(theta, dict) else {"w": theta}


def hmcecs(
    name: str,
    chains: int,
    warmup: int = 200,
    draws: int = 500,
    batch_size: int = 1000,
    blocks: int = 10,
    *,
    adapt: bool = False,
    seed: int = 0,
) -> tuple[np.ndarray, dict]:
    """Return draws (chain, draw, parameter) and a record of their cost, compilation included."""
    from numpyro.infer import HMCECS, MCMC, NUTS

    problem = PROBLEMS[name]()
    posterior, data, init = problem
    data = jax.tree.map(jnp.asarray, data)
    seconds_mode, top = timed(lambda: climb(posterior, data, init, key=jax.random.key(seed)))
    mode, root = named(top.point.theta), np.asarray(top.point.frame.root, np.float64)
    covariance = root @ np.linalg.inv(top.point.hessian) @ root.T
    spread = None if adapt else jnp.asarray(covariance, jnp.float32)
    model = model_of(problem, batch_size)
    inner = NUTS(model, dense_mass=True, inverse_mass_matrix=spread, adapt_mass_matrix=adapt)
    kernel = HMCECS(inner, num_blocks=blocks, proxy=HMCECS.taylor_proxy(mode))
    sampler = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method=chain_method(chains),
        progress_bar=False,
    )
    starts = {k: jnp.broadcast_to(v, (chains, *v.shape)) for k, v in mode.items()}
    fields = ("hmc_state.num_steps", "accept_prob")

    def prepare() -> jax.Array:
        sampler.warmup(
            jax.random.key(seed), data, init_params=starts, extra_fields=fields, collect_warmup=True
        )
        return sampler.get_extra_fields()["hmc_state.num_steps"]

    def draw() -> dict:
        sampler.run(sampler.post_warmup_state.rng_key, data, extra_fields=fields)
        return {k: sampler.get_samples(group_by_chain=True)[k] for k in sorted(mode)}

    seconds_warmup, steps_warmup = timed(prepare)
    seconds_sampling, drawn = timed(draw)
    fields_drawn, num_data = sampler.get_extra_fields(), len(jax.tree.leaves(data)[0])
    before, during = (
        int(np.sum(x, dtype=np.int64)) for x in (steps_warmup, fields_drawn["hmc_state.num_steps"])
    )
    record = {
        "problem": name,
        "method": "HMCECS",
        "chains": chains,
        "warmup": warmup,
        "draws": draws,
        "batch_size": batch_size,
        "blocks": blocks,
        "mass": "adapted" if adapt else "Hessian at the mode",
        "num_data": num_data,
        "leapfrogs_warmup": before,
        "leapfrogs_sampling": during,
        "passes": top.passes + (before + during) * batch_size / num_data,
        "rows_accepted": float(np.mean(fields_drawn["accept_prob"])),
        "seconds_mode": seconds_mode,
        "seconds_warmup": seconds_warmup,
        "seconds_sampling": seconds_sampling,
        "device": jax.devices()[0].device_kind,
    }
    return flat({k: np.asarray(v) for k, v in drawn.items()}), record


def main() -> None:
    """Write one file per problem."""
    parser = arguments(__doc__, 200, "out/tall/hmcecs")
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--adapt", action="store_true", help="adapt the mass matrix in the warm-up")
    options = parser.parse_args()
    jax.config.update("jax_default_matmul_precision", "float32")  # the default on a GPU has only 10 bits
    for name in options.only.split(","):
        sizes = options.chains, options.warmup, options.draws, options.batch_size, options.blocks
        save(options.out, *hmcecs(name, *sizes, adapt=options.adapt))


if __name__ == "__main__":
    main()
