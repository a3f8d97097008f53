"""`iso.networks.fit` on MNIST beside Adam and a deep ensemble that costs as much.

    python benchmarks/mnist_fit.py

10,000 of the 60,000 rows to fit, all 10,000 to test. A perceptron and a convolutional network, each as a Flax NNX
module and as an Equinox module. The weight decay and the epochs of Adam are chosen on a tenth of the rows, and the
power of its probabilities as well; it then trains on the others from as many seeds as take the time that `fit` took.

A convolution is written as patches times a matrix: in a compiled loop on a CPU this is faster than
`lax.conv_general_dilated`: see https://github.com/jax-ml/jax/issues/12868.
"""

import argparse
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

BATCH, RATE, HELD_OUT = 200, 3e-3, 0.1
DECAYS, EPOCHS = (0.1, 0.3, 1.0), (20, 40)
MOST_NETWORKS = 100
SIZES = ((16, 8), (128, 16), (400, 10))


def flax_mlp(seed: int):
    """Return a perceptron with 32 hidden units."""
    from flax import nnx

    rngs = nnx.Rngs(seed)
    return nnx.Sequential(nnx.Linear(784, 32, rngs=rngs), nnx.relu, nnx.Linear(32, 10, rngs=rngs))


def equinox_mlp(seed: int):
    """Return a perceptron with 32 hidden units."""
    return eqx.nn.MLP(784, 10, 32, 1, key=jax.random.key(seed))


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


def flax_cnn(seed: int):
    """Return two convolutions and a linear layer: 6,210 parameters."""
    from flax import nnx

    class Network(nnx.Module):
        """The network for a batch of images."""

        def __init__(self, rngs: nnx.Rngs) -> None:
            self.layers = nnx.List([nnx.Linear(*size, rngs=rngs) for size in SIZES])

        def __call__(self, x: jax.Array) -> jax.Array:
            """Return the logits."""
            return convolutions(*self.layers, x)

    return Network(nnx.Rngs(seed))


