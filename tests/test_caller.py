"""Calls from places where the library cannot compute."""

import subprocess
import sys

import jax
import jaxtyping
import numpy as np
import pytest

from isotherm.caller import leaves_of
from support.models import call, normal_mean

_FORK = """
import multiprocessing, sys
import jax.numpy as jnp
import numpy as np
import isotherm as iso

def sampled(_=None):
    posterior = iso.Posterior(lambda t, d: -0.5 * jnp.sum((d - t) ** 2))
    sampler = iso.SGLD(0.01)
    options = {"batch_size": 4, "num_draws": 2, "num_chains": 1, "progress": False}
    try:
        return iso.sample(posterior, np.ones((8, 2), np.float32), np.zeros(2), sampler=sampler, **options).num_draws
    except RuntimeError as error:
        return str(error)

if sys.argv[1] == "after":
    print(jnp.ones(3).sum())
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map_async(sampled, [0]).get(timeout=60)[0])
"""


@pytest.mark.parametrize(
    ("when", "said"), [("after", "made by `fork` after JAX was used"), ("before", "2\n")]
)
def test_a_fork_is_refused_only_after_jax_was_used(when, said, tmp_path):
    script = tmp_path / "forks.py"
    script.write_text(_FORK)
    finished = subprocess.run(
        [sys.executable, script, when], capture_output=True, text=True, timeout=120, check=False
    )
    assert said in finished.stdout, finished.stderr


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum())])
def test_transformations_are_refused(transform):
    posterior, x, start = normal_mean()
    jaxtyping.config.update("jaxtyping_disable", True)
    stacked = np.stack([x, x]) if transform is jax.vmap else x
    with pytest.raises(TypeError, match=r"`iso.sample` must not be called inside `jax.jit`"):
        transform(lambda data: call(model=(posterior, data, start)).posterior)(stacked)
    jaxtyping.config.update("jaxtyping_disable", False)


def test_structures_that_contain_themselves_leave_the_interpreter_whole():
    endless = []
    endless.append(endless)
    for value in (endless, {"a": 1, 2: 3}):
        with pytest.raises(TypeError, match="`data` must be a pytree of arrays"):
            leaves_of("data", value)

    def deep(n):
        return 0 if n == 0 else 1 + deep(n - 1)

    assert deep(500) == 500
    assert leaves_of("data", {"a": [1, (2, 3)]}) == [1, 2, 3]
