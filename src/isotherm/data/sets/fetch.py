"""The content of a data file from the user's folder, the cache or a download; it is checked in every case."""

import bz2
import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Callable
from pathlib import Path

from isotherm.data.sets.catalogue import File

FOLDER = "ISOTHERM_DATA_DIR"
_OPENERS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda content: content,
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
}


def fetch(file: File) -> bytes:
    """Return the uncompressed content from `ISOTHERM_DATA_DIR`, else from the cache, else from a download."""
    path = find(file)
    if path is None:
        return read(_download(file), file)
    try:
        return read(path, file)
    except DamagedFileError as error:
        raise DamagedFileError(
            f"{error} Delete it to have it downloaded again, or replace it by a good copy."
        ) from None


def find(file: File) -> Path | None:
    """Return the path of the local copy that `fetch` would read, or `None` if there is none."""
    for folder in _folders():
        for suffix in _OPENERS:
            path = folder / (file.name + suffix)
            if path.is_file():
                return path
    return None


class DamagedFileError(OSError):
    """Raised for a file whose content is not what was published."""


def read(path: Path, file: File) -> bytes:
    """Return the uncompressed content of a copy; refuse one that is truncated or altered."""
    raw = path.read_bytes()
    try:
        content = _OPENERS[path.suffix if path.suffix in _OPENERS else ""](raw)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise DamagedFileError(
            f"{path} cannot be uncompressed, so it is truncated or altered: {error}."
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    if file.sha256 is not None and digest != file.sha256:
        raise DamagedFileError(
            f"{path} is not {file.name} as it was published: it has {len(content):,} bytes uncompressed and sha256 "
            f"{digest}; expected {file.about} and sha256 {file.sha256}."
        )
    return content


def cache() -> Path:
    """Return the folder where downloads are kept."""
    import pooch

    return Path(pooch.os_cache("isotherm"))


def _folders() -> list[Path]:
    named = os.environ.get(FOLDER)
    if not named:
        return [cache()]
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise OSError(f"{FOLDER} must name a folder; got {named!r}. Create it or unset the variable.")
    return [folder, cache()]


class _Checked:
    """A processor for pooch that checks the uncompressed content, so that any compression will do."""

    def __init__(self, file: File) -> None:
        self.file = file

    def __call__(self, name: str, action: str, pooch: object) -> str:
        """Return the path of a download; delete and refuse one whose content is wrong."""
        del action, pooch
        try:
            read(Path(name), self.file)
        except DamagedFileError:
            Path(name).unlink(missing_ok=True)
            raise
        return name


def _download(file: File) -> Path:
    import pooch

    suffix = Path(file.url).suffix
    target = cache() / (file.name + (suffix if suffix in _OPENERS and not file.name.endswith(suffix) else ""))
    pooch.get_logger().setLevel("WARNING")
    repair = (
        f"Put a copy of {file.name} ({file.about}), plain or as .gz, .xz or .bz2, at {_folders()[0] / file.name}, or "
        f"set {FOLDER} to a folder that has it."
    )
    try:
        # pooch would check the compressed file, which differs from copy to copy.
        path = pooch.retrieve(
            file.url, known_hash=None, path=target.parent, fname=target.name, processor=_Checked(file)
        )
    except DamagedFileError as error:
        raise DamagedFileError(
            f"the download from {file.url} was refused and not kept: {error} {repair}"
        ) from error
    except (OSError, ValueError) as error:
        raise OSError(
            f"{file.name} was not found and could not be downloaded from {file.url}: {error} {repair}"
        ) from error
    return Path(str(path))
