"""Mistakes in predictions, scores and models of other libraries."""

from planted.bug import Bug

OUTPUTS = (
    Bug(
        "mean-of-logs",
        "The held-out density is the mean of log-likelihoods instead of the log of the mean likelihood.",
        "mean_exp",
        "return level, terms[0] / count,",
        "return jnp.mean(values, axis=0), jnp.ones_like(level),",
        ("test_predict.py::test_the_log_predictive_density_is_the_log_of_the_mean_density",),
    ),
    Bug(
        "interval-with-one-tail",
        "The central interval of probability p leaves 1 - p below it.",
        "Prediction.interval",
        "ends = (1 - probability) / 2, (1 + probability) / 2",
        "ends = 1 - probability, probability",
        ("test_predict.py::test_intervals_are_those_that_were_asked_for_and_it_prints",),
    ),
    Bug(
        "failed-chains-predict",
        "Draws of chains that failed are averaged with the others.",
        "chosen",
        "    chains = np.flatnonzero(draws.complete)\n    if len(chains) == 0:",
        "    chains = np.arange(draws.num_chains)\n    if len(chains) == 0:",
        ("test_predict.py::test_failed_chains_are_left_out_and_draws_are_thinned_evenly",),
    ),
    Bug(
        "calibration-error-of-bins",
        "All bins have the same weight in the calibration error, however few cases they hold.",
        "Calibration.calibration_error",
        "return float(np.average(np.abs(self.observed - self.predicted), weights=self.count))",
        "return float(np.average(np.abs(self.observed - self.predicted)))",
        ("test_scores.py",),
    ),
    Bug(
        "numpyro-scale-forgotten",
        "Sites of a NumPyro model lose the scale given by a handler or a plate.",
        "log_prob",
        'return value if site["scale"] is None else site["scale"] * value',
        "return value",
        ("test_numpyro.py::test_scales_masks_factors_and_other_plates_keep_their_place",),
    ),
    Bug(
        "prior-by-fan-in-squared",
        "The prior scale of weights is 1 over the fan-in instead of 1 over its root.",
        "_default",
        "factor / fan**0.5",
        "factor / fan",
        ("test_network_densities.py::test_priors_are_normals_of_the_scales_asked_for",),
    ),
    Bug(
        "units-the-wrong-way",
        "Coefficients per unit of a column are multiplied by its scale instead of divided.",
        "Standardized.__call__",
        "slopes = self.unit * x[..., 1:] / self._broadcast(self.scale, x)",
        "slopes = self.unit * x[..., 1:] * self._broadcast(self.scale, x)",
        (
            "test_regression_models.py::test_coefficients_are_transformed_there_and_back_and_their_volume_is_known",
        ),
    ),
    Bug(
        "counts-rounded-inwards",
        "The ends of intervals of counts are rounded inwards.",
        "outcome_of",
        "np.stack([np.floor(low), np.ceil(high)])",
        "np.stack([np.ceil(low), np.floor(high)])",
        ("test_forecast.py",),
    ),
    Bug(
        "outcomes-without-noise",
        "The interval of a new observation is that of the expected response.",
        "outcomes",
        "out[i] = family.random(np.random.default_rng(seeds[i]), center, aux, row)",
        "out[i] = center",
        ("test_forecast.py",),
    ),
)
