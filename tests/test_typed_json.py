"""JSON that is read back as typed records."""

import dataclasses

import pytest

from isotherm.typed_json import typed


@dataclasses.dataclass(frozen=True)
class Point:
    """A record with a number."""

    x: float


def test_a_whole_number_may_stand_for_a_float():
    assert typed(Point, {"x": 10**19}, "point") == Point(10**19)


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_numbers_beyond_the_range_of_floats_are_refused(value):
    with pytest.raises(ValueError, match=r"`point\.x` must be a floating-point number; it has 401 digits"):
        typed(Point, {"x": value}, "point")
