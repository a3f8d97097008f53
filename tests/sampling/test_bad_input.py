"""Bad input: a table of calls, each of which must raise a clear error before anything is computed."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import isotherm as iso
from support.models import call, normal_mean

NORMAL, DATA, INIT = normal_mean()


@pytest.fixture(autouse=True)
def as_users_run_it():
    """Users have no type checker at run time, so the errors of the library must suffice."""
    jaxtyping.config.update("jaxtyping_disable", True)
    with jax.numpy_rank_promotion("allow"):
        yield
    jaxtyping.config.update("jaxtyping_disable", False)


NAN, INF = float("nan"), float("inf")


def with_value(row, value):
    x = DATA.astype(np.float64)
    x[row, 1] = value
    return {"features": x, "y": np.zeros(40)}


def masked(row):
    return np.ma.masked_equal(np.where(np.arange(80).reshape(40, 2) == 2 * row + 1, 99.0, DATA), 99.0)


def on(data=DATA, init=INIT, posterior=NORMAL, **options):
    return lambda: call(model=(posterior, data, init), **options)


def posterior(log_likelihood, log_prior=None, **options):
    return iso.Posterior(log_likelihood, log_prior, **options)


scalar = lambda t, d: -0.5 * jnp.sum((d - t) ** 2)
on_rows = posterior(lambda t, d: -0.5 * jnp.sum((d["features"] - t) ** 2))

BAD = {
    # hyper-parameters, each of each kind
    **{
        f"{name} {field} {value}": (make, ValueError, rf"`{field}` of `{name}` must be a positive.*got {shown}")
        for value, shown in ((0.0, "0.0"), (-0.1, "-0.1"), (NAN, "nan"), (INF, "inf"))
        for name, field, make in (
            ("SGLD", "step_size", lambda v=value: iso.SGLD(v)),
            ("ModifiedSGLD", "step_size", lambda v=value: iso.ModifiedSGLD(v)),
            ("SGHMC", "step_size", lambda v=value: iso.SGHMC(v, 1.0)),
            ("SGHMC", "friction", lambda v=value: iso.SGHMC(0.1, v)),
            ("SGNHT", "friction", lambda v=value: iso.SGNHT(0.1, v)),
            ("CCAdL", "step_size", lambda v=value: iso.CCAdL(v, 1.0)),
            ("CCAdL", "friction", lambda v=value: iso.CCAdL(0.1, v)),
            ("CCAdL", "temperature", lambda v=value: iso.CCAdL(0.1, 1.0, temperature=v)),
            ("SGLD", "temperature", lambda v=value: iso.SGLD(0.1, temperature=v)),
            ("Posterior", "temperature", lambda v=value: posterior(scalar, temperature=v)),
        )
    },
    "thermal mass": (lambda: iso.SGNHT(0.1, 1.0, thermal_mass=-1.0), ValueError, "`thermal_mass` of `SGNHT`"),
    "schedule": (lambda: iso.SGLD(lambda t: -1.0 / (1 + t)), ValueError, "positive finite number at step 0; got -1.0"),
    "step size text": (lambda: iso.SGLD("small"), TypeError, "`step_size` of `SGLD` must be a number"),
    "step size array": (lambda: iso.SGLD(jnp.ones(3)), ValueError, "scalar.*shape .3,..*iso.sweep"),
    "mass": (lambda: iso.SGNHT(0.1, 1.0, mass=jnp.asarray([1.0, -2.0])), ValueError, "`mass`.*-2.0"),
    "mass shape": (lambda: call(iso.SGNHT(0.1, 1.0, mass=jnp.ones(3))), ValueError, "`mass` of `SGNHT`.*shapes"),
    "scheme": (lambda: iso.CCAdL(0.1, 1.0, scheme="leapfrog"), ValueError, "`scheme` of `CCAdL`.*'leapfrog'"),
    "form": (lambda: iso.ModifiedSGLD(0.1, form="third"), ValueError, "`form` of `ModifiedSGLD`.*'third'"),
    "estimate": (lambda: iso.Dense(estimate="guess"), ValueError, "`estimate` of `Dense`.*'guess'"),
    "estimate half": (lambda: iso.DiagonalLowRank(estimate="half"), ValueError, "`estimate` of `DiagonalLowRank`.*'half'"),
    "SGHMC scheme": (lambda: iso.SGHMC(0.1, 1.0, scheme="euler-midpoint"), ValueError, "`scheme` of `SGHMC` must be \"euler\" or \"symmetric\"; got 'euler-midpoint'"),
    "SGNHT scheme": (lambda: iso.SGNHT(0.1, 1.0, scheme="midpoint"), ValueError, "`scheme` of `SGNHT`.*'midpoint'"),
    "no control": (lambda: iso.CCAdL(0.1, 1.0, covariance=None), TypeError, "`covariance` of `CCAdL` must be a covariance.*Without one it is `iso.SGNHT`"),
    "no control, SGLD": (lambda: iso.ModifiedSGLD(0.1, None), TypeError, "`covariance` of `ModifiedSGLD`.*Without one it is `iso.SGLD`"),
    "covariance class": (lambda: iso.CCAdL(0.1, 1.0, iso.Dense), TypeError, "`covariance` of `CCAdL`.*such as `iso.Dense..`"),
    "no root": (lambda: iso.SGHMC(0.1, 1.0, iso.MatrixFree()), ValueError, "`covariance` of `SGHMC` must provide a square root; `MatrixFree` does not.*iso.CCAdL"),
    "no root, symmetric": (lambda: iso.SGHMC(0.1, 1.0, iso.MatrixFree(), scheme="symmetric"), ValueError, "must provide a square root"),
    "no root, SGLD": (lambda: iso.ModifiedSGLD(0.1, iso.MatrixFree()), ValueError, "`covariance` of `ModifiedSGLD` must provide a square root"),
    "latest only": (lambda: iso.CCAdL(0.1, 1.0, iso.Dense(averaging=1.0), scheme="symmetric"), ValueError, "`averaging` of the covariance must be at most 0.1 in the symmetric scheme.*got 1.0"),
    "latest only, matrix-free": (lambda: iso.CCAdL(0.1, 1.0, iso.MatrixFree(averaging=1.0), scheme="symmetric"), ValueError, "`averaging` of the covariance must be at most 0.1"),
    "rank 0": (lambda: iso.DiagonalLowRank(0), ValueError, "`rank` must be an integer of at least 1; got 0"),
    "rank float": (lambda: iso.DiagonalLowRank(2.5), TypeError, "`rank` must be an integer; got 2.5"),
    "contrasts 0": (lambda: iso.Dense(contrasts=0), ValueError, "`contrasts` must be an integer of at least 1; got 0"),
    "averaging": (lambda: iso.Diagonal(averaging=2.0), ValueError, "`averaging` of `Diagonal`.*2.0"),
    "sampler class": (lambda: call(iso.SGLD), TypeError, r"`sampler` must be an `iso.extend.Sampler`.*SGLD\(\.\.\.\)"),
    "batch size None": (lambda: iso.sample(NORMAL, DATA, INIT, sampler=iso.SGLD(0.1)), ValueError, "`batch_size` must be a number of rows if a sampler is given; got None"),
    "gradient without sampler": (lambda: iso.sample(NORMAL, DATA, INIT, gradient=iso.Minibatch()), TypeError, "`gradient` can only be set together with `sampler`"),
    "warm-up and sampler": (lambda: iso.sample(NORMAL, DATA, iso.warmup(NORMAL, DATA, INIT), sampler=iso.SGLD(0.1), batch_size=4), ValueError, "`init` must be a pytree of parameters if a sampler is given"),
    "order of expansion": (lambda: iso.ControlVariate(order=3), ValueError, "`order` must be 1 or 2; got 3"),
    "tickets": (lambda: iso.data.Weighted(np.array([1, 0])), ValueError, "`tickets` must be one positive integer for each row"),
    "tickets of other rows": (on(minibatch=iso.data.Weighted(np.ones(7, int))), ValueError, "`tickets` must be one number for each of 40 rows; got 7"),
    "posterior function": (on(posterior=scalar), TypeError, "`posterior` must be an `iso.Posterior`"),
    "plan class": (on(minibatch=iso.WithReplacement), TypeError, "`minibatch`.*WithReplacement"),
    # sizes
    "batch size 0": (on(batch_size=0), ValueError, "`batch_size` must be an integer of at least 1; got 0"),
    "batch size above N": (on(batch_size=41), ValueError, "`batch_size` must be at most the number of rows, 40; got 41"),
    "batch size float": (on(batch_size=8.0), TypeError, "`batch_size` must be an integer; got 8.0"),
    "batch of one": (on(batch_size=1), ValueError, "`batch_size` must be at least 2.*`CCAdL`.*got 1"),
    "batch of one in a sweep": (lambda: iso.sweep(NORMAL, DATA, INIT, [iso.SGLD(0.1), iso.CCAdL(0.1, 1.0)], batch_size=1), ValueError, "`batch_size` must be at least 2.*`CCAdL`.*got 1"),
    "negative draws": (on(num_draws=-1), ValueError, "`num_draws`.*got -1"),
    "no draws": (on(num_draws=0), ValueError, "`num_draws`.*got 0"),
    "thinning": (on(thinning=0), ValueError, "`thinning`.*got 0"),
    "burn-in": (on(burn_in=-5), ValueError, "`burn_in`.*got -5"),
    "chains": (on(num_chains=0), ValueError, "`num_chains`.*got 0"),
    "seed": (on(seed=-1), ValueError, "`seed`.*got -1"),
    "seed text": (on(seed="a"), TypeError, "`seed` must be an integer; got 'a'"),
    "run length": (lambda: iso.RandomBlocks(rows_per_run=0), ValueError, "`rows_per_run`.*got 0"),
    "run above N": (on(minibatch=iso.RandomBlocks(41)), ValueError, "`rows_per_run` must be at most the number of rows, 40"),
    "jitter": (on(init_scale=NAN), ValueError, "`init_scale`.*nan"),
    # data
    "unequal rows": (on({"features": DATA, "y": np.zeros(39)}), ValueError, "`data.features` has 40, `data.y` has 39"),
    "empty rows": (on(DATA[:0]), ValueError, "`data` must have at least one row"),
    "empty tree": (on({}), ValueError, "`data` must hold at least one array"),
    "scalar data": (on({"features": DATA, "n": 3.0}), ValueError, "`data.n` must be an array with a leading axis"),
    "text data": (on(np.asarray(["a", "b"])), TypeError, "`data` must be numeric"),
    "nan in data": (on(with_value(17, NAN), posterior=on_rows), ValueError, "`data.features` must not contain NaN; row 17"),
    "inf in data": (on(with_value(17, INF), posterior=on_rows), ValueError, r"row 17 is infinite in `data.features` \(1 of 40 rows are\), and the log-likelihood of that row is -inf at the start of chain 0. Drop those rows, or replace"),
    "-inf in data, warm-up": (lambda: iso.warmup(on_rows, with_value(17, -INF), INIT), ValueError, "row 17 is infinite in `data.features`"),
    "too large for 32 bits": (on(with_value(17, 1e300), posterior=on_rows), ValueError, r"row 17 is infinite \(as float32\) in `data.features`"),
    "masked data": (on(masked(17)), ValueError, r"`data` must not have masked entries; row 17 does \(1 of 40 rows\).*x\[~np.ma.getmaskarray\(x\).any\(axis=1\)\].*filled"),
    "masked leaf": (on({"features": DATA, "y": np.ma.masked_less(np.arange(40.0), 3)}), ValueError, r"`data.y` must not have masked entries; row 0 does \(3 of 40 rows\).*x\[~np.ma.getmaskarray\(x\)\]`"),
    "int64 data": (on({"features": DATA, "id": np.full(40, 2**40)}), ValueError, "`data.id` must be an array that fits in 32-bit integers; got 1099511627776. Set `JAX_ENABLE_X64=1`"),
    "negative int64": (on({"features": DATA, "id": np.full(40, -(2**40))}), ValueError, "got -1099511627776"),
    "no columns": (on({"features": DATA, "none": np.zeros((40, 0))}), ValueError, r"`data.none` must be an array with at least one number in each row; got an array of shape \(40, 0\)"),
    "2^31 rows": (on(np.broadcast_to(np.float32(0), (2**31, 2))), ValueError, "`data` must be fewer than 2\\^31 rows if they are in memory; got 2147483648"),
    "keys as data": (on(jax.random.split(jax.random.key(0), 40)), TypeError, "`data` must be numeric.*Pass keys as `seed`"),
    "records": (on(np.zeros(40, [("a", "f4")])), TypeError, "`data` must be numeric"),
    "list of lists": (on([[0.0, 1.0]] * 40), ValueError, "`data.0.0` must be an array with a leading axis of rows.*`np.asarray`"),
    # numbers that are none
    "jitter text": (on(init_scale="10"), TypeError, "`init_scale` must be a finite number, 0 or more; got '10'"),
    "many chains": (on(num_chains=2**31), ValueError, "`num_chains` must be an integer below 2\\^31; got 2147483648"),
    "mass text": (lambda: iso.SGNHT(0.1, 1.0, mass="heavy"), TypeError, "`mass` of `SGNHT` must be positive and finite.*'heavy'"),
    "xi text": (lambda: iso.SGNHT(0.1, 1.0, initial_xi="1"), TypeError, "`initial_xi` of `SGNHT` must be a finite number; got '1'"),
    "averaging text": (lambda: iso.Dense(averaging="all"), TypeError, "`averaging` of `Dense` must be a floor between 0 and 1.*'all'"),
    "step size complex": (lambda: iso.SGLD(2e-4 + 1j), TypeError, "`step_size` of `SGLD` must be a number or a schedule"),
    "step size True": (lambda: iso.SGLD(True), TypeError, "`step_size` of `SGLD` must be a number or a schedule; got True"),
    "step size None": (lambda: iso.SGLD(None), TypeError, "`step_size` of `SGLD` must be a number or a schedule; got None"),
    "schedule of nothing": (lambda: iso.SGLD(lambda: 0.1), TypeError, "`step_size` of `SGLD` must be a number, or a schedule that takes the step number"),
    "inverse of another root": (on(preconditioner=iso.DensePreconditioner(jnp.zeros(2), 3.0 * jnp.eye(2), jnp.eye(2))), ValueError, "`preconditioner` .`DensePreconditioner`. must be finite and invertible"),
    "transform class": (lambda: posterior(scalar, transforms=iso.Positive), TypeError, r"`transforms` of `Posterior` must be a transform.*Write `Positive\(\)`"),
    # the model
    "non-scalar": (on(posterior=posterior(lambda t, d: (d - t) ** 2)), TypeError, r"`log_likelihood` must return a scalar; got shape \(2,\)"),
    "integer value": (on(posterior=posterior(lambda t, d: 1)), TypeError, "`log_likelihood` must return a scalar, of floating dtype so that it has a gradient; got 1.$"),
    "constant": (on(posterior=posterior(lambda t, d: 1.0)), TypeError, "`log_likelihood` must return a scalar, computed from the parameters; got 1.0.$"),
    "integer array": (on(posterior=posterior(lambda t, d: jnp.sum(d > 0))), TypeError, r"`log_likelihood`.*floating dtype.*got shape \(\), dtype int32.$"),
    "integer array, 16 bits": (on(posterior=posterior(lambda t, d: jnp.sum(d > 0)), init=INIT.astype(jnp.bfloat16)), TypeError, "`log_likelihood`.*floating dtype.*int32"),
    "no prior": (on(posterior=posterior(scalar, lambda t: None)), TypeError, "`log_prior` must return a scalar; got None"),
    "boolean prior": (on(posterior=posterior(scalar, lambda t: jnp.all(t > -1))), TypeError, "`log_prior` must return a scalar, of floating dtype.*bool"),
    "batched shape": (on(posterior=posterior(scalar, batched=True)), TypeError, r"`log_likelihood` must return one value per row; called with a batch of 2 rows, it returned shape \(\), dtype float32 instead of shape \(2,\)"),
    "vector prior": (on(posterior=posterior(scalar, lambda t: -0.5 * t**2)), TypeError, "`log_prior` must return a scalar"),
    "no function": (lambda: iso.Posterior(3.0), TypeError, "`log_likelihood` of `Posterior` must be a function"),
    # the start
    "integer init": (on(init=jnp.zeros(2, int)), TypeError, "`init` must have a floating dtype.*int32"),
    "integer leaf": (on(init={"w": np.zeros(2), "k": 3}), TypeError, "`init.k` must have a floating dtype"),
    "empty init": (on(init={}), ValueError, "`init` must hold at least one array"),
    "masked init": (on(init={"w": np.ma.masked_array([0.0, 1.0, 2.0], [0, 1, 1])}), ValueError, "`init.w` must not have masked entries; 2 of 3 are. Fill them with"),
    "nan init": (on(init=jnp.asarray([NAN, 0.0])), ValueError, "`init` must be finite"),
    "outside support": (
        on(init=jnp.asarray([-1.0, 0.0]), posterior=posterior(lambda t, d: jnp.log(t[0]) + 0 * d[0])),
        ValueError,
        "`init` must have a finite log-density; the log-likelihood of row 0 is nan at the start of chain 0",
    ),
    "outside prior": (
        on(posterior=posterior(scalar, lambda t: jnp.where(t[0] > 1, 0.0, -jnp.inf))),
        ValueError,
        "the log-prior is -inf at the start of chain 0",
    ),
    "wrong chain axis": (
        on(init=jnp.zeros((4, 2)), init_per_chain=True),
        ValueError,
        r"`init` must be an array with a leading axis of 3 chains; got .*\(4, 2\)",
    ),
    "one sampler": (lambda: iso.sweep(NORMAL, DATA, INIT, iso.SGLD(0.1), batch_size=4), ValueError, "use `iso.sample`"),
    "late mass": (
        lambda: iso.sweep(NORMAL, DATA, INIT, [iso.SGNHT(0.1, 1.0), iso.CCAdL(0.1, 1.0, mass=jnp.ones(3))], batch_size=4),
        ValueError,
        "`mass` of `CCAdL`",
    ),
    "xi": (lambda: iso.SGNHT(0.1, 1.0, initial_xi=NAN), ValueError, "`initial_xi` of `SGNHT` must be a finite number"),
    "mass schedule": (lambda: iso.SGNHT(0.1, 1.0, thermal_mass=lambda t: 1.0), TypeError, "`thermal_mass`.*schedule"),
    "too many steps": (on(thinning=2**30), ValueError, "must be below 2.*different seeds"),
    "module leaf": (on(init={"w": jnp.zeros(2), "f": jnp.tanh}), TypeError, "`init.f`.*eqx.partition"),
    "wrapping int": (on({"features": DATA, "id": np.full(40, 3 * 10**9)}), ValueError, "`data.id` must be an array that fits in 32-bit integers"),
    "no samplers": (lambda: iso.sweep(NORMAL, DATA, INIT, [], batch_size=4), ValueError, "`samplers` must be a sequence of at least one sampler"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_before_any_step(make, error, message, monkeypatch):
    def no_compute(*_, **__):
        raise AssertionError("a run was started")

    monkeypatch.setattr("isotherm.chains.run.drive", no_compute)
    with pytest.raises(error, match=message) as caught:
        make()
    assert not isinstance(caught.value, AssertionError)


@pytest.mark.parametrize("options", [{"thinning": 0}, {"burn_in": -5}, {"thinning": 2.5}])
def test_lengths_are_refused_before_a_warm_up(options, monkeypatch):
    def no_warmup(*_, **__):
        raise AssertionError("a warm-up was started")

    monkeypatch.setattr("isotherm.sampling.sampled.tuned", no_warmup)
    with pytest.raises((ValueError, TypeError), match=f"`{next(iter(options))}` must be an integer"):
        iso.sample(NORMAL, DATA, INIT, **options)


@jax.custom_vjp
def only_backward(x):
    return -0.5 * x**2


def calls_itself(x):
    return only_backward(x), x


def calls_nothing(x):
    return -0.5 * x**2, x


VJP = posterior(lambda t, d: jnp.sum(only_backward(d - t)))
VJP_PRIOR = posterior(scalar, lambda t: jnp.sum(only_backward(t)))


@pytest.mark.parametrize(
    ("model", "forward", "argument"),
    [
        (VJP, calls_itself, "log_likelihood"),
        (VJP, calls_nothing, "log_likelihood"),
        (VJP_PRIOR, calls_itself, "log_prior"),
    ],
)
def test_a_warm_up_refuses_derivatives_that_go_only_backward(model, forward, argument, monkeypatch):
    def no_compute(*_, **__):
        raise AssertionError("a warm-up was started")

    only_backward.defvjp(forward, lambda x, g: (-g * x,))
    monkeypatch.setattr("isotherm.sampling.warmup.tune_normal", no_compute)
    monkeypatch.setattr("isotherm.chains.problem._log_densities", no_compute)
    message = f"`{argument}` must have forward-mode derivatives.*`jax.custom_vjp`.*`jax.custom_jvp`, or give a `sampler`"
    for call_it in (iso.sample, iso.warmup):
        with pytest.raises(TypeError, match=message):
            call_it(model, DATA, INIT, progress=False)


@pytest.mark.slow
def test_a_prior_whose_gradient_has_derivatives_is_accepted():
    only_backward.defvjp(calls_nothing, lambda x, g: (-g * x,))
    assert "DensePreconditioner" in repr(
        type(iso.warmup(VJP_PRIOR, DATA, INIT, progress=False).preconditioner)
    )


@pytest.mark.slow
def test_derivatives_that_go_only_backward_are_enough_for_plain_minibatches():
    only_backward.defvjp(calls_itself, lambda x, g: (-g * x,))
    draws = call(iso.CCAdL(0.01, 5.0), model=(VJP, DATA, INIT), num_draws=3)
    assert draws.complete.all()


def test_an_error_of_the_model_names_the_shapes_it_was_called_with():
    with pytest.raises(TypeError) as caught:
        call(model=(posterior(lambda t, d: jnp.dot(t, jnp.ones(5))), DATA, INIT))
    assert any(
        "when called with the shapes of `init` (init: (2,)) and of one row of `data`" in note
        for note in caught.value.__notes__
    )
    with pytest.raises(TypeError) as caught:
        call(model=(posterior(lambda t, d: d @ jnp.ones(5), batched=True), DATA, INIT))
    assert any("and of a batch of 2 rows of `data`" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("log_likelihood", "init", "words"),
    [
        (
            lambda p, d: d @ p["w"],
            {"w": [0.0, 1.0]},
            "`init.w` is a list of 2 numbers, which are 2 parameters",
        ),
        (
            lambda t, d: np.log(np.abs(t[0])),
            INIT,
            "use `jax.numpy` and `jax.scipy` in place of NumPy and SciPy",
        ),
        (lambda t, d: t[0] if t[1] > 0 else t[1], INIT, "`jnp.where` in place of `if`"),
    ],
)
def test_an_error_of_the_model_says_how_to_repair_its_common_causes(log_likelihood, init, words):
    with pytest.raises(TypeError) as caught:
        call(model=(posterior(log_likelihood), DATA, init))
    assert any(words in note for note in caught.value.__notes__)


def test_arrays_of_unequal_length_are_refused_in_double_precision_too():
    data = {"x": np.zeros((40, 2)), "y": np.zeros(39)}
    with pytest.raises(ValueError, match=r"same number of rows; `data.x` has 40, `data.y` has 39"):
        iso.sample(NORMAL, data, INIT, progress=False)


@pytest.mark.slow
def test_start_per_chain_is_inferred_from_shapes():
    model = posterior(lambda t, d: -0.5 * jnp.dot(d - t, d - t))
    draws = call(model=(model, DATA, jnp.zeros((3, 2))), num_draws=2)
    assert draws.posterior.shape == (3, 2, 2)
    with pytest.raises(TypeError):
        call(model=(model, DATA, jnp.zeros((4, 2))), num_draws=2)


def test_as_many_parameters_as_chains_do_not_confuse_the_error():
    with pytest.raises(TypeError, match=r"must return a scalar; got shape \(2,\)"):
        call(model=(posterior(lambda t, d: d * t), DATA, jnp.zeros(2)), num_chains=2)


@pytest.mark.slow
def test_parameters_of_16_bits_move_in_32():
    """The model receives the dtype it was written for, and a step smaller than its rounding is not lost."""
    seen = []

    def log_likelihood(t, d):
        seen.append(t.dtype)
        return -0.5 * jnp.sum((d - t.astype(d.dtype)) ** 2)

    start = jnp.ones(2, jnp.bfloat16)
    draws = call(iso.SGLD(1e-9), model=(posterior(log_likelihood), DATA, start), num_draws=20)
    assert set(seen) == {jnp.dtype("bfloat16")}
    assert draws.posterior.dtype == np.float32
    assert len(np.unique(draws.posterior)) > 100


def test_valid_neighbours_of_bad_input_are_accepted():
    """The first-order form needs no root, and the latest batch alone may damp an explicit step."""
    assert iso.ModifiedSGLD(0.1, iso.MatrixFree(), form="first-order").needs.operator
    for scheme in ("euler", "euler-midpoint"):
        assert iso.CCAdL(0.1, 1.0, iso.Dense(averaging=1.0), scheme=scheme).covariance.averaging == 1.0


def test_hyper_parameters_inside_a_transformation_are_not_checked():
    built = jax.vmap(lambda h: iso.SGLD(h))(jnp.asarray([0.1, 0.2]))
    assert built.step_size.shape == (2,)
