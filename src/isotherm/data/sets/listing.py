"""The table that `isotherm data` prints: the data sets that `load` knows, and where their files are."""

from rich.console import Console

from isotherm.data.sets.catalogue import ENTRIES, Entry
from isotherm.data.sets.fetch import FOLDER, cache, find
from isotherm.terminal import Table, literal


def show(console: Console) -> None:
    """Print the sizes of the data sets, then where they come from and where their files are."""
    sizes, places = _table("train", "test", "features", "classes"), _table("licence", "source", "files")
    for name, entry in ENTRIES.items():
        sizes.add_row(name, *(f"{n:,}" for n in (entry.train, entry.test, entry.features, entry.classes)))
        places.add_row(name, entry.licence, entry.source, where(entry))
    console.print(sizes)
    console.print(places)
    console.print(
        literal(
            f"Files are looked for in the folder that {FOLDER} names, then in {cache()}, to which missing ones are "
            "downloaded."
        )
    )


def _table(*titles: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("name", no_wrap=True)
    for title in titles:
        is_number = title not in ("licence", "source", "files")
        table.add_column(title, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    return table


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
