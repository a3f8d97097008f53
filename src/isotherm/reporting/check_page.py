"""The page of a checked table: faults with their rows and repairs, and the proposed spec."""

from isotherm.reporting import page
from isotherm.tables.inspection.judge import Inspection


def check_page(result: Inspection, name: str, spec: str | None) -> str:
    """Return the check of the table `name` as one HTML document."""
    lead = f"{result.rows:,} rows, {result.columns:,} columns. "
    if result.used_rows is not None and result.ok:
        kept = "all rows" if result.used_rows == result.rows else f"{result.used_rows:,} rows"
        lead += f"The table can be sampled as proposed: the spec was tried, and uses {kept}."
    elif spec is None:
        lead += "No model can be proposed until the table is repaired."
    else:
        lead += "The table must be repaired before it can be sampled."
    sections = [
        page.Section(title, [_faults(result, blocks=blocks)])
        for title, blocks in (("To be repaired first", True), ("Found", False))
        if any(finding.blocks == blocks for finding in result.findings)
    ]
    if not result.findings:
        sections.append(page.Section("Found", [page.paragraph("Nothing was found.")]))
    if spec is not None:
        about = f"The target `{result.target}`: {result.guess.why}."
        sections.append(
            page.Section("Proposed spec", [page.paragraph(page.prose(about)), page.verbatim(spec)])
        )
    return page.page(f"Check of {name}", lead, sections)


def _faults(result: Inspection, *, blocks: bool) -> page.Html:
    rows = [
        (
            "the table" if x.column is None else x.column,
            page.prose(x.fault.rstrip(".:") + "."),
            x.where or ("all rows" if x.column is not None else "all of it"),
            page.prose(x.repair),
        )
        for x in result.findings
        if x.blocks == blocks
    ]
    return page.table(("column", "what", "where", "repair"), rows)
