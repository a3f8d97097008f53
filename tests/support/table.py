"""The table of samplers for the conformance suite. A new sampler, covariance or scheme adds one line."""

import pytest

import isotherm as iso

SAMPLERS = {
    "SGLD": iso.SGLD(1e-3),
    "ModifiedSGLD-diagonal": iso.ModifiedSGLD(1e-3, iso.Diagonal()),
    "ModifiedSGLD-dense": iso.ModifiedSGLD(1e-3, iso.Dense()),
    "ModifiedSGLD-low-rank": iso.ModifiedSGLD(1e-3, iso.DiagonalLowRank(2)),
    "ModifiedSGLD-first-order": iso.ModifiedSGLD(1e-3, iso.Dense(), form="first-order"),
    "SGHMC": iso.SGHMC(1e-2, 5.0),
    "SGHMC-diagonal": iso.SGHMC(1e-2, 20.0, iso.Diagonal()),
    "SGHMC-dense": iso.SGHMC(1e-2, 20.0, iso.Dense()),
    "SGHMC-low-rank": iso.SGHMC(1e-2, 20.0, iso.DiagonalLowRank(2)),
    "SGHMC-symmetric": iso.SGHMC(1e-2, 20.0, iso.Dense(), scheme="symmetric"),
    "SGNHT": iso.SGNHT(1e-2, 5.0),
    "SGNHT-midpoint": iso.SGNHT(1e-2, 5.0, scheme="euler-midpoint"),
    "SGNHT-symmetric": iso.SGNHT(1e-2, 5.0, scheme="symmetric"),
    "CCAdL-diagonal": iso.CCAdL(1e-2, 5.0, iso.Diagonal()),
    "CCAdL-dense": iso.CCAdL(1e-2, 5.0, iso.Dense()),
    "CCAdL-exact": iso.CCAdL(1e-2, 5.0, iso.Dense("exact")),
    "CCAdL-signs": iso.CCAdL(1e-2, 5.0, iso.Dense(contrasts=3)),
    "CCAdL-low-rank": iso.CCAdL(1e-2, 5.0, iso.DiagonalLowRank(2)),
    "CCAdL-matrix-free": iso.CCAdL(1e-2, 5.0, iso.MatrixFree()),
    "CCAdL-midpoint": iso.CCAdL(1e-2, 5.0, iso.Diagonal(), scheme="euler-midpoint"),
    "CCAdL-symmetric": iso.CCAdL(1e-2, 5.0, iso.Dense(), scheme="symmetric"),
    "CCAdL-symmetric-low-rank": iso.CCAdL(1e-2, 5.0, iso.DiagonalLowRank(2), scheme="symmetric"),
    "CCAdL-symmetric-matrix-free": iso.CCAdL(1e-2, 5.0, iso.MatrixFree(), scheme="symmetric"),
    "ModifiedCCAdL": iso.ModifiedCCAdL(1e-2, 5.0),
}
# Each kind of dynamics once, with different covariances. The rest runs in `make test`.
IN_CHECK = ("SGLD", "CCAdL-dense", "CCAdL-symmetric-matrix-free")

# Each sampler and each scheme once, for what does not depend on the covariance.
DYNAMICS = (
    *(
        "SGLD",
        "ModifiedSGLD-diagonal",
        "ModifiedSGLD-first-order",
        "SGHMC-diagonal",
        "SGHMC-symmetric",
        "SGNHT",
    ),
    *(
        "SGNHT-midpoint",
        "SGNHT-symmetric",
        "CCAdL-dense",
        "CCAdL-midpoint",
        "CCAdL-symmetric",
        "ModifiedCCAdL",
    ),
)


def slow_unless(in_check, names):
    """Return names, or tuples of arguments, as parameters of a test; those not `in_check` are marked slow."""
    arguments = lambda n: n if isinstance(n, tuple) else (n,)
    return [n if n in in_check else pytest.param(*arguments(n), marks=pytest.mark.slow) for n in names]


every_sampler = pytest.mark.parametrize("name", slow_unless(IN_CHECK, SAMPLERS))
