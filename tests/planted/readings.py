"""Mistakes in what people read of a regression: effects, contrasts, groups, curves, cross-validation and priors."""

from planted.bug import Bug

ALONG, SLOPES, LEVELS = "test_along.py::", "test_slopes.py::", "test_levels_and_curves.py::"
PARAMETERS = "test_parameters.py::"

READINGS = (
    Bug(
        "error-of-rows-as-of-an-infinite-table",
        "The error from the choice of rows takes the table for infinite.",
        "row_error",
        "np.sqrt(share_left / count)",
        "np.sqrt(1 / count)",
        (ALONG + "test_the_error_from_the_choice_of_rows_is_that_of_sampling_without_replacement",),
    ),
    Bug(
        "contrast-the-wrong-way-round",
        "The difference is that of the first value to the second.",
        "contrasts_of",
        "estimate(second - first, interval)",
        "estimate(first - second, interval)",
        (ALONG + "test_levels_are_compared_by_difference_and_ratio",),
    ),
    Bug(
        "slope-over-half-the-step",
        "A central difference is divided by half of the distance.",
        "_slope",
        "(pair[1] - pair[0]) / (2 * step)",
        "(pair[1] - pair[0]) / step",
        (SLOPES + "test_the_slope_is_the_mean_over_rows_of_the_derivative_at_every_draw",),
    ),
    Bug(
        "rows-of-other-levels",
        "The numbers of rows stay in the order of the levels while effects are sorted.",
        "group_effects",
        "np.asarray(design.counts, np.int64)[order]",
        "np.asarray(design.counts, np.int64)",
        (LEVELS + "test_effects_of_levels_are_sorted_with_their_intervals_and_rows",),
    ),
    Bug(
        "curve-not-centred",
        "The straight part of a curve is zero where the column is, and not at its mean.",
        "curve",
        "(x - float(design.center[line]))",
        "x",
        (LEVELS + "test_a_curve_is_what_predictions_change_by_along_the_column",),
    ),
    Bug(
        "correction-of-the-chosen-rows-alone",
        "What the rows that were left out add is counted for them, and not for all rows.",
        "total",
        "cheap.sum() + N * difference.mean()",
        "cheap.sum() + n * difference.mean()",
        ("test_leave_one_out.py::test_some_rows_stand_for_all_by_the_difference_from_the_posterior_mean",),
    ),
    Bug(
        "variance-of-zeros-too-small",
        "The variance of counts with further zeros forgets that their mean is that of all.",
        "_of_zeros",
        " + share) / (1 - share)",
        " + share)",
        ("test_variance.py::test_the_variance_of_a_new_observation",),
    ),
    Bug(
        "correlations-drawn-too-small",
        "The partial correlations of later columns are drawn from too narrow a law.",
        "uniform_correlations",
        "shape = 1 + (size - 2 - j) / 2",
        "shape = 1 + (size - 1 - j) / 2",
        (PARAMETERS + "test_correlations_are_uniform_among_matrices",),
    ),
    Bug(
        "prior-of-the-intercept-as-of-a-coefficient",
        "The intercept is drawn with the scale of the other coefficients.",
        "prior_draws",
        "b[..., 0] *= prior.intercept / prior.coefficients",
        "b[..., 0] *= 1.0",
        ("test_predictive.py::test_expected_responses_have_the_sd_of_the_prior",),
    ),
)
