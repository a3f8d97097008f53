"""Log-priors that are constants: numbers of Python and integers count as floating scalars."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.sampling.prepare import prepare
from support.models import normal_mean

PRIORS = {
    "integer": lambda w: 3,
    "float": lambda w: 3.0,
    "NumPy float": lambda w: np.float64(3),
    "NumPy integer": lambda w: np.int64(3),
    "integer array": lambda w: jnp.sum(jnp.zeros_like(w).astype(int)) + 3,
    "boolean sum": lambda w: jnp.sum(w > -99) + 1,
}
INITS = {"32 bits": jnp.ones(2), "16 bits": jnp.ones(2, jnp.bfloat16)}


def posterior(prior, **options):
    return iso.Posterior(lambda w, row: -0.5 * jnp.sum((row - w.astype(row.dtype)) ** 2), prior, **options)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("init", INITS.values(), ids=INITS)
@pytest.mark.parametrize("transforms", [None, iso.Positive()], ids=["free", "positive"])
def test_a_constant_prior_is_a_floating_scalar_without_a_gradient(prior, init, transforms):
    problem = prepare(
        posterior(prior, transforms=transforms),
        normal_mean()[1],
        init,
        num_chains=3,
        init_per_chain=None,
    )
    value, gradient = jax.value_and_grad(problem.density.prior_log_density)(problem.init)
    assert value.shape == ()
    assert value.dtype == gradient.dtype == jnp.float32
    volume = 0.0 if transforms is None else problem.posterior.constraint.log_volume(problem.init)
    assert float(value) == pytest.approx(3 + float(volume))
    if transforms is None:
        assert gradient.tolist() == [0, 0]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"sampler": iso.SGLD(1e-5), "batch_size": 8}, id="sampler"),
        pytest.param({}, id="warm-up", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("quick_compilation")
def test_a_constant_prior_gives_the_draws_of_no_prior(options):
    def draws(prior):
        data, init = normal_mean()[1], jnp.zeros(2)
        run = iso.sample(posterior(prior), data, init, num_draws=3, num_chains=2, progress=False, **options)
        return run.posterior

    for prior in (lambda w: 0, lambda w: jnp.sum(w.astype(int)) * 0):
        np.testing.assert_array_equal(draws(prior), draws(None))
