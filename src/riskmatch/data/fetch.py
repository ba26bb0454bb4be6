"""Folders of data sets, resumable downloads into them, and the progress of long reads.

A downloaded file appears only once it is complete and verified.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import cast
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from riskmatch.files import user_folder

VARIABLE = "RISKMATCH_DATA"
"""Environment variable with the folder of data sets."""
TIMEOUT = 20.0
"""Seconds without data after which a connection has stalled."""
TRIES = 5
"""Connections to one URL, as long as each brings new bytes."""
CHUNK = 1 << 16
SCHEMES = ("http://", "https://", "hf://")
HUB = re.compile(r"hf://datasets/([^/]+/[^/@]+)@([^/]+)/(.+)")
"""URL of a file on the Hugging Face hub: data set, revision and path in it."""

OnProgress = Callable[[str, int, int | None], None]
"""Called with the name of a task, the amount done, and the total where it is known.

The amount is a number of bytes or of images, as the caller documents.
"""
Check = Callable[[Path], object]
"""Raises ``ValueError`` with the reason where a file is not the expected one."""


def no_progress(task: str, done: int, total: int | None) -> None:
    """Ignore progress."""


def data_folders(data_dir: Path | None = None) -> tuple[Path, ...]:
    """Folders of data sets in search order: ``data_dir``, ``$RISKMATCH_DATA``, the cache."""
    given = os.environ.get(VARIABLE)
    return (
        *((data_dir,) if data_dir else ()),
        *((Path(given),) if given else ()),
        user_folder("cache"),
    )


def candidate_folders(name: str, data_dir: Path | None = None) -> tuple[Path, ...]:
    """Folders that may hold the files ``name``, in search order.

    ``data_dir/name``, ``data_dir`` itself, then the folder ``name`` of every other data folder.

    Example:
        >>> [str(folder) for folder in candidate_folders("mnist", Path("data"))][:2]
        ['data/mnist', 'data']
    """
    given = (data_dir / name, data_dir) if data_dir else ()
    return (*given, *(base / name for base in data_folders()))


def not_here(title: str, name: str, files: str, searched: Iterable[Path]) -> FileNotFoundError:
    """The error for files that no folder has, with the command that gets them."""
    return FileNotFoundError(
        f"{title} is not on this machine; searched {', '.join(map(str, searched))}. Download it "
        f"with `riskmatch data get {name}`, or place {files} in one of these folders, or in a "
        f"folder {name} of ${VARIABLE}."
    )


class FetchError(OSError):
    """No URL gave the file; the message lists the attempts and the alternatives."""

    code = 3
    """Exit code of a command that ends with it."""

    def __init__(self, message: str, attempts: Sequence[str]) -> None:
        super().__init__(message)
        self.attempts = tuple(attempts)
        """Each attempt with the reason of its failure."""


class _TooLongError(Exception):
    """A URL gives more bytes than the file can have."""


def fetch(
    urls: Sequence[str],
    name: str,
    folder: Path,
    check: Check,
    on_progress: OnProgress | None = None,
    *,
    limit: int | None = None,
) -> Path:
    """Download a file to ``folder / name`` from the first URL that gives it complete.

    Received bytes are kept in ``name.part``; the next connection, URL and call continue from them.
    The file is renamed to ``name`` once ``check`` has passed.

    Args:
        urls: tried in this order; ``hf://datasets/OWNER/NAME@REVISION/PATH`` is a file on the
            Hugging Face hub, to which ``HF_ENDPOINT`` and ``HF_TOKEN`` apply.
        name: file name in ``folder``.
        folder: created where it does not exist.
        check: check that the file must pass.
        on_progress: called with the name of the file and the number of bytes.
        limit: most bytes; a longer file is another one and is not downloaded.

    Raises:
        FetchError: no URL gave the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    part, attempts = folder / f"{name}.part", list[str]()
    report = no_progress if on_progress is None else on_progress

    def received(done: int, total: int | None) -> None:
        if limit is not None and max(done, total or 0) > limit:
            raise _TooLongError(f"has more than {limit:,} bytes")
        report(name, done, total)

    for url in urls:
        for _ in range(TRIES):
            before = _size(part)
            try:
                _download(url, part, received)
            except _TooLongError as error:
                attempts.append(f"{url} ({error})")
                part.unlink(missing_ok=True)
                break
            except (OSError, HTTPException) as error:
                attempts.append(f"{url} ({_reason(error)})")
                if _size(part) > before:
                    continue
                break
            report(f"verifying {name}", 0, None)
            try:
                check(part)
            except ValueError as error:
                attempts.append(f"{url} ({error})")
                part.unlink()
                if before:  # the bytes of an earlier call may be wrong: start again
                    continue
                break
            os.replace(part, folder / name)
            return folder / name
    raise FetchError(
        f"Could not download {name}. Tried: {'; '.join(attempts)}. Repeat the command to continue "
        f"from the bytes received, or, without network access, place {name} in {folder}.",
        attempts,
    )


