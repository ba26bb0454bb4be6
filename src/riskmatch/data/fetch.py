"""Downloads that are whole and verified, or not there at all."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import cast
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from riskmatch.data.page import START, is_page, linked_file
from riskmatch.data.progress import OnProgress

TIMEOUT = 20.0
"""Seconds without a byte after which a mirror has stalled."""
TRIES = 5
"""Connections to one mirror, as long as each brings something new."""
CHUNK = 1 << 16
LONGEST_PAGE = 1 << 20
"""Bytes of a web page that are searched for a link to the file."""

Check = Callable[[Path], None]
"""Raises ``ValueError`` with the reason where a file is not what it should be."""


class FetchError(OSError):
    """No mirror gave the file; the message says what was tried and what else would help."""

    def __init__(self, message: str, tried: Sequence[str]) -> None:
        super().__init__(message)
        self.tried = tuple(tried)
        """Each attempt, and why it failed."""


def fetch(
    name: str,
    folder: Path,
    mirrors: Sequence[str],
    check: Check,
    *,
    timeout: float = TIMEOUT,
    on_progress: OnProgress | None = None,
) -> Path:
    """Download ``name`` into ``folder`` from the first mirror that gives it whole.

    Args:
        name: of the file, in the folder and under each mirror.
        folder: made where it does not exist.
        mirrors: URLs of folders that hold the file, tried in this order.
        check: what the file must pass.
        timeout: seconds without a byte before a connection is given up.
        on_progress: told the name of the file with every piece, in bytes.

    Raises:
        FetchError: no mirror gave the file.
    """
    urls = [f"{mirror.rstrip('/')}/{name}" for mirror in mirrors]
    return fetch_from(urls, name, folder, check, timeout=timeout, on_progress=on_progress)


def fetch_from(
    urls: Sequence[str],
    name: str,
    folder: Path,
    check: Check,
    *,
    timeout: float = TIMEOUT,
    on_progress: OnProgress | None = None,
) -> Path:
    """Download the file at the first of ``urls`` that gives it whole into ``folder / name``.

    What has arrived is kept in ``name.part``, from which the next connection, the next URL and the
    next call go on. The file gets its name once ``check`` has passed. A URL may lead to a page
    with a download button, which is followed.

    Raises:
        FetchError: no URL gave the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    part, tried = folder / f"{name}.part", list[str]()

    def report(done: int, total: int | None) -> None:
        if on_progress is not None:
            on_progress(name, done, total)

    for url in urls:
        for _ in range(TRIES):
            before = _size(part)
            try:
                _download(url, part, timeout, report)
            except (OSError, HTTPException) as error:
                tried.append(f"{url} ({_reason(error, timeout)})")
                if _size(part) > before:
                    continue
                break
            if on_progress is not None:
                on_progress(f"verifying {name}", 0, None)
            try:
                check(part)
            except ValueError as error:
                tried.append(f"{url} ({error})")
                part.unlink()
                if before:  # the older bytes may be to blame
                    continue
                break
            os.replace(part, folder / name)
            return folder / name
    raise FetchError(
        f"Could not fetch {name}. Tried: {'; '.join(tried)}. Call again to go on from what has "
        f"arrived, or, where the network is closed, place {name} in {folder}.",
        tried,
    )


def digest(algorithm: str, expected: str) -> Check:
    """The check that a file has this ``md5`` or ``sha256``, in hexadecimal digits."""

    def check(path: Path) -> None:
        state = hashlib.new(algorithm, usedforsecurity=False)
        with open(path, "rb") as file:
            while piece := file.read(CHUNK):
                state.update(piece)
        found = state.hexdigest()
        if found != expected:
            raise ValueError(f"its {algorithm} is {found}, not {expected}")

    return check


def _download(
    url: str,
    part: Path,
    timeout: float,
    report: Callable[[int, int | None], None],
    *,
    pages: int = 1,
) -> None:
    """Add to ``part`` what it lacks, or begin anew where the server cannot go on in the middle.

    Where a page with a download button comes instead of the file, as many ``pages`` are followed.
    """
    have = _size(part)
    headers = {"User-Agent": "riskmatch", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        opened = urlopen(Request(url, headers=headers), timeout=timeout)
    except HTTPError as error:
        error.close()
        if error.code == 416 and have:  # nothing follows: the part is whole, or it is wrong
            return
        raise
    with cast(HTTPResponse, opened) as response:
        if response.status == 200 and is_page(response.peek(START)):
            page = response.read(LONGEST_PAGE).decode("utf-8", errors="replace")
            link = linked_file(page, url) if pages else None
            if link is None:
                raise ConnectionError("a web page, not the file")
            return _download(link, part, timeout, report, pages=pages - 1)
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


def _range(response: HTTPResponse, have: int) -> tuple[int, int | None]:
    """Where the answer begins, and the size of the whole file where the server says it."""
    said = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if response.status == 206 and said and int(said[1]) == have:
        return have, None if said[2] == "*" else int(said[2])
    if response.status != 200:
        raise ConnectionError(f"answered {response.status} with a part that was not asked for")
    length = response.headers.get("Content-Length")
    return 0, int(length) if length else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: Exception, timeout: float) -> str:
    if isinstance(error, HTTPError):
        return f"{error.code} {error.reason}"
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"silent for {timeout:g} s"
    return str(cause) or type(cause).__name__
