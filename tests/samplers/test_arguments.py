"""Arguments of samplers, covariances and gradients: which may be given by place, their defaults, and their bounds."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso

MOMENTUM = {"scheme": "euler", "mass": 1.0}
THERMOSTAT = {"thermal_mass": None, "initial_xi": None}
ANY = {"temperature": None}
# The arguments that may be given by place, and all others with their defaults.
SIGNATURES = {
    iso.SGLD: ("step_size", ANY),
    iso.ModifiedSGLD: ("step_size covariance", {"form": "exact"} | ANY),
    iso.SGHMC: ("step_size friction covariance", MOMENTUM | ANY),
    iso.SGNHT: ("step_size friction", MOMENTUM | THERMOSTAT | ANY),
    iso.CCAdL: ("step_size friction covariance", MOMENTUM | THERMOSTAT | ANY),
    iso.ModifiedCCAdL: ("step_size friction", {"mass": 1.0} | THERMOSTAT | ANY),
    iso.ControlVariate: (
        "posterior",
        {"order": 1, "anchor": None, "refresh": None, "sums": None, "preconditioner": None},
    ),
    iso.Minibatch: ("posterior", {"fused": True}),
}
LARGEST_COUNT = 2**31 - 1
COUNTS = {
    "contrasts": iso.Dense,
    "rank": iso.DiagonalLowRank,
    "refresh": lambda refresh: iso.ControlVariate(refresh=refresh),
}


@pytest.mark.parametrize("kind", SIGNATURES, ids=lambda kind: kind.__name__)
def test_arguments_by_place_and_defaults(kind):
    """Dynamics come by place, in the order of the formulas; everything else needs its name."""
    given = inspect.signature(kind).parameters.values()
    by_place, defaults = SIGNATURES[kind]
    assert [p.name for p in given if p.kind is not p.KEYWORD_ONLY] == by_place.split()
    assert {p.name: p.default for p in given if p.kind is p.KEYWORD_ONLY} == defaults


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_positive_and_fit_into_32_bits(name):
    make = COUNTS[name]
    for count in (1, 100, LARGEST_COUNT):
        assert getattr(make(**{name: count}), name) == count
    assert type(getattr(make(**{name: np.uint64(3)}), name)) is int  # whose differences would wrap around
    for count in (0, LARGEST_COUNT + 1):
        with pytest.raises(ValueError, match=f"`{name}` must be"):
            make(**{name: count})


def test_a_floor_of_the_average_is_a_weight():
    """Both ends are weights, and of a schedule only kappa_2 and later count, since kappa_1 is always 1."""
    for floor in (0, 0.0, 1, 1.0, np.float32(0.5), jnp.asarray(0.25), lambda t: 3 / t - 1):
        iso.Dense(averaging=floor)
    for floor in (-1e-6, 1.000001, lambda t: 3 / t):
        with pytest.raises(ValueError, match="a floor between 0 and 1"):
            iso.Dense(averaging=floor)


def test_the_symmetric_scheme_needs_an_average_that_hardly_depends_on_the_batch():
    for averaging in (0.0, 0.1, lambda t: 1 / t):
        iso.CCAdL(0.1, 1.0, iso.Dense(averaging=averaging), scheme="symmetric")
    iso.CCAdL(0.1, 1.0, iso.Dense(averaging=0.5))
    with pytest.raises(ValueError, match=r"`averaging` of the covariance must be at most 0\.1"):
        iso.CCAdL(0.1, 1.0, iso.Dense(averaging=0.1001), scheme="symmetric")
