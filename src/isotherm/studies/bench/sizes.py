"""Sizes of the problems and measurements: the full benchmark, the quick one, and a tiny one for tests."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of the problems and of the measurement.

    - `layers`, `network_rows`, `network_batch`: the network of the parts `network` and `memory`.
    - `exact_batch`: the batch size for methods with one gradient per row; 0 leaves them out.
    - `dimension`, `logistic_rows`, `logistic_batch`: the logistic regression of the part `logistic`.
    - `peer_rows`, `peer_chains`: the regression of the part `peers`, with the same dimension and batch size.
    - `memory_batches`: the batch sizes of the part `memory`.
    - `many_chains`, `many_rows`, `wide_layers`: the problems of the part `chains`.
    - `rounds`, `seconds`: the number of rounds, and the least time of a program in each.
    - `chains`: the number of independent chains in a run that measures quality.
    - `slow`: whether to run the methods that the quick benchmark leaves out.
    """

    layers: tuple[int, ...] = (784, 400, 400, 10)
    network_rows: int = 10_000
    network_batch: int = 256
    exact_batch: int = 32
    dimension: int = 100
    logistic_rows: int = 12_214
    logistic_batch: int = 500
    peer_rows: int = 100_000
    peer_chains: tuple[int, ...] = (1, 4, 64)
    memory_batches: tuple[int, int] = (64, 1024)
    many_chains: int = 1024
    many_rows: int = 1_000_000
    wide_layers: tuple[int, ...] = (1024, 2700, 2700, 10)
    rounds: int = 7
    seconds: float = 0.2
    chains: int = 1024
    slow: bool = True


FULL = Sizes()
QUICK = Sizes(exact_batch=0, peer_chains=(1,), rounds=3, chains=256, slow=False)
TINY = Sizes(
    layers=(6, 5, 3),
    network_rows=64,
    network_batch=8,
    exact_batch=4,
    dimension=4,
    logistic_rows=64,
    logistic_batch=8,
    peer_rows=64,
    peer_chains=(1, 2),
    memory_batches=(4, 8),
    many_chains=3,
    many_rows=64,
    wide_layers=(6, 5, 3),
    rounds=2,
    seconds=1e-4,
    chains=4,
)