def from_mirrors(mirrors: Sequence[str], name: str) -> list[str]:
    """URLs of a file below several base URLs.

    Example:
        >>> from_mirrors(["http://a.org/data/"], "x.gz")
        ['http://a.org/data/x.gz']

    Raises:
        ValueError: a base URL has another scheme than http, https or hf, such as ``file``.
    """
    check_mirrors(mirrors)
    return [f"{mirror.rstrip('/')}/{name}" for mirror in mirrors]


def check_mirrors(mirrors: Sequence[str]) -> None:
    """Raise ``ValueError`` unless all base URLs are of http, https or the Hugging Face hub."""
    for mirror in mirrors:
        if not mirror.lower().startswith(SCHEMES):
            raise ValueError(
                f"A mirror must be a URL that starts with {', '.join(SCHEMES)}, got '{mirror}'. "
                "Files on this machine: --data-dir FOLDER."
            )


def check_digest(path: Path, algorithm: str, expected: str) -> None:
    """Raise ``ValueError`` unless a file has this ``md5`` or ``sha256``, in hexadecimal digits."""
    state = hashlib.new(algorithm, usedforsecurity=False)
    with open(path, "rb") as file:
        while piece := file.read(CHUNK):
            state.update(piece)
    actual = state.hexdigest()
    if actual != expected:
        raise ValueError(f"its {algorithm} is {actual}, not {expected}")


def _download(url: str, part: Path, report: Callable[[int, int | None], None]) -> None:
    """Append the missing bytes to ``part``, or start again where the server has no ranges."""
    have = _size(part)
    request = Request(_address(url), headers={"User-Agent": "riskmatch"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    if HUB.fullmatch(url) and (token := os.environ.get("HF_TOKEN")):
        request.add_unredirected_header("Authorization", f"Bearer {token}")  # not to other hosts
    try:
        opened = urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and have:  # no bytes follow: the part is complete, or wrong
            return
        raise
    with cast(HTTPResponse, opened) as response:
        page = response.peek(512).lstrip().lower().startswith((b"<!doctype", b"<html"))
        if response.status == 200 and page:  # such as that of a quota that is exceeded
            raise ConnectionError("a web page, not the file")
        start, total = _range(response, have)
        with open(part, "ab" if start else "wb") as file:
            done = start
            report(done, total)
            while piece := response.read1(CHUNK):
                file.write(piece)
                done += len(piece)
                report(done, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and done < total:
        raise ConnectionError(f"ended after {done:,} of {total:,} bytes")


def _address(url: str) -> str:
    """The address of a file; of the hub that to which ``HF_ENDPOINT`` applies."""
    if not (hub := HUB.fullmatch(url)):
        return url
    base = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    return f"{base}/datasets/{hub[1]}/resolve/{hub[2]}/{hub[3]}"


def _range(response: HTTPResponse, have: int) -> tuple[int, int | None]:
    """Offset of the first byte of the response, and the file's size where it is stated."""
    stated = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if response.status == 206 and stated and int(stated[1]) == have:
        return have, None if stated[2] == "*" else int(stated[2])
    if response.status != 200:
        raise ConnectionError(f"answered {response.status} with an unrequested range")
    length = response.headers.get("Content-Length")
    return 0, int(length) if length else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"{error.code} {error.reason}"
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no data for {TIMEOUT:g} s"
    return " ".join(str(cause).split()) or type(cause).__name__
