"""Mistakes in the checks of what the user passes: values of the data, and log-priors that are constants."""

from planted.bug import Bug

CHECKS = "test_checks.py::"

ROWS = (
    Bug(
        "infinite-rows-unchecked",
        "Rows with infinite values are left out of the check of the start, and never checked.",
        "Problem.check_starts",
        "            self._check_infinite(positions)",
        "            pass",
        (CHECKS + "test_an_infinite_value_that_spoils_a_row_is_named",),
    ),
    Bug(
        "infinite-gradients-accepted",
        "A row with an infinite value needs a finite log-likelihood, but not a finite gradient.",
        "Problem._check_infinite",
        "bad = (~np.isfinite(likelihoods) | ~finite_gradients).T",
        "bad = (~np.isfinite(likelihoods)).T",
        (CHECKS + "test_a_finite_likelihood_without_a_gradient_is_refused",),
    ),
    Bug(
        "later-blocks-unchecked",
        "Only the first block of rows is searched for NaN and infinity.",
        "_blocks",
        "for begin in range(0, len(x), length):",
        "for begin in range(0, len(x), length)[:1]:",
        (CHECKS + "test_a_single_infinite_row_among_many_is_found",),
    ),
    Bug(
        "overflow-unnoticed",
        "A number too large for 32 bits is looked for in 64 bits, where it is finite.",
        "_blocks",
        "dtype = jax.dtypes.canonicalize_dtype(x.dtype)",
        "dtype = x.dtype",
        ("test_bad_input.py::test_bad_input_is_refused_before_any_step",),
    ),
    Bug(
        "mask-dropped",
        "The mask of a masked array is ignored, and what is under it is used.",
        "unmasked",
        "if not mask.any():",
        "if True:",
        (CHECKS + "test_masked_rows_are_refused_by_predictions",),
    ),
    Bug(
        "resolution-of-another-dtype",
        "Differences are compared with the spacing of 64-bit numbers, so none is ever lost to rounding.",
        "_spacing",
        "info = jnp.finfo(dtype)",
        "info = np.finfo(np.float64)",
        (CHECKS + "test_differences_lost_to_rounding_are_reported",),
    ),
    Bug(
        "constant-prior-forgotten",
        "A constant log-prior counts as zero.",
        "_as_floating",
        "return jnp.asarray(value, float)",
        "return jnp.zeros(())",
        ("test_posterior.py::test_a_constant_prior_is_a_floating_scalar_without_a_gradient",),
    ),
    Bug(
        "few-rows-in-batches",
        "Few rows are sampled from batches as large as all of them, drawn with replacement.",
        "Estimator.too_large",
        "_ENOUGH * n > self.num_data",
        "n > self.num_data",
        ("test_few_rows.py::test_all_rows_are_used_where_a_batch_would_be_over_an_eighth",),
    ),
)
