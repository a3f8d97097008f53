"""Models with effects of groups, and the posterior of the normal ones by quadrature over their two scales."""

import numpy as np

import isotherm as iso


def normal_groups(groups, rows_each, *, scale=0.7, features=2, seed=0):
    """Return posterior, rows and start of y = a + x b + effect + noise, with `rows_each` rows in each group."""
    import jax.numpy as jnp

    rng = np.random.default_rng(seed)
    level = np.repeat(np.arange(groups), rows_each).astype(np.int32)
    x = rng.normal(size=(len(level), features)).astype(np.float32)
    effect = scale * rng.normal(size=groups)
    y = 0.5 + x @ rng.normal(size=features) + effect[level] + rng.normal(size=len(level))

    def log_likelihood(q, row):
        mean = q["a"] + row["x"] @ q["slopes"] + q["effect"][row["level"]]
        return -0.5 * ((row["y"] - mean) / q["sigma"]) ** 2 - jnp.log(q["sigma"])

    def log_prior(q):
        effects = -0.5 * jnp.sum((q["effect"] / q["tau"]) ** 2) - groups * jnp.log(q["tau"])
        slopes = -0.5 * (jnp.sum(q["slopes"] ** 2) + q["a"] ** 2) / 25
        return effects + slopes - 0.5 * q["tau"] ** 2 - q["sigma"]

    transforms = {"a": None, "slopes": None, "effect": None, "tau": iso.Scale(), "sigma": iso.Scale()}
    posterior = iso.Posterior(
        log_likelihood, log_prior, transforms=transforms, groups={"effect": iso.Group("level", scale="tau")}
    )
    rows = {"x": x, "level": level, "y": y.astype(np.float32)}
    zero = np.zeros(groups, np.float32)
    init = {"a": 0.0, "slopes": np.zeros(features, np.float32), "effect": zero, "tau": 1.0, "sigma": 1.0}
    return posterior, rows, init


def curve(coefficients=12, rows=800, seed=0):
    """Return posterior, rows and start of y = a + s(x) + noise, with bumps whose sd of coefficients is unknown."""
    import jax.numpy as jnp

    rng = np.random.default_rng(seed)
    x, centers = rng.random(rows), np.linspace(0, 1, coefficients)
    basis = np.exp(-0.5 * ((x[:, None] - centers) * coefficients / 1.5) ** 2)
    y = np.sin(7 * x) + 0.5 * rng.normal(size=rows)

    def log_likelihood(q, row):
        mean = q["a"] + row["basis"] @ q["curve"]
        return -0.5 * ((row["y"] - mean) / q["sigma"]) ** 2 - jnp.log(q["sigma"])

    def log_prior(q):
        own = -0.5 * jnp.sum((q["curve"] / q["sd"]) ** 2) - coefficients * jnp.log(q["sd"])
        return own - 0.5 * q["a"] ** 2 / 25 - 0.5 * q["sd"] ** 2 - q["sigma"]

    transforms = {"a": None, "curve": None, "sd": iso.Scale(), "sigma": iso.Scale()}
    groups = {"curve": iso.Group(scale="sd")}
    posterior = iso.Posterior(log_likelihood, log_prior, transforms=transforms, groups=groups)
    data = {"basis": basis.astype(np.float32), "y": y.astype(np.float32)}
    return posterior, data, {"a": 0.0, "curve": np.zeros(coefficients, np.float32), "sd": 1.0, "sigma": 1.0}


