"""The table that `isotherm data` prints: the data sets that `load` knows, and where their files are."""

from rich.console import Console

from isotherm.data.sets.catalogue import ENTRIES, Entry
from isotherm.data.sets.fetch import FOLDER, cache, find
from isotherm.terminal import Table, literal


def show(console: Console) -> None:
    """Print one row per data set, and the folders that are searched."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("name", "train", "test", "features", "classes"):
        table.add_column(title, justify="left" if title == "name" else "right", no_wrap=True)
    for title in ("licence", "source", "files"):
        table.add_column(title, overflow="fold")
    for name, entry in ENTRIES.items():
        numbers = (f"{n:,}" for n in (entry.train, entry.test, entry.features, entry.classes))
        table.add_row(name, *numbers, entry.licence, entry.source, where(entry))
    console.print(table)
    console.print(
        literal(
            f"Files are looked for in the folder that {FOLDER} names, then in {cache()}, to which missing ones are "
            "downloaded."
        )
    )


def where(entry: Entry) -> str:
    """Return the folders of the files, or how many are missing. `load` checks their content."""
    missing = [file for file in entry.files if find(file) is None]
    if not missing:
        folders = {str(path.parent) for file in entry.files if (path := find(file)) is not None}
        return ", ".join(sorted(folders))
    sizes = [file.size for file in missing]
    total = (
        "size unknown"
        if None in sizes
        else f"{sum(n for n in sizes if n is not None) / 1e6:.1f} MB uncompressed"
    )
    return f"missing: {len(missing)} of {len(entry.files)} files, {total}"
