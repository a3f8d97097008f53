"""The figures of docs/effects.md: claims along age, the effects of regions, and the curve of age.

    python benchmarks/effects_figure.py --out docs/figures

4,000 rows of made-up claims with 20 regions, as on that page. Needs the extras `plots` and `formulas`.
"""

import argparse
from pathlib import Path

import numpy as np

import isotherm as iso

ROWS, REGIONS = 4000, 20
FORMULA = "claims ~ s(age) + sex + km + exposure(years) + (1 | region)"


def table() -> dict[str, np.ndarray]:
    """Return the rows: rates with a wave along age, a slope along km, and a factor for each region."""
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.uniform(18, 80, ROWS),
        "km": rng.gamma(2, 5, ROWS),
        "sex": rng.choice(["f", "m"], ROWS),
        "years": rng.uniform(0.2, 1, ROWS),
        "region": rng.choice([f"R{k:02d}" for k in range(REGIONS)], ROWS),
    }
    effects = dict(zip(sorted(set(columns["region"])), 0.4 * rng.normal(size=REGIONS), strict=True))
    log_rate = 0.03 * columns["km"] - 1 + 0.5 * np.cos(columns["age"] / 12)
    log_rate = log_rate + np.array([effects[name] for name in columns["region"]])
    return columns | {"claims": rng.poisson(np.exp(log_rate) * columns["years"])}


def main() -> None:
    """Sample, and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    folder, rows = parser.parse_args().out, table()
    draws = iso.tables.regression(FORMULA, rows, family="poisson").sample()
    print(draws.summary().verdict)
    print(iso.tables.effects(draws, rows, "km", at=[0, 10, 20]))
    drawn = {
        "effects_along": iso.plots.effects_along(iso.tables.effects(draws, rows, "age")),
        "effects_groups": iso.plots.group_levels(iso.tables.group_effects(draws, "region")),
        "effects_curve": iso.plots.smooth(iso.tables.curve(draws, "age")),
    }
    for name, figure in drawn.items():
        print(iso.plots.save(figure, folder / f"{name}.png"))


if __name__ == "__main__":
    main()
