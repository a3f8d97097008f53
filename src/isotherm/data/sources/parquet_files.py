"""Where Parquet files are: in a folder, a list, or an object store; and errors that name the file."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from isotherm.data.sources.paths import checked_path
from isotherm.errors import must

if TYPE_CHECKING:
    import pyarrow.fs
    import pyarrow.parquet

_SUFFIXES = (".parquet", ".parq", ".pq")


def located(path: Any, filesystem: Any) -> tuple["pyarrow.fs.FileSystem", list[str]]:
    """Return a file system, and the paths of the files on it, in order."""
    paths = list(path) if isinstance(path, list | tuple) else [path]
    if not paths:
        raise must("path", "a file, a folder or a list of files", path)
    texts = [p if isinstance(p, str) else str(checked_path("path", p)) for p in paths]
    with _reachable(texts[0]):
        system, texts = _on_filesystem(texts, filesystem)
    files = []
    for text in texts:
        files += _files(system, text)
    return system, files


@contextmanager
def opened(filesystem: "pyarrow.fs.FileSystem", path: str) -> Iterator["pyarrow.parquet.ParquetFile"]:
    """Open a file. Errors of opening and reading become sentences that name it."""
    import pyarrow as pa
    import pyarrow.fs
    import pyarrow.parquet as pq

    local = isinstance(filesystem, pyarrow.fs.LocalFileSystem)
    with _reachable(path):
        try:
            with filesystem.open_input_file(path) as raw:
                # A store answers few large requests faster than many small ones.
                yield pq.ParquetFile(raw, pre_buffer=not local)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise ValueError(
                f"{path} is not a Parquet file, or is truncated or damaged ({reason}). Write it again."
            ) from None
        except OSError as error:
            if error.errno is None and "deserialize" in str(error).lower():
                raise ValueError(f"{path} is truncated or damaged ({error}). Write it again.") from None
            raise


def _on_filesystem(texts: list[str], filesystem: Any) -> tuple["pyarrow.fs.FileSystem", list[str]]:
    from pyarrow import fs

    if filesystem is None:
        if any("://" in text for text in texts):
            pairs = [fs.FileSystem.from_uri(text) for text in texts]
            return pairs[0][0], [path for _, path in pairs]
        return fs.LocalFileSystem(), texts
    if isinstance(filesystem, str):
        system, base = fs.FileSystem.from_uri(filesystem)
        return (fs.SubTreeFileSystem(base, system) if base else system), texts
    if isinstance(filesystem, fs.FileSystem):
        return filesystem, texts
    if hasattr(filesystem, "protocol") and hasattr(
        filesystem, "open"
    ):  # of fsspec, which need not be installed
        return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), texts
    raise must("filesystem", "a file system of pyarrow or fsspec, or a URI", filesystem, error=TypeError)


def _files(system: "pyarrow.fs.FileSystem", path: str) -> list[str]:
    """Return `path` itself, or the files in it if it is a folder."""
    from pyarrow import fs

    with _reachable(path):
        info = system.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(f"There is no file or folder {path}. Check the path.")
        if info.type == fs.FileType.File:
            return [path]
        found = [x for x in system.get_file_info(fs.FileSelector(path, recursive=True)) if x.is_file]
    # Names that begin with a dot or an underscore mark files that are not data, such as _SUCCESS.
    names = [x.path for x in found if x.path.endswith(_SUFFIXES) and x.base_name[0] not in "._"]
    if not names:
        raise FileNotFoundError(f"{path} has no files that end in {', '.join(_SUFFIXES)}.")
    for name in names:
        if any("=" in folder for folder in name[len(path) :].split("/")[:-1]):
            raise ValueError(
                f"{name} is in a folder whose name holds a column, which would not be read. Write that column to "
                "the files, or pass a list of files."
            )
    return sorted(names)


@contextmanager
def _reachable(path: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except OSError as error:
        text = str(error)
        if error.filename is None and path in text and error.errno is None:
            raise  # one of ours
        if isinstance(error, FileNotFoundError) or error.errno == errno.ENOENT:
            raise FileNotFoundError(f"There is no file {path}. Check the path.") from None
        if isinstance(error, PermissionError) or "ACCESS_DENIED" in text:
            raise PermissionError(
                f"{path} may not be read by this user. Change its permissions, or pass a `filesystem` with "
                "credentials."
            ) from None
        reason = text.splitlines()[0].rstrip(".")
        raise OSError(f"{path} cannot be reached ({reason}). Check the address and the network.") from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"{path} cannot be located ({reason}). Check the path or the URI.") from None
