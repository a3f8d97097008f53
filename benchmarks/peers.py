"""Why SGHMC and SGNHT of BlackJAX and posteriors differ from the exact answer: the findings of docs/peers.md.

    python benchmarks/peers.py [NAME ...] [--list] [--json FILE]
    python benchmarks/peers.py --table PEERS.json    (the output of `isotherm validate --peers` as Markdown)

The target is a Gaussian with precisions lambda and gradient noise of known variance c. On it every scheme is a
linear recursion, whose stationary variance is the expected value. Variances are ratios to the exact ones.
"""

import argparse
import importlib.util
import json
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize, stats

import isotherm as iso
from isotherm.studies.validation.peers import calls as peers
from isotherm.studies.validation.peers import torch_calls as peers_torch
from isotherm.studies.validation.record import Length

COPIES = 8  # of each direction, which reduce the error of its variance
FIELDS = ("finding", "what", "value", "error", "expected")
FINDINGS = {}


def finding(name, *libraries):
    """Register a generator of (what, value[, standard error, expected]), to be run for each library."""
    return lambda part: FINDINGS.setdefault(name, (libraries, part))


def recursion(lam, c=0.0, *, h, A, beta=0.0, L=None, fresh=False, redrawn=1.0, new=False):
    """Return the stationary variance ratio and E p^2 of theta' = theta + h p, p' = (1 - h A) p - h force + noise.

    The force is taken at theta or, if `new`, at theta'. With L the momentum is redrawn every L steps, with variance
    `redrawn`, and all L steps share one draw of the gradient noise unless `fresh`.
    """
    F = np.array([[1.0, h], [-h * lam, 1 - h * A - (h * h * lam if new else 0.0)]])
    white = h * (2 * A - h * beta) + (h * h * c if L is None or fresh else 0.0)
    if L is None:
        return np.linalg.solve(np.eye(4) - np.kron(F, F), [0, 0, 0, white])[[0, 3]] * [lam, 1]
    powers = np.array([np.linalg.matrix_power(F, k)[0] for k in range(L + 1)])
    kicks = powers[:L, 1]
    noise = redrawn * powers[L, 1] ** 2 + white * np.sum(kicks**2)
    noise += 0.0 if fresh else h * h * c * np.sum(kicks) ** 2
    return lam * noise / (1 - powers[L, 0] ** 2), redrawn


def thermostatted(lams, c=0.0, *, h, A, new=False):
    """Return the variance ratios at the xi for which the mean of p^2 is 1: SGNHT without fluctuations of xi."""

    def each(xi):  # damped by xi, with the noise of A
        return np.array([recursion(x, c, h=h, A=xi, beta=2 * (xi - A) / h, new=new) for x in lams])

    xi = optimize.brentq(lambda xi: each(xi)[:, 1].mean() - 1, h * max(lams) + 0.01, 0.5 / h)
    return each(xi)[:, 0]


def problem(lams, c=None, *, rows=100, batch=10):
    """Return rows whose minibatch gradients have noise variances c; gradients are exact if c is None."""
    rng, lam = np.random.default_rng(0), np.repeat(np.asarray(lams, np.float32), COPIES)
    x = rng.standard_normal((rows, len(lam)))
    variance = np.repeat(c or np.zeros(len(lams)), COPIES)
    x = np.linalg.qr(x - x.mean(axis=0))[0] * np.sqrt(batch / rows * variance)
    posterior = iso.Posterior(lambda p, row: row @ p, lambda p: -0.5 * jnp.sum(jnp.asarray(lam) * p**2))
    starts = (rng.standard_normal((256, len(lam))) / np.sqrt(lam)).astype(np.float32)
    return peers.Problem(posterior, x.astype(np.float32), starts, rows, batch if c else rows, len(lam))


def length(tau, *, burn_in=6, draws=20):
    """Return a length of 256 chains; draws are tau steps apart, after a burn-in of `burn_in` times tau."""
    return Length(chains=256, burn_in=burn_in * tau, draws=draws, thinning=tau)


