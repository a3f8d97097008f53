"""The functions that a formula may call, and their options."""

from isotherm.tables.formulas.evaluate import ELEMENTWISE

SCALINGS = {"center": (), "scale": ("center", "scale", "ddof"), "standardize": ("center", "rescale", "ddof")}
BOUNDS = ("lower_bound", "upper_bound", "extrapolation")
CUBIC = ("df", "knots", "constraints", *BOUNDS)
BASES = {
    "poly": ("degree", "raw"),
    "bs": ("df", "knots", "degree", "include_intercept", *BOUNDS),
    "cr": CUBIC,
    "cs": CUBIC,
    "cc": CUBIC,
}
STATEFUL = SCALINGS | BASES
CONTRASTS = ("treatment", "SAS", "sum", "helmert", "poly", "diff")
PATSY_CONTRASTS = ("Treatment", "Sum", "Helmert", "Poly", "Diff")
FUNCTIONS = (*ELEMENTWISE, *STATEFUL, *PATSY_CONTRASTS, "C", "Q", "np", "contr")
LARGEST = 1000  # degree, number of columns or exponent
INSTEAD = {
    "factor": "C",
    "as.factor": "C",
    "ln": "log",
    "ns": "cr",
    "te": "s",
    "ti": "s",
    "t2": "s",
    "pow": "I(x**2)",
}
ALONE = ("s", "offset", "exposure", "weights", "trials")
