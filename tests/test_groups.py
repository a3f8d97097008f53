"""Bad declarations of groups: each is a sentence that names the argument."""

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from support.grouped import normal_groups


def run(groups=None, data=None, init=None, prior=None, likelihood=None, **others):
    posterior, rows, start = normal_groups(6, 4)
    posterior = iso.Posterior(
        likelihood or posterior.log_likelihood,
        prior or posterior.log_prior,
        transforms=posterior.transforms,
        groups=groups or {"effect": iso.Group("level", scale="tau")},
    )
    return iso.sample(posterior, rows | (data or {}), start | (init or {}), progress=False, **others)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": ["effect"]}, "`groups` must be a dictionary"),
        ({"groups": {"effect": 3}}, "`groups` must be a dictionary"),
        (
            {"groups": {"effects": "level"}},
            "`groups` must be leaves of the parameters by name; got 'effects'",
        ),
        ({"groups": {"a": "level"}}, "`groups.a` must be a parameter with a leading axis of levels"),
        (
            {"groups": {"effect": "region"}},
            "`groups.effect` must be the name of a leaf of the data; got 'region'",
        ),
        ({"groups": {"effect": "y"}}, "`data.y` must be one integer for each row"),
        ({"groups": {"effect": iso.Group("level", scale="sd")}}, "must be the name of a parameter; got 'sd'"),
        ({"data": {"level": np.full(24, 6)}}, "from 0 to 5; got 6"),
        ({"data": {"level": np.full(24, -1)}}, "from 0 to 5; got -1"),
        (
            {
                "likelihood": lambda q, row: (
                    -((row["y"] - q["effect"][row["level"]] - jnp.mean(q["effect"])) ** 2)
                )
            },
            "depends on its own level",
        ),
        (
            {
                "prior": lambda q: (
                    -(jnp.sum(q["effect"]) ** 2) - jnp.sum(q["effect"] ** 2) / q["tau"] - q["sigma"]
                )
            },
            "levels are independent under the prior",
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_bad_groups_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message.replace(".", r"\.").replace("(", r"\(")):
        run(**arguments)


def test_a_block_needs_a_scale():
    with pytest.raises(TypeError, match="`scale` of `Group` must be given if `rows` is not"):
        iso.Group()


def test_correlations_need_a_scale():
    with pytest.raises(TypeError, match="given together with `scale`"):
        iso.Group("level", correlations="r")
