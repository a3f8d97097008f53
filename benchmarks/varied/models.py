"""Twenty-one models of different kinds, small enough for NUTS."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm.models import logistic_regression, softmax_regression
from isotherm.tables.regressions import regression

Model = tuple[iso.Posterior, object, object]
N = 20_000
normal = lambda z: -0.5 * z**2


def _x(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return rng.normal(size=(rows, columns)).astype(np.float32)


def _f(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, np.float32)


def one_mean(rng: np.random.Generator) -> Model:
    """The mean of a normal distribution."""
    return (
        iso.Posterior(lambda m, r: normal((r - m) / 2), lambda m: normal(m / 100)),
        _f(rng.normal(3, 2, N)),
        jnp.zeros(()),
    )


def flat_prior(rng: np.random.Generator) -> Model:
    """Mean and log-scale, no prior."""
    density = lambda p, r: normal((r - p["m"]) * jnp.exp(-p["s"])) - p["s"]
    return iso.Posterior(density), _f(rng.normal(3, 2, N)), {"m": jnp.zeros(()), "s": jnp.zeros(())}


def few_rows(rng: np.random.Generator) -> Model:
    """Linear regression on 60 rows."""
    x = _x(rng, 60, 3)
    data = {"x": x, "y": _f(x @ [1, 2, 3] + rng.normal(size=60))}
    return (
        iso.Posterior(lambda w, r: normal(r["y"] - r["x"] @ w), lambda w: jnp.sum(normal(w))),
        data,
        jnp.zeros(3),
    )


def wild_scales(rng: np.random.Generator) -> Model:
    """Logistic regression on columns from 0.001 to 10,000."""
    x = rng.normal(size=(N, 6)) * [1e-3, 1, 1e3, 1e4, 1, 1]
    y = rng.random(N) < 1 / (1 + np.exp(-(x @ [300, 0.5, 1e-3, -1e-4, 0.3, -1])))
    posterior = iso.Posterior(
        lambda w, r: r["y"] * (r["x"] @ w) - jax.nn.softplus(r["x"] @ w), lambda w: jnp.sum(normal(w / 1e3))
    )
    return posterior, {"x": _f(x), "y": _f(y)}, jnp.zeros(6)


def collinear(rng: np.random.Generator) -> Model:
    """Linear regression with two columns that differ by 0.001 standard deviations."""
    x = rng.normal(size=(N, 5))
    x[:, 4] = x[:, 3] + 1e-3 * x[:, 4]
    data = {"x": _f(x), "y": _f(x @ np.ones(5) + rng.normal(size=N))}
    return (
        iso.Posterior(lambda w, r: normal(r["y"] - r["x"] @ w), lambda w: jnp.sum(normal(w))),
        data,
        jnp.zeros(5),
    )


def softmax(rng: np.random.Generator) -> Model:
    """Softmax regression with five classes and eight columns."""
    x, w = _x(rng, N, 8), rng.normal(size=(8, 5))
    y = np.argmax(x @ w + rng.gumbel(size=(N, 5)), axis=1).astype(np.int32)
    return softmax_regression(), {"x": x, "y": y}, {"W": jnp.zeros((5, 8)), "b": jnp.zeros(5)}


def separable(rng: np.random.Generator) -> Model:
    """Logistic regression of classes that are linearly separable."""
    x = _x(rng, 5000, 3)
    return logistic_regression(3.0), {"x": x, "y": _f(np.where(x @ [1, 0.01, 0] > 0, 1, -1))}, jnp.zeros(3)


def negative_binomial(rng: np.random.Generator) -> Model:
    """Overdispersed counts: negative binomial regression."""
    x = _x(rng, N, 4)
    y = rng.poisson(np.exp(x @ [0.2, -0.3, 0.1, 0.4] + 1) * rng.gamma(2, 0.5, size=N))

    def density(p: dict, r: dict) -> jax.Array:
        a, m = p["a"], jnp.exp(r["x"] @ p["w"] + p["b"])
        chosen = jax.scipy.special.gammaln(r["y"] + a) - jax.scipy.special.gammaln(a)
        return chosen + a * jnp.log(a / (a + m)) + r["y"] * jnp.log(m / (a + m))

    prior = lambda p: jnp.sum(normal(p["w"])) + normal(p["b"]) - p["a"]
    posterior = iso.Posterior(density, prior, transforms={"w": None, "b": None, "a": iso.Positive()})
    return posterior, {"x": x, "y": _f(y)}, {"w": jnp.zeros(4), "b": jnp.zeros(()), "a": jnp.ones(())}


def no_extra_spread(rng: np.random.Generator) -> Model:
    """Negative binomial regression on counts that are not overdispersed."""
    columns = {"x": rng.normal(size=N), "z": rng.normal(size=N)}
    columns["y"] = rng.poisson(np.exp(0.3 * columns["x"] - 0.2 * columns["z"] - 1))
    posterior, data, init = regression("negative-binomial", columns, "y")
    return posterior, data, init


def cauchy_errors(rng: np.random.Generator) -> Model:
    """Location and scale of a Cauchy distribution."""
    density = lambda p, r: -jnp.log1p(((r - p["m"]) * jnp.exp(-p["s"])) ** 2) - p["s"]
    prior = lambda p: normal(p["m"] / 10) + normal(p["s"])
    return (
        iso.Posterior(density, prior),
        _f(3 + rng.standard_cauchy(N)),
        {"m": jnp.zeros(()), "s": jnp.zeros(())},
    )


def laplace_errors(rng: np.random.Generator) -> Model:
    """Location and scale of a Laplace distribution, whose density has a kink."""
    density = lambda p, r: -jnp.abs(r - p["m"]) * jnp.exp(-p["s"]) - p["s"]
    prior = lambda p: normal(p["m"] / 10) + normal(p["s"])
    return iso.Posterior(density, prior), _f(rng.laplace(1, 2, N)), {"m": jnp.zeros(()), "s": jnp.zeros(())}


def growing_scale(rng: np.random.Generator) -> Model:
    """Regression whose scale also depends on the columns."""
    x = _x(rng, N, 4)
    y = x @ [1, -1, 0.5, 0] + np.exp(x @ [0.3, 0, 0, -0.3]) * rng.normal(size=N)
    density = lambda p, r: normal((r["y"] - r["x"] @ p["w"]) * jnp.exp(-(r["x"] @ p["g"]))) - r["x"] @ p["g"]
    prior = lambda p: jnp.sum(normal(p["w"])) + jnp.sum(normal(p["g"]))
    return iso.Posterior(density, prior), {"x": x, "y": _f(y)}, {"w": jnp.zeros(4), "g": jnp.zeros(4)}


def ordinal(rng: np.random.Generator) -> Model:
    """Ordered logit with four cut points."""
    x, cuts = _x(rng, N, 3), np.array([-2.0, -0.5, 0.5, 2.5])
    y = np.sum((x @ [1, -0.5, 0.2] + rng.logistic(size=N))[:, None] > cuts, axis=1).astype(np.int32)

    def density(p: dict, r: dict) -> jax.Array:
        edges = jnp.concatenate([jnp.array([-jnp.inf]), p["cuts"], jnp.array([jnp.inf])]) - r["x"] @ p["w"]
        low, high = edges[r["y"]], edges[r["y"] + 1]
        return jnp.log(jax.nn.sigmoid(high) - jax.nn.sigmoid(low) + 1e-12)

    prior = lambda p: jnp.sum(normal(p["w"])) + jnp.sum(normal(p["cuts"] / 3))
    posterior = iso.Posterior(density, prior, transforms={"w": None, "cuts": iso.Ordered()})
    return posterior, {"x": x, "y": y}, {"w": jnp.zeros(3), "cuts": jnp.asarray([-1.0, -0.3, 0.3, 1.0])}


def censored(rng: np.random.Generator) -> Model:
    """Weibull times, a third of them censored."""
    x = _x(rng, N, 3)
    times = np.exp(x @ [0.3, -0.2, 0.1]) * rng.weibull(1.5, size=N)
    end = rng.exponential(2.0, size=N)
    data = {"x": x, "t": _f(np.minimum(times, end)), "seen": _f(times < end)}

    def density(p: dict, r: dict) -> jax.Array:
        z = p["k"] * (jnp.log(r["t"]) - r["x"] @ p["w"])
        return r["seen"] * (jnp.log(p["k"]) + z - jnp.log(r["t"])) - jnp.exp(z)

    prior = lambda p: jnp.sum(normal(p["w"])) - p["k"]
    return (
        iso.Posterior(density, prior, transforms={"w": None, "k": iso.Positive()}),
        data,
        {"w": jnp.zeros(3), "k": jnp.ones(())},
    )


def groups(rng: np.random.Generator) -> Model:
    """Forty groups with a common, unknown spread."""
    g = rng.integers(0, 40, N).astype(np.int32)
    y = 0.5 * rng.normal(size=40)[g] + rng.normal(size=N)
    density = lambda p, r: normal(r["y"] - p["m"] - p["z"][r["g"]])
    prior = lambda p: jnp.sum(normal(p["z"] / p["tau"]) - jnp.log(p["tau"])) + normal(p["m"]) - p["tau"]
    posterior = iso.Posterior(density, prior, transforms={"m": None, "tau": iso.Positive(), "z": None})
    return posterior, {"y": _f(y), "g": g}, {"m": jnp.zeros(()), "tau": jnp.ones(()), "z": jnp.zeros(40)}


def small_groups(rng: np.random.Generator) -> Model:
    """Eight groups of five rows: a funnel."""
    g = np.repeat(np.arange(8), 5).astype(np.int32)
    y = 0.3 * rng.normal(size=8)[g] + rng.normal(size=40)
    posterior, _, _ = groups(rng)
    return posterior, {"y": _f(y), "g": g}, {"m": jnp.zeros(()), "tau": jnp.ones(()), "z": jnp.zeros(8)}


def mixture(rng: np.random.Generator) -> Model:
    """A mixture of two normal distributions with ordered means and unknown shares."""
    x = np.where(rng.random(N) < 0.4, rng.normal(-1, 1, N), rng.normal(2, 1, N))

    def density(p: dict, r: jax.Array) -> jax.Array:
        return jax.nn.logsumexp(jnp.log(p["share"]) + normal(r - p["m"]))

    posterior = iso.Posterior(
        density,
        lambda p: jnp.sum(normal(p["m"] / 5)),
        transforms={"m": iso.Ordered(), "share": iso.Simplex()},
    )
    return posterior, _f(x), {"m": jnp.asarray([-0.5, 0.5]), "share": jnp.asarray([0.5, 0.5])}


def two_modes(rng: np.random.Generator) -> Model:
    """A square root of unknown sign: two modes."""
    return (
        iso.Posterior(lambda m, r: normal(r - m**2), lambda m: normal(m / 3)),
        _f(2 + rng.normal(size=2000)),
        jnp.asarray(0.5),
    )


def ridge(rng: np.random.Generator) -> Model:
    """Two parameters of which the data determine only the product."""
    posterior = iso.Posterior(
        lambda p, r: normal(r - p["a"] * p["b"]), lambda p: normal(p["a"]) + normal(p["b"])
    )
    return posterior, _f(1 + rng.normal(size=2000)), {"a": jnp.ones(()), "b": jnp.ones(())}


def horseshoe(rng: np.random.Generator) -> Model:
    """Twenty coefficients, three of them nonzero, with a horseshoe prior."""
    x = _x(rng, 2000, 20)
    y = x @ np.concatenate([[2, -1, 0.5], np.zeros(17)]) + rng.normal(size=2000)
    prior = lambda p: (
        jnp.sum(normal(p["z"])) - jnp.sum(jnp.log1p(p["local"] ** 2)) - jnp.log1p((p["all"] / 0.1) ** 2)
    )
    posterior = iso.Posterior(
        lambda p, r: normal(r["y"] - r["x"] @ (p["z"] * p["local"] * p["all"])),
        prior,
        transforms={"z": None, "local": iso.Positive(), "all": iso.Positive()},
    )
    init = {"z": jnp.ones(20), "local": jnp.ones(20), "all": 0.3 * jnp.ones(())}
    return posterior, {"x": x, "y": _f(y)}, init


def network(rng: np.random.Generator) -> Model:
    """A network with one hidden layer of ten units, fitted to a sine."""
    x = rng.uniform(-2, 2, size=(2000, 1))
    data = {"x": _f(x), "y": _f(np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=2000))}
    net = lambda p, r: jnp.tanh(r["x"] @ p["w"] + p["b"]) @ p["v"]
    posterior = iso.Posterior(
        lambda p, r: normal((r["y"] - net(p, r)) / 0.3),
        lambda p: sum(jnp.sum(normal(leaf)) for leaf in jax.tree.leaves(p)),
    )
    init = {"w": rng.normal(size=(1, 10)), "b": rng.normal(size=10), "v": 0.3 * rng.normal(size=10)}
    return posterior, data, jax.tree.map(lambda z: jnp.asarray(z, jnp.float32), init)


MODELS: dict[str, Callable[[np.random.Generator], Model]] = {
    f.__name__: f
    for f in (
        one_mean, flat_prior, few_rows, wild_scales, collinear, softmax, separable, negative_binomial,
        no_extra_spread, cauchy_errors, laplace_errors, growing_scale, ordinal, censored, groups, small_groups,
        mixture, two_modes, ridge, horseshoe, network,
    )
}  # fmt: skip
