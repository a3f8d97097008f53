"""A small convolutional network on MNIST: its posterior by CCAdL, and the same network trained by Adam.

    python benchmarks/mnist_network.py

Ten classes, 10,000 of the 60,000 rows for training, all 10,000 for testing; 6,210 parameters; once as a Flax NNX
module and once as an Equinox module. The weight decay and the epochs of Adam are chosen on held-out rows; it is then
trained on all rows from four seeds. Each of four chains starts at the result of one of these. Needs the extra `flax`.

A convolution is written as patches times a matrix: in a compiled loop on a CPU this is several times as fast as
`lax.conv_general_dilated`. For the same reason chains run in sequence.
"""

import argparse
import functools
import itertools
import json
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import isotherm as iso

CHAINS, BATCH, BINS = 4, 200, 15
DECAYS, EPOCHS, RATE = (0.1, 0.3, 1.0), (20, 40), 3e-3
SETTINGS = {1.0: (7e-4, 5.0), 0.1: (3e-4, 10.0)}  # temperature: (step size, friction), for 10,000 rows


def patches(images: jax.Array, size: int, stride: int) -> jax.Array:
    """Return the input of a convolution at each position: the pixels of a square, along the last axis."""
    count = (images.shape[-2] - size) // stride + 1
    at = lambda i: slice(i, i + stride * (count - 1) + 1, stride)
    return jnp.concatenate([images[..., at(i), at(j), :] for i in range(size) for j in range(size)], axis=-1)


def convolutions(first, second, last, x: jax.Array) -> jax.Array:
    """Return the logits of two 4 x 4 convolutions with stride 2 and 8 and 16 channels, then a linear layer."""
    h = jax.nn.relu(first(patches(x.reshape(*x.shape[:-1], 28, 28, 1), 4, 2)))
    h = jax.nn.relu(second(patches(h, 4, 2)))
    return last(h.reshape(*x.shape[:-1], -1))


class Equinox(eqx.Module):
    """The network for one image."""

    layers: list

    def __init__(self, seed: int) -> None:
        sizes, keys = ((16, 8), (128, 16), (400, 10)), jax.random.split(jax.random.key(seed), 3)
        self.layers = [eqx.nn.Linear(*size, key=key) for size, key in zip(sizes, keys, strict=True)]

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the logits."""
        first, second = (jax.vmap(jax.vmap(layer)) for layer in self.layers[:2])
        return convolutions(first, second, self.layers[2], x)


def equinox_network(seed: int, prior: float):
    """Return the network as a posterior."""
    return iso.interop.equinox.posterior(Equinox(seed), "categorical", prior=prior)


def flax_network(seed: int, prior: float):
    """Return the network as a posterior."""
    from flax import nnx

    class Flax(nnx.Module):
        """The network for a batch of images."""

        def __init__(self, rngs: nnx.Rngs) -> None:
            sizes = ((16, 8), (128, 16), (400, 10))
            self.layers = nnx.List([nnx.Linear(*size, rngs=rngs) for size in sizes])

        def __call__(self, x: jax.Array) -> jax.Array:
            """Return the logits."""
            return convolutions(*self.layers, x)

    return iso.interop.flax.posterior(Flax(nnx.Rngs(seed)), "categorical", prior=prior)


NETWORKS = {"flax": flax_network, "equinox": equinox_network}


def trainer(net):
    """Return a function that trains by Adam with decoupled weight decay and a cosine learning rate."""
    adam = optax.scale_by_adam()

    @jax.jit
    def epoch(carry, rows: dict, decay: float, total: float, key: jax.Array):
        def step(carry, index):
            p, state, t = carry
            batch = jax.tree.map(lambda x: x[index], rows)
            gradient = jax.grad(lambda p: -jnp.mean(net.posterior.row_log_likelihoods(p, batch)))(p)
            updates, state = adam.update(gradient, state)
            rate = 0.5 * RATE * (1 + jnp.cos(jnp.pi * t / total))
            p = {k: v - rate * (updates[k] + (decay * v if v.ndim > 1 else 0.0)) for k, v in p.items()}
            return (p, state, t + 1), None

        steps = len(rows["y"]) // BATCH
        order = jax.random.permutation(key, len(rows["y"]))[: steps * BATCH].reshape(steps, BATCH)
        return jax.lax.scan(step, carry, order)[0]

    def train(init: dict, rows: dict, *, decay: float, epochs: int, seed: int) -> dict:
        carry, total = (init, adam.init(init), jnp.zeros(())), float(epochs * (len(rows["y"]) // BATCH))
        for key in jax.random.split(jax.random.key(seed), epochs):
            carry = epoch(carry, rows, decay, total, key)
        return carry[0]

    return train


def train_adam(make, data: dict) -> tuple[list[dict], dict]:
    """Return the parameters from four seeds, and the decay and epochs chosen by the loss on a tenth of the rows."""
    net, held_out = make(0), len(data["y"]) // 10
    parts = (slice(held_out, None), slice(held_out))
    fit, judged = ({k: x[rows] for k, x in data.items()} for rows in parts)
    train, held_out_loss = trainer(net), {}
    loss = jax.jit(lambda p: -jnp.mean(net.posterior.row_log_likelihoods(p, judged)))
    for decay, epochs in itertools.product(DECAYS, EPOCHS):
        held_out_loss[decay, epochs] = float(loss(train(net.init, fit, decay=decay, epochs=epochs, seed=0)))
    decay, epochs = min(held_out_loss, key=held_out_loss.get)
    seeds = range(1, CHAINS + 1)
    ends = [train(make(seed).init, data, decay=decay, epochs=epochs, seed=seed) for seed in seeds]
    return ends, {"weight_decay": decay, "epochs": epochs}


def scores(probabilities: np.ndarray, y: np.ndarray) -> dict:
    """Return the accuracy, the negative log-likelihood and the expected calibration error."""
    chosen, sure = probabilities.argmax(axis=1), probabilities.max(axis=1)
    right = chosen == y
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = [abs(np.sum(right[bins == b]) - np.sum(sure[bins == b])) for b in range(BINS)]
    return {"accuracy": right.mean(), "nll": losses(probabilities, y).mean(), "ece": sum(gaps) / len(y)}


def losses(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return minus the log-probability of each row's class."""
    return -np.log(probabilities[np.arange(len(y)), y])


