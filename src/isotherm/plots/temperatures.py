"""Kinetic temperature and thermostat variable over time, compared with theory."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from isotherm.draws import Draws
from isotherm.draws.record import RunRecord
from isotherm.errors import must
from isotherm.plots.chains import moment_of
from isotherm.plots.density import density
from isotherm.plots.parameters import left_out
from isotherm.plots.style import (
    BAND,
    EXACT,
    MUTED,
    NARROW,
    WIDE,
    chain_color,
    new_figure,
    tidy,
    time_and_density_axes,
    title,
)
from isotherm.prediction.blocks import chosen

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVEL = 0.95
_WINDOWS = 50


def temperatures(draws: Draws) -> "Figure":
    """The kinetic temperature and, if there is a thermostat, xi: over time, and their densities beside theory's.

    The kinetic temperature of N_d degrees of freedom is T chi^2 / N_d, of mean T and standard deviation
    T sqrt(2 / N_d); xi under CCAdL is N(A, T / mu). Dots are draws, and lines are means over a fiftieth of the run.
    """
    return draw_temperatures(draws)


def draw_temperatures(draws: Draws, *, narrow: bool = False) -> "Figure":
    """The figure of `temperatures`; `narrow` makes it fit a phone."""
    own = chosen(draws)
    kinetic = own.stats.get("kinetic_temperature")
    if kinetic is None:
        name = own.record.sampler.name
        raise must("draws", "from a sampler with momentum", name, "`SGLD` and NUTS record no temperature.")
    panels = [("kinetic temperature", kinetic, _kinetic(own.record))]
    if "xi" in own.stats:
        panels.append(("thermostat ξ", own.stats["xi"], _xi(own.record)))
    figure = new_figure(NARROW if narrow else WIDE, 0.9 + (2.0 if narrow else 2.4) * len(panels))
    axes = time_and_density_axes(figure, len(panels), 4)
    x, label = moment_of(own)
    for (left, right), (name, values, theory) in zip(axes, panels, strict=True):
        _over_time(left, x, values.astype(np.float64), theory)
        _densities(right, values.astype(np.float64), theory)
        left.set_title(name, loc="left", fontsize=10, pad=17 if narrow else 3)
        moments = _moments(values, theory)
        if narrow:
            offset = {"textcoords": "offset points", "xytext": (0, 4)}
            left.annotate(moments, (0, 1), xycoords="axes fraction", fontsize=9, color=MUTED, **offset)
        else:
            left.set_title(moments, loc="right", fontsize=9, color=MUTED, pad=3)
    axes[-1, 0].set_xlabel(label)
    title(figure, f"Black: theory; the band holds {100 * _LEVEL:g} % of single draws", left_out(draws))
    return figure


def _kinetic(record: RunRecord) -> Any:
    """T chi^2 / N_d; `None` if the temperature follows a schedule."""
    from scipy import stats

    T, size = record.sampler.temperature, record.num_parameters
    return None if T is None else stats.chi2(size, scale=T / size)


def _xi(record: RunRecord) -> Any:
    """N(A, T / mu) if the noise is controlled. If not, its mean is higher by the friction of the noise, if known."""
    from scipy import stats

    T, thermostat = record.sampler.temperature, record.sampler.traits.thermostat
    if T is None or thermostat is None:
        return None
    mean = thermostat.mean(record.noise_friction)
    mu = record.num_parameters if thermostat.mass is None else thermostat.mass
    return None if mean is None else stats.norm(mean, (T / mu) ** 0.5)


def _moments(values: np.ndarray, theory: Any) -> str:
    text = f"mean {values.mean(dtype=np.float64):.4g}, sd {values.std(dtype=np.float64):.3g}"
    return text if theory is None else f"{text}   (theory {theory.mean():.4g}, {theory.std():.3g})"


def _over_time(ax: "Axes", x: Float[np.ndarray, " draw"], values: np.ndarray, theory: Any) -> None:
    if theory is not None:
        ax.axhspan(*theory.interval(_LEVEL), color=BAND, lw=0)
        ax.axhline(theory.mean(), color=EXACT.color, lw=0.8)
    windows = np.array_split(np.arange(len(x)), min(_WINDOWS, len(x)))
    step = max(1, values.size // 2000)
    for i, chain in enumerate(values):
        color = chain_color(i)
        ax.plot(x[::step], chain[::step], ".", color=color, ms=3, alpha=0.5, mew=0, rasterized=True)
        ax.plot([x[w].mean() for w in windows], [chain[w].mean() for w in windows], color=color, lw=1.2)
    ax.margins(x=0.01)
    tidy(ax)


def _densities(ax: "Axes", values: np.ndarray, theory: Any) -> None:
    for i, chain in enumerate(values):
        if (curve := density(chain)) is not None:
            ax.plot(curve[1], curve[0], color=chain_color(i), lw=1)
    if theory is not None:
        low, high = theory.interval(0.999)
        y = np.linspace(low, high, 400)
        ax.plot(theory.pdf(y), y, color=EXACT.color, lw=1.4)
    ax.set_axis_off()