def exact_moments_of_curve(rows, *, points=150):
    """Return mean and sd of each parameter of `curve`: normal given both scales, which are on a grid."""
    x = np.column_stack([np.ones(len(rows["y"])), rows["basis"]]).astype(float)
    y, k = rows["y"].astype(float), rows["basis"].shape[1]
    xx, xy, yy = x.T @ x, x.T @ y, y @ y
    values, means, squares = [], [], []
    for sd in np.geomspace(0.02, 8, points):
        for sigma in np.linspace(0.4, 0.65, points // 2):
            precision = xx / sigma**2 + np.diag([1 / 25, *[1 / sd**2] * k])
            covariance = np.linalg.inv(precision)
            mean = covariance @ xy / sigma**2
            value = -0.5 * yy / sigma**2 + 0.5 * xy @ mean / sigma**2 + 0.5 * np.linalg.slogdet(covariance)[1]
            value += (
                (1 - k) * np.log(sd) - len(y) * np.log(sigma) - 0.5 * sd**2 - sigma
            )  # the grid is in log sd
            values.append(value)
            means.append([*mean, sd, sigma])
            squares.append([*(mean**2 + np.diag(covariance)), sd**2, sigma**2])
    weights = np.exp(np.array(values) - max(values))
    weights /= weights.sum()
    mean = weights @ np.array(means)
    spread = np.sqrt(weights @ np.array(squares) - mean**2)
    at = {"a": 0, "curve": slice(1, k + 1), "sd": k + 1, "sigma": k + 2}
    return {name: (mean[i], spread[i]) for name, i in at.items()}


def logistic_groups(groups, rows_each, *, scale=0.5, features=2, seed=0):
    """Return posterior, rows and start of a logistic regression with an effect of each group."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(seed)
    level = np.repeat(np.arange(groups), rows_each).astype(np.int32)
    x = rng.normal(size=(len(level), features)).astype(np.float32)
    eta = -0.5 + x @ (0.3 * rng.normal(size=features)) + scale * rng.normal(size=groups)[level]
    y = (rng.random(len(level)) < 1 / (1 + np.exp(-eta))).astype(np.float32)

    def log_likelihood(q, row):
        eta = q["a"] + row["x"] @ q["slopes"] + q["effect"][row["level"]]
        return row["y"] * eta - jax.nn.softplus(eta)

    def log_prior(q):
        effects = -0.5 * jnp.sum((q["effect"] / q["tau"]) ** 2) - groups * jnp.log(q["tau"])
        return effects - 0.02 * (jnp.sum(q["slopes"] ** 2) + q["a"] ** 2) - 0.5 * q["tau"] ** 2

    transforms = {"a": None, "slopes": None, "effect": None, "tau": iso.Scale()}
    posterior = iso.Posterior(
        log_likelihood, log_prior, transforms=transforms, groups={"effect": iso.Group("level", scale="tau")}
    )
    init = {"a": 0.0, "slopes": np.zeros(features, np.float32), "effect": np.zeros(groups, np.float32)}
    return posterior, {"x": x, "level": level, "y": y}, init | {"tau": 1.0}


def crossed_groups(seed=0, rows=400, patients=12, sites=5):
    """Return a logistic regression with intercepts and correlated slopes by patient, and intercepts by site."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(seed)
    data = {
        "x": rng.normal(size=(rows, 2)).astype(np.float32),
        "patient": rng.integers(patients, size=rows).astype(np.int32),
        "site": rng.integers(sites, size=rows).astype(np.int32),
        "y": rng.integers(2, size=rows).astype(np.float32),
    }

    def log_likelihood(q, row):
        own = q["by_patient"][row["patient"]]
        eta = row["x"] @ q["slopes"] + own[0] + own[1] * row["x"][0] + q["by_site"][row["site"]]
        return row["y"] * eta - jax.nn.softplus(eta)

    def log_prior(q):
        r = q["r"][0]
        z = q["by_patient"] / q["sd"][None]
        square = (z[:, 0] ** 2 + z[:, 1] ** 2 - 2 * r * z[:, 0] * z[:, 1]) / (1 - r**2)
        value = -0.5 * jnp.sum(square) - patients * (0.5 * jnp.log(1 - r**2) + jnp.sum(jnp.log(q["sd"])))
        value += -0.5 * jnp.sum((q["by_site"] / q["sd_site"]) ** 2) - sites * jnp.log(q["sd_site"])
        return value - 0.5 * (jnp.sum(q["slopes"] ** 2) + jnp.sum(q["sd"] ** 2) + q["sd_site"] ** 2)

    transforms = {"slopes": None, "by_patient": None, "by_site": None, "sd": iso.Scale()}
    transforms |= {"sd_site": iso.Scale(), "r": iso.Correlations()}
    groups = {
        "by_patient": iso.Group("patient", scale="sd", correlations="r"),
        "by_site": iso.Group("site", scale="sd_site"),
    }
    posterior = iso.Posterior(log_likelihood, log_prior, transforms=transforms, groups=groups)
    init = {"slopes": np.zeros(2, np.float32), "by_patient": np.zeros((patients, 2), np.float32)}
    init |= {"by_site": np.zeros(sites, np.float32), "sd": np.ones(2, np.float32), "sd_site": 1.0}
    return posterior, data, init | {"r": np.zeros(1, np.float32)}


def exact_moments(rows, *, points=120):
    """Return mean and sd of each parameter of `normal_groups`.

    Given both scales the rest is normal. The scales are integrated over on a grid, whose ends are found on a coarse
    one; no number is shared with the library.
    """
    level, y = rows["level"], rows["y"].astype(float)
    x = np.column_stack([np.ones(len(y)), rows["x"].astype(float)])
    groups, count = level.max() + 1, np.bincount(level).astype(float)
    sums = np.stack([np.bincount(level, column, minlength=groups) for column in x.T], axis=1)
    total = np.bincount(level, y, minlength=groups)
    xx, xy, yy = x.T @ x, x.T @ y, y @ y

    def given(tau, sigma):
        own = 1 / (count / sigma**2 + 1 / tau**2)
        precision = xx / sigma**2 - (sums * own[:, None]).T @ sums / sigma**4 + np.eye(x.shape[1]) / 25
        right = xy / sigma**2 - (sums * own[:, None]).T @ total / sigma**4
        mean, covariance = np.linalg.solve(precision, right), np.linalg.inv(precision)
        log_density = -0.5 * (yy / sigma**2 - np.sum(own * total**2) / sigma**4) + 0.5 * right @ mean
        log_density += 0.5 * np.sum(np.log(own)) - groups * np.log(tau) - len(y) * np.log(sigma)
        log_density += -0.5 * np.linalg.slogdet(precision)[1] - 0.5 * tau**2 - sigma
        effect = own * (total - sums @ mean) / sigma**2
        follow = -(own / sigma**2)[:, None] * sums
        return log_density, (
            {"tau": (tau, 0.0), "sigma": (sigma, 0.0)}
            | {"a": (mean[0], covariance[0, 0]), "slopes": (mean[1:], np.diag(covariance)[1:])}
            | {"effect": (effect, own + np.einsum("gi,ij,gj->g", follow, covariance, follow))}
        )

    coarse = np.geomspace(1e-3, 8, 60)
    density = np.array([[given(t, s)[0] for s in coarse] for t in coarse])
    inside = density > density.max() - 18
    axes = []
    for axis in (1, 0):
        found = np.flatnonzero(inside.any(axis=axis))
        low, high = coarse[max(found[0] - 1, 0)], coarse[min(found[-1] + 1, 59)]
        axes.append(low + (high - low) * (np.arange(points) + 0.5) / points)
    grid = [(t, s) for t in axes[0] for s in axes[1]]
    values = np.array([given(*scales)[0] for scales in grid])
    weights = np.exp(values - values.max())
    kept = np.flatnonzero(weights > 1e-7)
    first, second = {}, {}
    for k in kept:
        for name, (mean, variance) in given(*grid[k])[1].items():
            w = weights[k] / weights[kept].sum()
            first[name] = first.get(name, 0.0) + w * mean
            second[name] = second.get(name, 0.0) + w * (mean**2 + variance)
    return {name: (mean, np.sqrt(second[name] - mean**2)) for name, mean in first.items()}
