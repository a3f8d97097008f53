"""Strict by default: warnings are errors (pyproject), ranks never promote, no key is used twice."""

import jax
import pytest


@pytest.fixture(autouse=True)
def strict_jax():
    with jax.numpy_rank_promotion("raise"), jax.debug_key_reuse(True):
        yield
