"""Read and write files safely, lock them across processes, and encode JSON.

Files appear whole or not at all. Nothing is written through a link, and nothing but regular files
is read: pipes and devices would block.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from riskmatch.limits import check_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONTROL = r"\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""Range of a pattern: control characters, line ends, marks of direction and lone surrogates."""

SETTLED = 2.0
"""Seconds after which a change must show in a file's timestamps."""

Stamp = tuple[int, int, int, int]
"""Size, modification time, change time and inode of a file; they differ after any change. The last
two reveal files that were exchanged by ``mv`` or ``cp -p``."""


CACHE = "RISKMATCH_CACHE"
"""Variable that ``--cache`` sets: ``off``, ``auto`` or the folder of the caches."""


def user_folder(purpose: Literal["cache", "state"]) -> Path:
    """Folder of riskmatch's files for this user: ``$XDG_CACHE_HOME``, or the platform's default.

    That of caches is in ``$RISKMATCH_CACHE``, where that is a folder.

    Args:
        purpose: ``"cache"`` for files that can be made again, ``"state"`` for those that cannot,
            which are in ``$XDG_STATE_HOME``.
    """
    if purpose == "cache" and (given := os.environ.get(CACHE, "auto")) not in ("auto", "off", ""):
        return Path(given).absolute() / "riskmatch"
    mac, other = {
        "cache": ("Library/Caches", ".cache"),
        "state": ("Library/Application Support", ".local/state"),
    }[purpose]
    if os.path.isabs(given := os.environ.get(f"XDG_{purpose.upper()}_HOME", "")):
        base = Path(given)  # the standard ignores relative paths
    elif sys.platform == "darwin":
        base = Path.home() / mac
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path.home() / other
    return base / "riskmatch"


def file_stamp(path: Path) -> Stamp:
    """The stamp of a file; one younger than :data:`SETTLED` may hide a change."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def check_regular(path: Path) -> None:
    """Raise ``OSError`` unless ``path`` is a regular file that this process may read.

    Opening a pipe, a socket or a device could block forever.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        reason = "It is a pipe, a socket or a device; put a regular file in its place"
        raise OSError(errno.EINVAL, reason, str(path))
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def read_file(path: Path) -> bytes:
    """Content of a regular file; see :func:`check_regular`."""
    check_regular(path)
    return path.read_bytes()


def read_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Arrays of an ``.npz`` file by name: all, or those of ``names`` that it has.

    Raises:
        LimitError: they would take too much memory.
        ValueError: the file is damaged.
    """
    import numpy as np

    check_regular(path)
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {
                info.filename.removesuffix(".npy"): info.file_size for info in archive.filelist
            }
        wanted = [name for name in sizes if names is None or name in names]
        check_memory(path, sum(sizes[name] for name in wanted))
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in wanted}
    # A header that states too many values gives a MemoryError, or an error on those missing.
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from error


def refuse_link(path: Path) -> None:
    """Raise ``OSError`` if ``path`` is a link, through which a file elsewhere would be written."""
    if path.is_symlink():
        reason = f"It is a link to {os.readlink(path)}, and nothing is written through links; "
        raise OSError(errno.ELOOP, f"{reason}remove the link", str(path))


def refuse_input(file: Path, *inputs: Path | str, within: Sequence[str] = ()) -> None:
    """Raise ``ValueError`` if writing ``file`` would replace an input.

    Args:
        file: file to write.
        inputs: files and folders that are read.
        within: suffixes of the files that are read inside folders.
    """
    if not file.exists():
        return
    for path in map(Path, inputs):
        inside = path.is_dir() and path.resolve() in file.resolve().parents
        if (inside and file.suffix.lower() in within) or (path.exists() and file.samefile(path)):
            what = f"in {path}, an" if inside else "an"
            raise ValueError(
                f"{file} is {what} input of this command, and would be lost. Write to another file."
            )


def make_folder(path: Path) -> None:
    """Create a folder with its parents unless it exists; ``OSError`` if it is a link."""
    refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)


def free_name(path: Path) -> Path:
    """A path beside ``path`` that nothing has: ``NAME.old``, ``NAME.old2``, and so on."""
    ends = (".old", *(f".old{number}" for number in range(2, 10_000)))
    return next(free for end in ends if not (free := path.with_name(path.name + end)).exists())


def write_whole(path: Path, *parts: Any) -> None:
    """Write a file that appears whole or not at all, and is on disk when this returns.

    Its content are ``parts``, bytes or arrays, one after another.

    A link at ``path`` is replaced.
    """
    temporary = path.with_name(f".{path.name}.riskmatch.tmp")
    try:
        temporary.unlink(missing_ok=True)  # of a process that was killed, or a link
        with open(temporary, "xb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)  # a full disk names no file
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "nt":  # folders cannot be opened
        return
    # The new name is durable once its folder is.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def bytes_of(write: Callable[[io.BytesIO], object]) -> bytes:
    """The bytes that a function writes to a file.

    Example:
        >>> bytes_of(lambda file: file.write(b"risk"))
        b'risk'
    """
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def append_line(path: Path, line: str) -> None:
    """Append a line to a file; it is on disk when this returns.

    An incomplete last line, such as a full disk leaves, is removed first.
    """
    refuse_link(path)
    with open(path, "a+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if file.read() not in (b"", b"\n"):
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def file_lock(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file ``path``, which the system releases when the process ends.

    ``waiting`` is called once if another process holds it.
    """
    with try_lock(path) as locked:
        if locked:
            yield
            return
    waiting()
    with try_lock(path, timeout=None):
        yield