def ratios(x, lams):
    """Return, for each direction, the ratio of the variance to the exact one and its standard error."""
    squares = np.asarray(x, float).reshape(*x.shape[:2], -1, COPIES) ** 2
    by_chain = squares.mean(axis=(1, 3)) * lams
    return list(zip(by_chain.mean(axis=0), stats.sem(by_chain), strict=True))


def isotherm_draws(p, sampler, tau):
    """Return the draws of isotherm on the same problem."""
    gradient = iso.FullData(p.posterior) if p.batch_size == p.num_data else None
    n = length(tau)
    run = {"num_chains": n.chains, "num_draws": n.draws, "thinning": n.thinning, "burn_in": n.burn_in}
    run |= {"batch_size": p.batch_size, "gradient": gradient, "progress": False}
    return iso.sample(p.posterior, p.data, p.starts, sampler=sampler, init_per_chain=True, **run).posterior


def blackjax_sghmc(p, h, A, *, beta=0.0, L=10, T=1.0, tau=50, seed=0):
    """Return positions of `blackjax.sghmc`, for settings that the adapter fixes; tau counts calls of L steps."""
    blackjax = peers.import_blackjax()
    sampler = blackjax.sghmc(peers.blackjax_gradient(blackjax, p), L, alpha=A, beta=beta)
    step = lambda key, state, batch: sampler.step(key, state, batch, h, T)
    return peers.scan(p, lambda x, key: sampler.init(x), step, length=length(tau), seed=seed)


def posteriors_sghmc(p, h, A, *, beta=0.0, tau=50):
    """Return positions of `posteriors.sgmcmc.sghmc` for any beta."""
    settings = {"step_size": h, "friction": A, "beta": beta, "momenta": 0.0}
    return peers_torch.loop(p, "sghmc", **settings, length=length(tau), seed=0)[0]


def sgnht(library, p, h, A, tau):
    """Return positions of SGNHT in any of the three libraries."""
    if library == "isotherm":
        return isotherm_draws(p, iso.SGNHT(h, A), tau)
    adapter = {"blackjax": peers.blackjax_sgnht, "posteriors": peers_torch.posteriors_sgnht}[library]
    return adapter(p, step_size=h, friction=A, length=length(tau), seed=0).position


def outcome(action):
    """Return the result of an action as text, or the first line of the error that it raises."""
    try:
        return str(action())
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


@finding("right", "blackjax", "posteriors", "isotherm")
def _right(library, c=20.0, h=0.02, A=2.0):
    p = problem([1.0], [c])
    measured = ratios(sgnht(library, p, h, A, 60), [1.0])[0]
    expected = thermostatted([1.0], c, h=h, A=A, new=library == "isotherm")[0]
    yield f"{library} SGNHT, equal noise in all directions", *measured, expected
    if library == "blackjax":
        rows, gradient = p.data[:10], peers.blackjax_gradient(peers.import_blackjax(), p)
        gap = np.max(np.abs(gradient(jnp.ones(COPIES), rows) - (p.num_data / 10 * rows.sum(axis=0) - 1)))
        yield "blackjax grad_estimator, difference from prior + (N/n) sum", f"{gap:.0e}"


@finding("lost-gradient", "blackjax")
def _lost_gradient(library):
    for L in (2, 5, 10, 20):
        h = 0.2 / L
        measured = ratios(blackjax_sghmc(problem([1.0]), h, 1.0, L=L, seed=L), [1.0])[0]
        expected = recursion(1.0, h=h, A=1.0, L=L)[0]
        yield f"SGHMC, L = {L}, h = {h:g} ({L / (L - 1):.3f} at h = 0)", *measured, expected
    moves = [np.diff(blackjax_sghmc(problem([lam]), 0.1, 1.0, L=1), axis=1) for lam in (1.0, 4.0)]
    yield "SGHMC, L = 1, change of the path under four times the force", f"{np.ptp(moves, axis=0).max():.0e}"


