"""From what columns hold to what is wrong with them, and to a spec that can use them."""

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from isotherm.errors import must
from isotherm.tables.checks import is_missing
from isotherm.tables.convert import text_bytes
from isotherm.tables.csv_file import CsvFormat
from isotherm.tables.families.registry import family_of
from isotherm.tables.inspection.column import ColumnFacts
from isotherm.tables.inspection.facts import TableFacts
from isotherm.tables.inspection.features import OF_LEVELS, of_feature
from isotherm.tables.inspection.findings import Finding, found
from isotherm.tables.inspection.proposal import Proposal
from isotherm.tables.inspection.roles import CATEGORY, DATE, LEAVE_OUT, NUMBER, UNUSABLE, Role, role_of
from isotherm.tables.inspection.target import Guess, of_target
from isotherm.tables.inspection.together import copies
from isotherm.tables.reader import available_bytes, is_csv
from isotherm.tables.reading import read_table_as
from isotherm.tables.table import Columns

_MOST_DROPPED = 0.5  # share of rows


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What is known of a table.

    - `path`, `rows`, `columns`: of the table.
    - `target`: the column that is predicted, and `guess`, a model for it and why.
    - `findings`: all faults, those of the whole table first.
    - `proposal`: what the spec says; `None` if no model fits the target, or no feature is left.
    - `used_rows`, `names`: rows and columns of the design, if the spec was tried and nothing was refused.
    - `large`: whether a CSV file must be converted before it can be sampled.
    """

    path: str
    rows: int
    columns: int
    target: str
    guess: Guess
    findings: tuple[Finding, ...]
    proposal: Proposal | None
    used_rows: int | None = None
    names: tuple[str, ...] = ()
    large: bool = False

    @property
    def ok(self) -> bool:
        """Whether the table can be sampled as proposed."""
        return self.used_rows is not None and not any(finding.blocks for finding in self.findings)

    @property
    def toml(self) -> str | None:
        """The proposed spec of a table at its path."""
        return None if self.proposal is None else self.proposal.toml(self.path)


def judged(path: str, seen: TableFacts) -> Inspection:
    """Return all findings, and the spec, which is not tried yet."""
    target, rows = seen.target, seen.facts[seen.target][0].rows
    facts = {name: parts[0] for name, parts in seen.facts.items() if len(parts) == 1}
    roles = {name: role_of(x) if x.present else Role(UNUSABLE) for name, x in facts.items()}
    guess = _guess(seen, facts, roles)
    features, of_features = _usable(seen, roles, guess)
    features, of_copies = _without_copies(seen, features, roles)
    features, of_gaps = _without_gaps(seen, features)
    features, of_rest = _without_constants(seen, features, roles)
    of_features = [x for x in of_features if x.column in features or x.kind not in OF_LEVELS]
    findings = [*seen.findings, *guess.findings, *of_features, *of_copies, *of_gaps, *of_rest]
    if not features:
        findings.append(
            found(None, "features", "No feature is left.", "Repair a column or add one.", blocks=True)
        )
    if large := _is_large(path):
        findings.append(_too_large(path, seen.form))
        path = _converted(path)
        seen = dataclasses.replace(seen, form=CsvFormat(decimal=seen.form.decimal))
    proposal = _proposal(seen, guess, features, roles) if guess.model is not None and features else None
    names = [*seen.facts, *seen.unread]
    place = {name: i for i, name in enumerate(names)}
    order = sorted(findings, key=lambda finding: place.get(finding.column or "", -1))
    return Inspection(path, rows, len(names), target, guess, tuple(order), proposal, large=large)


def _proposal(seen: TableFacts, guess: Guess, features: list[str], roles: Mapping[str, Role]) -> Proposal:
    used = [*features, seen.target]
    known = {name: roles[name] for name in used if name in roles}
    markers = dict.fromkeys(marker for role in known.values() for marker in role.markers)
    return Proposal(
        guess,
        seen.target,
        seen.form,
        exclude=[name for name in [*seen.facts, *seen.unread] if name not in used],
        numbers=[name for name, role in known.items() if role.from_text],
        missing_values=list(markers),
        dates={name: role.form for name, role in known.items() if role.form is not None},
        drops=bool(markers) or bool(seen.patterns.lacking(used).count),
    )


def _usable(seen: TableFacts, roles: Mapping[str, Role], guess: Guess) -> tuple[list[str], list[Finding]]:
    """Return the columns that can be features, one by one, and what was found in all."""
    family = None if guess.model is None else family_of(guess.model)
    reserved = {"intercept", *(() if family is None else (x.name for x in family.auxiliaries))}
    findings = [found(name, "type", "Values of a type that is not read.", LEAVE_OUT) for name in seen.unread]
    features = []
    for name, parts in seen.facts.items():
        if name == seen.target:
            continue
        more, usable = _of_column(parts, roles.get(name))
        findings += more
        if usable and name in reserved:
            fault = "The name is that of a parameter of the model."
            findings.append(found(name, "names", fault, f"Rename the column. {LEAVE_OUT}"))
        elif usable:
            features.append(name)
    return features, findings


def _guess(seen: TableFacts, facts: Mapping[str, ColumnFacts], roles: Mapping[str, Role]) -> Guess:
    if seen.target not in facts:
        raise must("--target", "a column with one value in each row", seen.target)
    return of_target(facts[seen.target], roles[seen.target])


def _of_column(parts: list[ColumnFacts], role: Role | None) -> tuple[list[Finding], bool]:
    if role is not None:
        return of_feature(parts[0], role)
    results = [of_feature(part, role_of(part) if part.present else Role(UNUSABLE)) for part in parts]
    findings = [dataclasses.replace(x, blocks=not usable) for more, usable in results for x in more]
    return findings, all(usable for _, usable in results)


def _without_copies(
    seen: TableFacts, features: list[str], roles: Mapping[str, Role]
) -> tuple[list[str], list[Finding]]:
    """Return the features that do not repeat the target or an earlier feature."""
    used = [name for name in (seen.target, *features) if name in roles and roles[name].kind != UNUSABLE]
    if len(used) < 2:
        return features, []
    columns = _sample(seen, used, roles)
    numbers = [name for name in used if roles[name].kind in (NUMBER, DATE)]
    few = [name for name in used if roles[name].kind == CATEGORY or _has_few_values(seen.facts[name][0])]
    where = "" if seen.sample.is_all else f" (in {len(columns[used[0]]):,} evenly spaced rows)"
    findings, left = [], list(features)
    for copy in copies(columns, numbers, few):
        if copy.name not in left:
            continue
        how = f"It is {copy.formula}" if copy.formula else f"Its levels match those of `{copy.of}` one to one"
        leak = " The target would be predicted from itself." if copy.of == seen.target else ""
        fault, kind = f"{how}{where}.{leak}", "target" if leak else "copy"
        findings.append(found(copy.name, kind, fault, LEAVE_OUT))
        left.remove(copy.name)
    return left, findings


def _has_few_values(facts: ColumnFacts) -> bool:
    return facts.levels is not None and len(facts.levels) > 1


def _sample(seen: TableFacts, used: list[str], roles: Mapping[str, Role]) -> Columns:
    """Return evenly spaced rows as the spec reads them."""
    table, _ = read_table_as(
        seen.sample.table(),
        used,
        categorical=[name for name in used if roles[name].kind == CATEGORY],
        numbers=[name for name in used if roles[name].from_text],
        decimal=seen.form.decimal,
        missing_values=[marker for name in used for marker in roles[name].markers],
        dates={name: form for name in used if (form := roles[name].form) is not None},
    )
    (columns,) = (columns for _, columns in table.pieces(used))
    return columns


def _without_gaps(seen: TableFacts, features: list[str]) -> tuple[list[str], list[Finding]]:
    """Return the features without those that leave too few complete rows, and what is dropped for the others."""
    findings, left, rows = [], list(features), seen.facts[seen.target][0].rows
    gaps = {name: max(part.missing.count for part in seen.facts[name]) for name in left}
    while (
        left
        and seen.patterns.lacking([seen.target, *left]).count > _MOST_DROPPED * rows
        and any(gaps[x] for x in left)
    ):
        worst = max(left, key=lambda name: gaps[name])
        fault = "With the gaps of other columns, its gaps leave too few complete rows."
        findings.append(found(worst, "missing", fault, LEAVE_OUT, seen.facts[worst][0].missing))
        left.remove(worst)
    for name in left:
        for part in seen.facts[name]:
            if part.missing.count:
                repair = 'The spec leaves these rows out, by `missing = "drop"`.'
                findings.append(found(part.name, "missing", "Missing values.", repair, part.missing))
    dropped = seen.patterns.lacking([seen.target, *left])
    if dropped.count:
        repair = (
            'The spec leaves them out, by `missing = "drop"`. To keep more, exclude columns with many gaps.'
        )
        findings.append(found(None, "dropped", dropped_rows(dropped.count, rows), repair, dropped))
    return left, findings


def _without_constants(
    seen: TableFacts, features: list[str], roles: Mapping[str, Role]
) -> tuple[list[str], list[Finding]]:
    """Return the features that vary in complete rows too, if all rows of the table are at hand."""
    used = [name for name in (seen.target, *features) if name in roles and roles[name].kind != UNUSABLE]
    if not seen.sample.is_all or seen.target not in used:
        return features, []
    columns = _sample(seen, used, roles)
    complete = ~np.any([is_missing(x) for x in columns.values()], axis=0)
    if complete.all() or not complete.any():
        return features, []
    constant = [name for name in used if len(set(columns[name][complete].tolist())) == 1 and name in features]
    fault = "All rows without missing values have the same value."
    findings = [found(name, "constant", fault, LEAVE_OUT) for name in constant]
    return [name for name in features if name not in constant], findings


def dropped_rows(count: int, rows: int) -> str:
    """Return a sentence on rows that are left out."""
    return f"{count:,} of {rows:,} rows lack a value in a column that is used."


def _is_large(path: str) -> bool:
    available = available_bytes()
    return is_csv(path) and available is not None and text_bytes(Path(path)) > available / 2


def _too_large(path: str, form: CsvFormat) -> Finding:
    usual = dataclasses.asdict(CsvFormat())
    given = [(name, x) for name, x in dataclasses.asdict(form).items() if x is not None and x != usual[name]]
    options = [f"--{name} {shlex.quote(x)}" for name, x in given]
    command = " ".join(["isotherm data convert", *map(shlex.quote, (path, _converted(path))), *options])
    return found(
        None, "size", "The file is too large to be loaded.", f"Convert it once: {command}", blocks=True
    )


def _converted(path: str) -> str:
    return str(Path(path).with_name(f"{Path(path).name.split('.')[0]}.parquet"))
