"""`Call`: the arguments of `iso.sample` besides the posterior and the data, which a stored run keeps."""

import dataclasses

from jaxtyping import Array, Key, PyTree

from isotherm.chains.ensemble import Length
from isotherm.chains.setup import Setup
from isotherm.data.plans import MinibatchPlan
from isotherm.draws.record import Reason
from isotherm.errors import check_count, must
from isotherm.gradients.minibatch import Gradient
from isotherm.preconditioner import Preconditioner
from isotherm.samplers.base import Sampler
from isotherm.sampling import checks
from isotherm.sampling.by_hand import Choices


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """What was asked for. Names are those of the arguments of `iso.sample`; `key` is made from `seed`."""

    init: PyTree
    key: Key[Array, ""]
    sampler: Sampler | None = None
    batch_size: int | None = None
    num_draws: int = 1000
    thinning: int | None = None
    burn_in: int | None = None
    num_chains: int = 4
    minibatch: MinibatchPlan | None = None
    gradient: Gradient | None = None
    preconditioner: Preconditioner | None = None
    init_scale: float = 0.0
    init_per_chain: bool | None = None

    @property
    def length(self) -> Length:
        """The numbers of chains and draws, checked."""
        num_chains = check_count("num_chains", self.num_chains, minimum=1, below=2**31)
        return Length(num_chains, check_count("num_draws", self.num_draws, minimum=1, below=2**31))

    @property
    def choices(self) -> Choices:
        """The settings that were chosen by hand."""
        return Choices(
            batch_size=self.batch_size,
            thinning=1 if self.thinning is None else self.thinning,
            burn_in=0 if self.burn_in is None else self.burn_in,
            num_chains=self.num_chains,
            minibatch=self.minibatch,
            gradient=self.gradient,
            preconditioner=self.preconditioner,
            init_scale=self.init_scale,
            init_per_chain=self.init_per_chain,
        )

    def checked(self) -> "Call":
        """Return the call, with numbers of Python. Raises if arguments do not fit each other; nothing is computed."""
        length, lengths, scale = self.length, self.given_lengths, checks.check_init_scale(self.init_scale)
        if self.sampler is None:
            checks.check_open(
                minibatch=self.minibatch,
                gradient=self.gradient,
                preconditioner=self.preconditioner,
                init_per_chain=self.init_per_chain,
                init_scale=scale or None,
            )
        elif isinstance(self.init, Setup):
            rule = "a pytree of parameters if a sampler is given"
            raise must("init", rule, "a `Setup`", "Leave `sampler` out.")
        counts = {"num_chains": length.num_chains, "num_draws": length.num_draws}
        return dataclasses.replace(self, init_scale=scale, **counts, **lengths)

    @property
    def given_lengths(self) -> dict[str, int]:
        """Burn-in and thinning, if they were given, by name."""
        given = {}
        if self.burn_in is not None:
            given["burn_in"] = check_count("burn_in", self.burn_in, minimum=0, below=2**31)
        if self.thinning is not None:
            given["thinning"] = check_count("thinning", self.thinning, minimum=1, below=2**31)
        return given

    def with_lengths(self, setup: Setup) -> Setup:
        """Return the setup with the given burn-in and thinning, if any, and with the reason that they were given."""
        given = self.given_lengths
        reasons = tuple(
            Reason(reason.choice, str(given[reason.choice]), "given") if reason.choice in given else reason
            for reason in setup.reasons
        )
        return dataclasses.replace(
            setup,
            burn_in=given.get("burn_in", setup.burn_in),
            thinning=given.get("thinning", setup.thinning),
            reasons=reasons,
        )