@contextmanager
def try_lock(path: Path, timeout: float | None = 0.0) -> Iterator[bool]:
    """Hold the lock file ``path`` if it is free within ``timeout`` seconds; None waits forever.

    Yields:
        Whether this process holds the lock.
    """
    from filelock import FileLock, Timeout

    refuse_link(path)  # some versions of filelock truncate its target
    lock = FileLock(path)
    try:
        lock.acquire(timeout=-1 if timeout is None else timeout)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def printable(text: object) -> str:
    r"""Text on one line: control characters, which names of another origin may hold, are escaped.

    Example:
        >>> print(printable("a\nb\x1b[2J"))
        a\nb\x1b[2J
    """
    return re.sub(f"[{CONTROL}]", lambda match: ascii(match[0])[1:-1], str(text))


def csv_text(text: str) -> str:
    """Text of a cell of CSV: on one line, and after an apostrophe if it looks like a formula.

    Example:
        >>> csv_text("=1+1"), csv_text("-1"), csv_text("cat")
        ("'=1+1", '-1', 'cat')
    """
    try:
        float(text)
    except ValueError:
        return ("'" if text.startswith(tuple("=+-@\t\r")) else "") + printable(text)
    return text


def to_json(value: Any, indent: int | None = None) -> str:
    """Encode a value as JSON that is valid UTF-8, with null for numbers that are not finite.

    Example:
        >>> to_json({"risk": [1.5, float("nan")], "n": (3,)})
        '{"risk": [1.5, null], "n": [3]}'
    """
    text = json.dumps(finite(value), allow_nan=False, ensure_ascii=False, indent=indent)
    # Lone surrogates, as in names of files that are not UTF-8, become escapes of JSON.
    return text.encode("utf-8", "backslashreplace").decode()


def finite(value: Any, digits: int | None = None) -> Any:
    """Replace numbers that are not finite by None, in mappings, lists, tuples and arrays too.

    Floats are rounded to ``digits`` significant digits, where given.

    Example:
        >>> finite({"risk": (1 / 3, float("nan")), "n": 3}, digits=2)
        {'risk': [0.33, None], 'n': 3}
    """
    if hasattr(value, "tolist"):  # an array, or one of its values
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: finite(entry, digits) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        if {*map(type, value)} == {float} and all(map(math.isfinite, value)):  # charts have many
            return list(value) if digits is None else [float(f"{v:.{digits}g}") for v in value]
        return [finite(entry, digits) for entry in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")


def sha256(*parts: str | bytes, more: Iterable[str | memoryview] = ()) -> str:
    """SHA-256, in hexadecimal digits, of parts one after the other; text in UTF-8.

    Example:
        >>> sha256("risk", b"match") == sha256("riskmatch")
        True
    """
    digest = hashlib.sha256()
    for part in chain(parts, more):
        digest.update(part.encode(errors="surrogatepass") if isinstance(part, str) else part)
    return digest.hexdigest()


def seed_of(*key: str | int) -> int:
    """A seed of 64 bits, from the hash of its key.

    Example:
        >>> seed_of("split", 0) == seed_of("split/0")
        True
    """
    return int(sha256("/".join(map(str, key)))[:16], 16)


def seed_hash(*key: str | int) -> int:
    """A seed as DomainBed makes it from numbers and texts: the MD5 of their tuple, below 2³¹.

    Example:
        >>> seed_hash(0, 1) == seed_hash(1, 0)
        False
    """
    return int(hashlib.md5(str(key).encode(), usedforsecurity=False).hexdigest(), 16) % 2**31