def points(net, ends: list[dict], test: dict) -> np.ndarray:
    """Return the class probabilities of each of Adam's networks."""
    return np.stack([np.asarray(jax.jit(net.mean)(p, test["x"]), np.float64) for p in ends])


def chains(
    net, data: dict, ends: list[dict], temperature: float, options: argparse.Namespace
) -> list[iso.Draws]:
    """Return one chain from each of Adam's networks."""
    posterior = eqx.tree_at(lambda p: p.temperature, net.posterior, jnp.asarray(temperature))
    step_size, friction = SETTINGS.get(temperature, SETTINGS[1.0])
    step_size, friction = options.step_size or step_size, options.friction or friction
    sampler = iso.CCAdL(step_size, friction, iso.Diagonal(), scheme="symmetric")
    settings = {"burn_in": options.burn_in, "num_draws": options.draws, "thinning": options.thinning}
    run = functools.partial(iso.sample, posterior, data, sampler=sampler, batch_size=BATCH, num_chains=1)
    return [run(start, seed=seed, progress=False, **settings) for seed, start in enumerate(ends)]


def compare(name: str, data: dict, test: dict, options: argparse.Namespace) -> list[dict]:
    """Return a row for Adam's networks, one for their average, and the same for the chains."""
    began, make, y = time.perf_counter(), functools.partial(NETWORKS[name], prior=options.prior), test["y"]
    ends, chosen = train_adam(make, data)
    net, trained = make(0), time.perf_counter()
    single = points(net, ends, test)
    alone = np.mean([losses(p, y) for p in single], axis=0)
    rows = [
        ("Adam", mean_scores(single, y) | chosen | {"seconds": trained - began}),
        ("average of four by Adam", scores(single.mean(axis=0), y)),
    ]
    for temperature in options.temperature:
        began = time.perf_counter()
        drawn = chains(net, data, ends, temperature, options)
        seconds = time.perf_counter() - began
        each = np.stack([predictive(net, draws, test["x"]) for draws in drawn])
        gain = alone - losses(each.mean(axis=0), y)
        extra = {
            "nll_less_than_adam": gain.mean(),
            "error": gain.std() / len(gain) ** 0.5,
            "s": max(draws.record.s for draws in drawn),
            "kinetic_temperature": np.mean([draws.stats["kinetic_temperature"] for draws in drawn]),
            "configurational_temperature": np.mean([d.stats["configurational_temperature"] for d in drawn]),
            "seconds": seconds,
        }
        rows += [
            (f"CCAdL at T = {temperature:g}, one chain", mean_scores(each, y)),
            (f"CCAdL at T = {temperature:g}, four chains", scores(each.mean(axis=0), y) | extra),
        ]
    return [{"network": name, "method": method, **row} for method, row in rows]


def mean_scores(several: np.ndarray, y: np.ndarray) -> dict:
    """Return the mean scores of several predictions."""
    rows = [scores(p, y) for p in several]
    return {key: np.mean([row[key] for row in rows]) for key in rows[0]}


def predictive(net, draws: iso.Draws, x: np.ndarray) -> np.ndarray:
    """Return the mean class probabilities over the draws of one chain."""
    total, probabilities = 0.0, jax.jit(net.mean)
    for draw in range(draws.num_draws):
        total += np.asarray(probabilities({k: v[0, draw] for k, v in draws.posterior.items()}, x), np.float64)
    return total / draws.num_draws


def main() -> None:
    """Print and write a row per method."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--prior", type=float, default=4.0, help="scale of the weights, times 1/sqrt(fan-in)")
    parser.add_argument("--temperature", type=float, nargs="+", default=[1.0])
    parser.add_argument("--step-size", type=float, help="default: chosen by temperature, for 10,000 rows")
    parser.add_argument("--friction", type=float, help="default: chosen by temperature, for 10,000 rows")
    parser.add_argument("--burn-in", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--thinning", type=int, default=150)
    parser.add_argument("--out", type=Path, default=Path("out/mnist_network"))
    options = parser.parse_args()
    d = iso.data.load("mnist")
    rows = np.random.default_rng(0).permutation(len(d.y_train))[: options.rows]
    data = {"x": jnp.asarray(d.x_train[rows]), "y": jnp.asarray(d.y_train[rows])}
    results = []
    for name in options.networks:
        for row in compare(name, data, d.test, options):
            plain = {k: v if isinstance(v, str | int) else round(float(v), 5) for k, v in row.items()}
            results.append(plain)
            print(json.dumps(plain), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "mnist_network.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