@finding("one-batch", "blackjax")
def _one_batch(library, lam=4.0, c=30.0, h=0.05, A=1.0):
    for beta in (0.0, c):
        measured = ratios(blackjax_sghmc(problem([lam], [c]), h, A, beta=beta), [lam])[0]
        shared, fresh = (recursion(lam, c, h=h, A=A, beta=beta, L=10, fresh=f)[0] for f in (False, True))
        yield f"SGHMC, beta = {beta:g} (one batch per gradient: {fresh:.3f})", *measured, shared


@finding("old-position", "blackjax", "posteriors", "isotherm")
def _old_position(library, lams=(1.0, 50.0), h=0.01, A=1.0):
    p, ours = problem(lams, rows=20), library == "isotherm"
    each = ratios(sgnht(library, p, h, A, 200), lams)
    for lam, measured, expected in zip(lams, each, thermostatted(lams, h=h, A=A, new=ours), strict=True):
        yield f"{library} SGNHT, lambda = {lam:g}", *measured, expected
    if library != "blackjax":  # its SGHMC redraws the momentum
        x = isotherm_draws(p, iso.SGHMC(h, A), 200) if ours else posteriors_sghmc(p, h, A, tau=200)
        yield f"{library} SGHMC, lambda = 50", *ratios(x, lams)[1], recursion(50.0, h=h, A=A, new=ours)[0]


@finding("scalar-beta", "posteriors", "isotherm")
def _scalar_beta(library, noise=(30.0, 2.0), h=0.05, A=1.0):
    p, ours = problem([1.0, 1.0], noise), library == "isotherm"
    x = (
        isotherm_draws(p, iso.SGHMC(h, A, covariance=iso.Dense()), 50)
        if ours
        else posteriors_sghmc(p, h, A, beta=16.0)
    )
    for measured, c in zip(ratios(x, [1.0, 1.0]), noise, strict=True):
        expected = recursion(1.0, c, h=h, A=A, beta=c if ours else 16.0, new=ours)[0]
        yield f"{library} SGHMC, {'dense' if ours else 'beta = 16'}, noise {c:g}", *measured, expected


@finding("beta-units", "posteriors")
def _beta_units(library, c=30.0, h=0.05, A=1.0):
    p = problem([1.0], [c])
    for what, beta in (("0", 0.0), ("variance for log p", c), ("variance for log p / N", c / p.num_data**2)):
        measured = ratios(posteriors_sghmc(p, h, A, beta=beta), [1.0])[0]
        yield f"SGHMC, N = 100, beta = {what}", *measured, recursion(1.0, c, h=h, A=A, beta=beta)[0]


@finding("large-beta", "blackjax", "posteriors")
def _large_beta(library, h=0.05, A=1.0, beta=50.0):
    if library == "blackjax":
        x = blackjax_sghmc(problem([1.0]), h, A, beta=beta, tau=1)
        yield "blackjax SGHMC, h beta = 2.5 A, share of NaN", float(np.mean(np.isnan(x)))
        return
    torch, posteriors = peers_torch.import_torch()
    log_posterior = lambda x, rows: (-0.5 * (x**2).sum(), torch.zeros(()))
    transform = posteriors.sgmcmc.sghmc.build(log_posterior, lr=h, alpha=A, beta=beta)
    once = transform.update(transform.init(torch.zeros(3)), None)[0]
    twice = transform.update(once, None)[0]
    yield "posteriors SGHMC, params after updates 1 and 2", f"{once.params.dtype}, {twice.params.dtype}"
    yield "posteriors SGHMC, update 3", outcome(lambda: transform.update(twice, None))


@finding("temperature", "blackjax")
def _temperature(library, T=0.25, h=0.02, A=1.0):
    measured = ratios(blackjax_sghmc(problem([1.0]), h, A, T=T), [1 / T])[0]
    expected, right = (recursion(1.0, h=h, A=A, L=10, redrawn=r)[0] for r in (1 / T, 1.0))
    yield f"SGHMC, T = 0.25, variance over T/lambda (redrawn at T: {right:.3f})", *measured, expected