class EquinoxNetwork(eqx.Module):
    """The network of `flax_cnn` for one image."""

    layers: list

    def __init__(self, seed: int) -> None:
        keys = jax.random.split(jax.random.key(seed), 3)
        self.layers = [eqx.nn.Linear(*size, key=key) for size, key in zip(SIZES, keys, strict=True)]

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the logits."""
        first, second = (jax.vmap(jax.vmap(layer)) for layer in self.layers[:2])
        return convolutions(first, second, self.layers[2], x)


NETWORKS = {
    "Flax MLP": flax_mlp,
    "Equinox MLP": equinox_mlp,
    "Flax CNN": flax_cnn,
    "Equinox CNN": EquinoxNetwork,
}


def posterior(module):
    """Return the module as a network."""
    library = iso.interop.equinox if isinstance(module, eqx.Module) else iso.interop.flax
    return library.posterior(module, "categorical")


def trainer(net, rows: dict):
    """Return a function that trains by Adam with decoupled weight decay and a cosine learning rate."""
    adam = optax.scale_by_adam()

    @jax.jit
    def epoch(carry, order: jax.Array, decay: float, total: float):
        def step(carry, index):
            p, state, t = carry
            batch = jax.tree.map(lambda x: x[index], rows)
            gradient = jax.grad(lambda p: -jnp.mean(net.posterior.row_log_likelihoods(p, batch)))(p)
            updates, state = adam.update(gradient, state)
            rate = 0.5 * RATE * (1 + jnp.cos(jnp.pi * t / total))
            p = {k: v - rate * (updates[k] + (decay * v if v.ndim > 1 else 0.0)) for k, v in p.items()}
            return (p, state, t + 1), None

        return jax.lax.scan(step, carry, order)[0]

    def train(init: dict, *, decay: float, epochs: int, seed: int) -> dict:
        steps = len(rows["y"]) // BATCH
        carry = (init, adam.init(init), jnp.zeros(()))
        for key in jax.random.split(jax.random.key(seed), epochs):
            order = jax.random.permutation(key, len(rows["y"]))[: steps * BATCH].reshape(steps, BATCH)
            carry = epoch(carry, order, decay, float(epochs * steps))
        return jax.block_until_ready(carry[0])

    return train


def probabilities(net, params: list[dict], x) -> np.ndarray:
    """Return the mean probabilities of several networks."""
    mean = jax.jit(net.mean)
    return np.mean([np.asarray(mean(p, x), np.float64) for p in params], axis=0)


def scores(p: np.ndarray, y: np.ndarray) -> dict:
    """Return accuracy, loss and calibration error."""
    s = iso.scores.classification(p, y, bins=15)
    return {"accuracy": s.accuracy, "loss": s.negative_log_likelihood, "calibration": s.calibration_error}


def compare(name: str, data: dict, test: dict, options: argparse.Namespace) -> list[dict]:
    """Return a row for each method."""
    from isotherm.networks.judged import recalibrated, sharpest

    make, y = NETWORKS[name], np.asarray(test["y"])
    began = time.perf_counter()
    fit = iso.networks.fit(make(0), data["x"], data["y"], "categorical", progress=False)
    seconds = time.perf_counter() - began
    print(fit)
    p = probabilities(fit.network, list(fit.starts), test["x"])
    alone = [scores(probabilities(fit.network, [start], test["x"]), y) for start in fit.starts]
    rows = [
        ("starts of the chains", {k: np.mean([s[k] for s in alone]) for k in alone[0]}),
        ("their average", scores(p, y)),
        (
            "iso.networks.fit",
            scores(fit.predict(test["x"]), y) | {"seconds": seconds, "fault": bool(fit.problems)},
        ),
    ]
    held = int(HELD_OUT * len(data["y"]))
    fitted, judged = ({k: v[part] for k, v in data.items()} for part in (slice(held, None), slice(held)))
    net = posterior(make(0))
    train, loss = trainer(net, fitted), {}
    for decay, epochs in itertools.product(DECAYS, EPOCHS):
        ends = [train(net.init, decay=decay, epochs=epochs, seed=0)]
        loss[decay, epochs] = scores(probabilities(net, ends, judged["x"]), np.asarray(judged["y"]))["loss"]
    decay, epochs = min(loss, key=loss.get)
    began, ends = time.perf_counter(), []
    while time.perf_counter() - began < seconds and len(ends) < MOST_NETWORKS:
        ends.append(
            train(posterior(make(len(ends) + 1)).init, decay=decay, epochs=epochs, seed=len(ends) + 1)
        )
    took = time.perf_counter() - began
    alone = [scores(probabilities(net, [end], test["x"]), y) for end in ends]
    power = sharpest(probabilities(net, ends, judged["x"]), np.asarray(judged["y"]))
    p = probabilities(net, ends, test["x"])
    chosen = {"networks": len(ends), "decay": decay, "epochs": epochs, "seconds": took}
    rows += [
        ("Adam, mean of its networks", {k: np.mean([s[k] for s in alone]) for k in alone[0]} | chosen),
        ("deep ensemble", scores(p, y)),
        ("deep ensemble, with a power", scores(recalibrated(p, power), y) | {"power": power}),
    ]
    return [{"network": name, "method": method, **row} for method, row in rows]


def main() -> None:
    """Print and write a row per method."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("out/mnist_fit"))
    options = parser.parse_args()
    d = iso.data.load("mnist")
    rows = np.random.default_rng(0).permutation(len(d.y_train))[: options.rows]
    data = {"x": jnp.asarray(d.x_train[rows]), "y": jnp.asarray(d.y_train[rows])}
    results = []
    for name in options.networks:
        for row in compare(name, data, {"x": jnp.asarray(d.x_test), "y": d.y_test}, options):
            plain = {k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}
            results.append(plain)
            print(json.dumps(plain), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "mnist_fit.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
