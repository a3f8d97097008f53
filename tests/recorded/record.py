"""Short runs whose ends are on record in draws.json.

A change of keys, of the order of random numbers or of the equations changes these ends by tenths, and rounding by
1e-7. If draws are meant to change, record them again from the root of the repository,

    python tests/recorded/record.py

and say so in CHANGELOG.md, since the draws of all users change. `--check` prints the largest differences instead.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import isotherm as iso
from support.models import call, normal_mean
from support.table import SAMPLERS

FILE = Path(__file__).with_name("draws.json")
STEPS, CHAINS = 50, 2
PLANS = {
    "WithReplacement": iso.WithReplacement(),
    "WithoutReplacement": iso.WithoutReplacement(),
    "RandomBlocks": iso.RandomBlocks(rows_per_run=4, reshuffle_every=9),
    "Reshuffled": iso.Reshuffled(),
}
# Compiling the loop without optimisation takes a third of the time.
_PLAIN = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def sampler_end(sampler):
    """Return position and xi of every chain after the last step of a loop around the kernel."""
    posterior, data, init = normal_mean()
    rows = jnp.asarray(data)
    kernel = iso.extend.Kernel(sampler, iso.Minibatch(posterior), len(rows), batch_size=8)

    def run(key):
        step = lambda _, state: kernel.step(state, rows, key=key)[0]
        state = jax.lax.fori_loop(0, STEPS, step, kernel.init(init, rows, key=key))
        return state.position, state.xi

    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(CHAINS))
    position, xi = jax.jit(jax.vmap(run), compiler_options=_PLAIN)(keys)
    return {"position": position.tolist(), "xi": None if xi is None else xi.tolist()}


def plan_end(plan):
    """Return the same for `iso.sample`, which arranges rows."""
    draws = call(
        SAMPLERS["SGHMC-dense"], minibatch=plan, num_draws=1, thinning=STEPS - 5, burn_in=5, num_chains=CHAINS
    )
    return {"position": draws.posterior[:, 0].tolist(), "xi": None}


def difference(a, b):
    """Return the largest difference of two ends, relative to the larger of 1 and the number."""
    pairs = [(a["position"], b["position"])] + ([(a["xi"], b["xi"])] if a["xi"] is not None else [])
    return max(float(np.max(np.abs(np.subtract(x, y)) / np.maximum(np.abs(y), 1))) for x, y in pairs)


def all_ends():
    """Compute everything that is on record."""
    return {
        "samplers": {name: sampler_end(sampler) for name, sampler in SAMPLERS.items()},
        "plans": {name: plan_end(plan) for name, plan in PLANS.items()},
    }


if __name__ == "__main__":
    ends = all_ends()
    if "--check" in sys.argv:
        known = json.loads(FILE.read_text())
        for kind in ("samplers", "plans"):
            for name, end in ends[kind].items():
                print(f"{name:26} {difference(end, known[kind][name]):.1e}")
    else:
        versions = {"jax": jax.__version__, "numpy": np.__version__}
        FILE.write_text(json.dumps(ends | {"versions": versions}, indent=1) + "\n")
