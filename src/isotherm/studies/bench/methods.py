"""The samplers that are compared, and their names in the tables."""

import dataclasses
from collections.abc import Callable

from jaxtyping import PyTree

from isotherm.covariance import Covariance, Dense, Diagonal, DiagonalLowRank, MatrixFree
from isotherm.covariance.low_rank import EVERY
from isotherm.data.plans import MinibatchPlan, WithReplacement
from isotherm.data.random_blocks import RandomBlocks
from isotherm.samplers import SGHMC, SGNHT, CCAdL, ModifiedSGLD, Sampler
from isotherm.samplers.momentum import Scheme

RANK = 16
_PLAN = WithReplacement()
_MERGE = EVERY * RANK  # batches until `DiagonalLowRank` of a large model has merged a full buffer


@dataclasses.dataclass(frozen=True)
class Settings:
    """Hyper-parameters for one problem; `rank` is the rank of the low-rank covariance."""

    step_size: float
    langevin_step: float
    friction: float
    mass: PyTree = 1.0
    rank: int = RANK


@dataclasses.dataclass(frozen=True)
class Method:
    """A sampler, its covariance estimate and its scheme. The quick benchmark leaves out `slow` methods."""

    sampler: str
    covariance: str = ""
    scheme: Scheme = "euler"
    slow: bool = False
    plan: MinibatchPlan = _PLAN

    @property
    def name(self) -> str:
        """The name in the tables."""
        name = " ".join(x for x in (self.sampler, self.covariance) if x)
        name = name if self.sampler == "ModifiedSGLD" else f"{name}, {self.scheme}"
        return f"{name}, random blocks" if isinstance(self.plan, RandomBlocks) else name

    @property
    def cycle(self) -> int:
        """The number of steps after which the work repeats."""
        return _MERGE if self.covariance == "DiagonalLowRank" else 1

    def build(self, k: Settings) -> Sampler:
        """Return the sampler with its hyper-parameters."""
        covariance = COVARIANCES[self.covariance](k.rank)
        match self.sampler:
            case "SGNHT":
                return SGNHT(k.step_size, k.friction, scheme=self.scheme, mass=k.mass)
            case "SGHMC":
                return SGHMC(k.step_size, k.friction, covariance=covariance, scheme=self.scheme, mass=k.mass)
            case "ModifiedSGLD":
                return ModifiedSGLD(k.langevin_step, covariance=covariance)
            case _:
                return CCAdL(k.step_size, k.friction, covariance=covariance, scheme=self.scheme, mass=k.mass)


COVARIANCES: dict[str, Callable[[int], Covariance | None]] = {
    "": lambda rank: None,
    "Diagonal": lambda rank: Diagonal(),
    "Diagonal exact": lambda rank: Diagonal("exact"),
    "DiagonalLowRank": DiagonalLowRank,
    "Dense": lambda rank: Dense(),
    "Dense exact": lambda rank: Dense("exact"),
    "MatrixFree": lambda rank: MatrixFree(),
}

BASE = Method("SGNHT")
NETWORK = (
    BASE,
    Method("SGNHT", scheme="symmetric", slow=True),
    Method("SGHMC", slow=True),
    Method("SGHMC", "Diagonal", slow=True),
    Method("CCAdL", "Diagonal"),
    Method("CCAdL", "Diagonal", "symmetric", slow=True),
    Method("CCAdL", "DiagonalLowRank"),
    Method("CCAdL", "DiagonalLowRank", "symmetric", slow=True),
    Method("CCAdL", "MatrixFree"),
    Method("CCAdL", "MatrixFree", "symmetric", slow=True),
)
EXACT = (BASE, Method("CCAdL", "Diagonal"), Method("CCAdL", "Diagonal exact"))
_QUICK = (("Diagonal", "euler"), ("Dense", "euler"), ("Dense", "symmetric"), ("MatrixFree", "euler"))
LOGISTIC = (
    BASE,
    Method("SGNHT", scheme="symmetric", slow=True),
    Method("ModifiedSGLD", "Dense", slow=True),
    Method("SGHMC", "Dense", slow=True),
    *(
        Method("CCAdL", covariance, scheme, slow=(covariance, scheme) not in _QUICK)
        for covariance in ("Diagonal", "DiagonalLowRank", "Dense", "MatrixFree", "Dense exact")
        for scheme in ("euler", "symmetric")
    ),
)
