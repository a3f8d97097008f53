"""The content of a data file from the user's folder, the cache or a download; it is checked in every case."""

import gzip
import hashlib
import lzma
import os
import zlib
from pathlib import Path

from isotherm.data.sets.bounded import SUFFIXES, read_at_most
from isotherm.data.sets.catalogue import File
from isotherm.errors import DamagedFileError
from isotherm.files import open_file

FOLDER = "ISOTHERM_DATA_DIR"
_LARGEST_CHECKSUM = 2**12  # bytes of a file with a checksum and the name of what it belongs to
_LARGEST_UNKNOWN = 2**30  # bytes of a file whose size was not published


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
        for suffix in SUFFIXES:
            path = folder / (file.name + suffix)
            if path.is_file():
                return path
    return None


def read(path: Path, file: File) -> bytes:
    """Return the uncompressed content of a copy; refuse one that is truncated or altered, or cannot be checked."""
    known = file.sha256 or _vouched(path)
    if known is None:
        raise DamagedFileError(
            f"{path} cannot be checked, since no checksum of {file.name} was published. If you trust this copy, "
            f"write the SHA-256 of its uncompressed content to {_beside(path)}, as `sha256sum` prints it."
        )
    try:
        content = read_at_most(path, _LARGEST_UNKNOWN if file.size is None else file.size)
    except (EOFError, ValueError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DamagedFileError(
            f"{path} cannot be uncompressed, so it is truncated or altered: {error}."
        ) from error
    except OSError as error:
        if error.errno is not None:
            raise  # the system could not read it
        raise DamagedFileError(
            f"{path} cannot be uncompressed, so it is truncated or altered: {error}."
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != known:
        raise DamagedFileError(
            f"{path} is not {file.name} as it was published: it has {len(content):,} bytes uncompressed and sha256 "
            f"{digest}; expected {file.about} and sha256 {known}."
        )
    return content


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _vouched(path: Path) -> str | None:
    """Return the checksum that the user has put beside a copy, or `None`."""
    try:
        with open_file(_beside(path)) as file:
            words = file.read(_LARGEST_CHECKSUM).decode("utf-8").split()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return words[0].lower() if words else None


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
    """A processor for pooch that checks the uncompressed content, so that any compression will do.

    A file without a published checksum is kept unchecked: the user has to vouch for it before it is read.
    """

    def __init__(self, file: File) -> None:
        self.file = file

    def __call__(self, name: str, action: str, pooch: object) -> str:
        """Return the path of a download; delete and refuse one whose content is wrong."""
        del action, pooch
        if self.file.sha256 is None:
            return name
        try:
            read(Path(name), self.file)
        except DamagedFileError:
            Path(name).unlink(missing_ok=True)
            raise
        return name


def _download(file: File) -> Path:
    import pooch

    suffix = Path(file.url).suffix
    target = cache() / (file.name + (suffix if suffix in SUFFIXES and not file.name.endswith(suffix) else ""))
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
