"""Mutants that no test can notice, since the library does the same with them, each with the reason."""

_UNIT = "response.unit if scale == 'sigma' else 0.5"
_LINEAR, _LOW_RANK = "gradients/linear.py::_split", "covariance/low_rank.py::DiagonalLowRank"
_NOT_A_VARIABLE = "not isinstance(w, core.Var) or w in dependent"

EQUIVALENT: dict[str, str] = {
    f"{_LINEAR}: {_NOT_A_VARIABLE} or eta.aval.shape != () -> ({_NOT_A_VARIABLE})": (
        "The next condition refuses a product that is not a scalar, too."
    ),
    f"{_LOW_RANK}.init: jnp.ones((), dtype) -> (jnp.zeros((), dtype))": (
        "The first batch has the weight 1, so that the initial value is multiplied by 0."
    ),
    f"tables/regressions.py::regression: {_UNIT} -> (response.unit)": (
        "Only the start of the search for the mode changes, which finds the same mode."
    ),
}
