"""How far apart chains that agree are by chance, and the limit of R-hat that follows from it."""

import numpy as np
import pytest
from scipy.stats import chi2

from isotherm.draws.convergence import convergence
from isotherm.judging.agreement import r_hat_limits, r_hats_by_chance


@pytest.mark.parametrize(("rho", "chains"), [(0.0, 4), (0.7, 4), (0.7, 1)])
def test_r_hats_of_chains_that_agree_are_as_rarely_large_as_promised(rho, chains):
    """100 parameters in each of 100 runs, none of which is to be beyond what one of them is in 20 % of runs.

    Bonferroni's bound is one, and autocorrelation times are estimated from above: there may be fewer runs. Their
    number is binomial, with four standard deviations allowed. A chain 1.5 sd away is always found.
    """
    rng, count = np.random.default_rng(5), 0
    beyond = lambda found: found.r_hat > r_hats_by_chance(found.within_size, chains, 0.2)
    for _ in range(100):
        x = rng.normal(size=(100, chains, 800))
        for t in range(1, x.shape[2]):
            x[:, :, t] = rho * x[:, :, t - 1] + (1 - rho**2) ** 0.5 * x[:, :, t]
        count += bool(beyond(convergence(x, (0.05, 0.95))).any())
    assert count / 100 < 0.2 + 4 * (0.2 * 0.8 / 100) ** 0.5
    x[7, 0] += 1.5
    assert bool(beyond(convergence(x, (0.05, 0.95)))[7]) == (chains > 1)


def test_the_limit_of_r_hat_is_1_01_unless_over_a_hundred_parameters_have_few_draws():
    """With 7 degrees of freedom chance gives the largest of 25,000 parameters 1.42 times what it gives 100."""
    limits = lambda size, number: r_hat_limits(np.full(number, size), 4, limit=1.01, chance=0.01)
    np.testing.assert_allclose(limits(300.0, 100), 1.01)
    np.testing.assert_allclose(limits(1e5, 25_000), 1.01)
    np.testing.assert_allclose(limits(300.0, 25_000), 1 + 0.01 * chi2.isf(2e-7, 7) / chi2.isf(5e-5, 7))
    np.testing.assert_allclose(limits(2200.0, 25_000), r_hats_by_chance(np.full(25_000, 2200.0), 4, 0.01))