@finding("first-momentum", "posteriors")
def _first_momentum(library, h=0.003, A=10.0, N=1000):
    p, run = problem([1.0], [1e-6], rows=N), length(50, burn_in=0, draws=60)
    for what, momenta, k in (("by default", None, N), ("0", 0.0, 0)):
        path = peers_torch.posteriors_sgnht(
            p, step_size=h, friction=A, momenta=momenta, length=run, seed=0
        ).xi
        xi = A
        for step in range(1, 3001):  # k is the mean of p^2
            k, xi = (1 - h * xi) ** 2 * k + 2 * h * A, xi + h * (k - 1)
            if step in (50, 3000):
                now = path[:, step // 50 - 1]
                yield f"SGNHT, momentum {what}, xi after {step}", now.mean(), stats.sem(now), xi


@finding("init-xi", "blackjax", "posteriors")
def _init_xi(library):
    if library == "blackjax":
        state = (
            peers.import_blackjax().sgnht(None, alpha=0.5).init(jnp.zeros(3), jax.random.key(0), init_xi=0.0)
        )
    else:
        torch, posteriors = peers_torch.import_torch()
        state = posteriors.sgmcmc.sgnht.build(None, lr=0.1, alpha=0.5, xi=0.0).init(torch.zeros(3))
    yield f"{library} SGNHT, alpha = 0.5, xi of the state when 0.0 is asked for", float(state.xi)


@finding("key-reuse", "blackjax")
def _key_reuse(library):
    step = peers.import_blackjax().sghmc(lambda x, rows: -x).step
    with jax.debug_key_reuse(True):
        yield "SGHMC, one step", outcome(lambda: step(jax.random.key(0), jnp.zeros(3), None, 0.1))


@finding("docstrings", "blackjax")
def _docstrings(library):
    blackjax, x, key, force = peers.import_blackjax(), jnp.zeros(3), jax.random.key(0), lambda x, rows: -x
    yield "sgnht.init(key, position)", outcome(lambda: blackjax.sgnht(force).init(key, x))
    names = {"step": blackjax.sghmc(force).step, "key": key, "x": x}
    yield "position, info = step(...)", outcome(lambda: exec("a, b = step(key, x, None, 0.1)", names))


def table(path):
    """Return worst variances and worst kinetic temperatures along the noise in Markdown; bold if off."""
    rows = {(r["method"], r["setting"]): r for r in json.loads(Path(path).read_text())["rows"]}
    methods, settings = (list(dict.fromkeys(key[i] for key in rows)) for i in (0, 1))

    def cell(row):
        quantities = [row["quantities"].get(name) for name in ("variance", "kinetic along noise")]
        worst = [(q, int(np.argmax(np.abs(np.subtract(q["value"], 1))))) for q in quantities if q]
        text = ", ".join(f"{q['value'][i]:.3f}({max(1, round(1000 * q['error'][i]))})" for q, i in worst)
        return f"**{text}**" if row["verdict"] == "off" else text or row["verdict"]

    lines = [["", *settings], ["---"] * (1 + len(settings))]
    lines += [[m, *(cell(rows[m, s]) if (m, s) in rows else "" for s in settings)] for m in methods]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main():
    """Print the selected findings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="findings to run; all by default")
    parser.add_argument("--list", action="store_true", help="list the findings and exit")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the numbers to FILE")
    parser.add_argument("--table", metavar="PEERS.json", help="print a comparison as Markdown and exit")
    options = parser.parse_args()
    if unknown := set(options.names) - set(FINDINGS):
        parser.error(f"NAME must be a finding; got {', '.join(sorted(unknown))}. --list shows all findings.")
    if options.list or options.table:
        print("\n".join(FINDINGS) if options.list else table(options.table))
        return
    warnings.simplefilter("ignore", iso.IsothermWarning)
    results = []
    for name in options.names or FINDINGS:
        libraries, part = FINDINGS[name]
        for library in libraries:
            absent = importlib.util.find_spec(library) is None
            for figure in [(library, "absent")] if absent else part(library):
                what, value, error, expected = (*figure, None, None)[:4]
                shown = value if error is None else f"{value:.3f} ± {error:.3f}, expected {expected:.3f}"
                print(f"{name:15} {what}: {shown}", flush=True)
                results.append(dict(zip(FIELDS, (name, what, value, error, expected), strict=True)))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
