"""Mistakes in the inverses and roots of a dense C that are kept for many steps."""

from planted.bug import Bug

KEPT = ("test_factors.py",)
OLDER = "average.factors.older(kappa)"

FACTORS = (
    Bug(
        "inverse-never-renewed",
        "The inverse of the dense average is never renewed.",
        "Factors.older",
        "self.age + kappa",
        "self.age",
        KEPT,
    ),
    Bug(
        "inverse-of-the-current-batch",
        "When it is time to renew the inverse, it is that of the current batch instead of the average.",
        "Dense.update",
        OLDER,
        f'{OLDER}.refreshed(new, getattr(average.factors.operator, "c", kappa))',
        KEPT,
    ),
    Bug(
        "inverse-for-another-step-size",
        "The inverse is kept although a schedule has changed the step size.",
        "Factors.refreshed",
        "due |= jnp.abs(c - old.c) > _OTHER_C * old.c",
        "due |= old.c == 0",
        KEPT,
    ),
    Bug(
        "inverse-kept-young",
        "The age of the inverse is not reset when it is renewed, so that it is renewed in every step.",
        "Factors.refreshed",
        "jnp.where(due, 0, self.age)",
        "self.age",
        KEPT,
    ),
    Bug(
        "K-keeps-the-inverse-of-half",
        "The inverse that the midpoint kick keeps is of I + S/2 instead of I + S/4.",
        "AdaptiveLangevin.kick",
        "h * h / T / 4",
        "h * h / T / 2",
        ("test_symmetric_step.py",),
    ),
    Bug(
        "newton-without-the-last-round",
        "Newton's iteration for the inverse ends a round early.",
        "inverse_near",
        "return X + product(X, R)",
        "return X",
        KEPT,
    ),
)
