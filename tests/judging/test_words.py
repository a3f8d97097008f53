"""Verdicts in words: factors, numbers that show what they are compared with, and advice on settings of the user."""

import dataclasses

import pytest

import isotherm as iso
from isotherm.chains.advice import about_failure
from isotherm.draws.record import Arithmetic, Reason
from isotherm.judging.summary import fixed, off
from isotherm.printed import beyond
from support.made_run import made_draws


@pytest.mark.parametrize(
    ("heat", "error", "words"),
    [
        (2.27, None, "about 2.27 times too large"),
        (0.5, None, "about 2.00 times too small"),
        (0.5, 0.05, "about 2.00 times too small (± 0.20)"),  # 1/x has the error e/x²
        (12.4, 0.6, "about 12 times too large (± 1)"),
        (1500.0, None, "about 1,500 times too large"),
        (0.0, None, "far too small"),
        (-0.27, 0.1, "far too small"),
    ],
)
def test_a_variance_is_off_by_a_factor(heat, error, words):
    assert off(heat, error) == words


@pytest.mark.parametrize(
    ("x", "shown"), [(1.2345, "1.234"), (1.0101, "1.0101"), (1.0100001, "1.0100001"), (1.011, "1.011")]
)
def test_a_number_above_a_limit_is_shown_above_it(x, shown):
    assert beyond(x, 1.01) == shown


def tuned(draws, why="few rows suffice"):
    """Return draws of a run whose settings a warm-up chose."""
    reasons = (Reason("batch_size", "50", why),)
    record = dataclasses.replace(draws.record, arithmetic=Arithmetic("float32"), reasons=reasons)
    return dataclasses.replace(draws, record=record)


@pytest.mark.parametrize(
    ("x", "sd", "shown"),
    [
        (0.39421, 0.0112, "0.394"),
        (6.6412e-05, 2.83e-06, "6.64e-05"),
        (7.1e-05, 2.83e-06, "7.10e-05"),
        (1.0000664, 2.83e-06, "1.0000664"),
        (0.0, 2.83e-06, "0.0e+00"),
        (12345.6, 300.0, "12,346"),
        (3.0, 0.0, "3"),
        (float("inf"), 1.0, "inf"),
    ],
)
def test_a_number_is_shown_with_two_digits_of_its_standard_deviation(x, sd, shown):
    assert fixed(x, sd) == shown


def test_after_a_warm_up_no_setting_is_to_be_changed_that_the_user_did_not_choose():
    draws = made_draws()
    draws.stats["configurational_temperature"][:] = 2.0
    assert "step_size" in draws.summary().verdict
    verdict = tuned(draws).summary().verdict
    assert "about 2.00 times too large: the warm-up did not find settings that suit" in verdict
    assert "step_size" not in verdict
    assert "batch_size" not in verdict
    assert "raise batch_size or leave it to the warm-up" in tuned(draws, "given; s = 0.1").summary().verdict


def test_settings_from_a_short_run_are_less_certain_and_the_verdict_says_so():
    draws = made_draws()
    assert "iso.diagnose" not in draws.summary().verdict
    record = dataclasses.replace(draws.record, reasons=(Reason("start", "4 points", "found by Adam"),))
    verdict = dataclasses.replace(draws, record=record).summary().verdict
    assert verdict.startswith("No fault found")
    assert verdict.endswith("less certain than usual. Check them with `iso.diagnose(draws)`.")


def test_a_chain_that_failed_after_a_warm_up_asks_for_no_change_of_its_settings():
    traits = iso.SGNHT(step_size=0.1, friction=1.0).traits
    for s in (None, 0.1, 30.0):
        by_hand = about_failure(traits, s, 0.1, "", 50, 1000)
        assert "step_size" in by_hand
        assert "step_size" not in about_failure(traits, s, 0.1, "", 50, 1000, tuned=True)
