"""Resumable downloads; a file appears only once it is complete and verified."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from riskmatch.data import OnProgress

TIMEOUT = 20.0
"""Seconds without data after which a connection has stalled."""
TRIES = 5
"""Connections to one URL, as long as each brings new bytes."""
CHUNK = 1 << 16

Check = Callable[[Path], None]
"""Raises ``ValueError`` with the reason where a file is not the expected one."""


class FetchError(OSError):
    """No URL gave the file; the message lists the attempts and the alternatives."""

    def __init__(self, message: str, attempts: Sequence[str]) -> None:
        super().__init__(message)
        self.attempts = tuple(attempts)
        """Each attempt with the reason of its failure."""


def fetch(
    urls: Sequence[str],
    name: str,
    folder: Path,
    check: Check,
    *,
    timeout: float = TIMEOUT,
    on_progress: OnProgress | None = None,
) -> Path:
    """Download a file to ``folder / name`` from the first URL that gives it complete.

    Received bytes are kept in ``name.part``; the next connection, URL and call continue from them.
    The file is renamed to ``name`` once ``check`` has passed.

    Args:
        urls: tried in this order.
        name: file name in ``folder``.
        folder: created where it does not exist.
        check: check that the file must pass.
        timeout: seconds without data before a connection is given up.
        on_progress: called with the name of the file and the number of bytes.

    Raises:
        FetchError: no URL gave the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    part, attempts = folder / f"{name}.part", list[str]()

    def report(done: int, total: int | None) -> None:
        if on_progress is not None:
            on_progress(name, done, total)

    for url in urls:
        for _ in range(TRIES):
            before = _size(part)
            try:
                _download(url, part, timeout, report)
            except (OSError, HTTPException) as error:
                attempts.append(f"{url} ({_reason(error, timeout)})")
                if _size(part) > before:
                    continue
                break
            if on_progress is not None:
                on_progress(f"verifying {name}", 0, None)
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


def fetch_from_hub(
    repository: str,
    path: str,
    revision: str,
    name: str,
    folder: Path,
    check: Check,
    *,
    timeout: float = TIMEOUT,
    on_progress: OnProgress | None = None,
) -> Path:
    """Download a file of a data set on the Hugging Face hub to ``folder / name``.

    An interrupted download continues with the next call. ``HF_ENDPOINT`` and ``HF_TOKEN`` apply.

    Args:
        repository: data set on the hub, as ``owner/name``.
        path: path of the file in the repository.
        revision: commit or branch.
        name: file name in ``folder``.
        folder: created where it does not exist.
        check: check that the file must pass.
        timeout: seconds to wait for the hub's answer.
        on_progress: called with the name of the file and the number of bytes.

    Raises:
        FetchError: the hub did not give the file.
    """
    from huggingface_hub import hf_hub_download

    source, store = f"hub {repository}/{path}", folder / f"{name}.hub"
    try:
        file = hf_hub_download(
            repository,
            path,
            repo_type="dataset",
            revision=revision,
            local_dir=store,
            etag_timeout=timeout,
            endpoint=os.environ.get("HF_ENDPOINT"),
            tqdm_class=_progress_bar(name, on_progress),
        )
    except OSError as error:  # every error of the hub is one
        attempt = f"{source} ({' '.join(str(error).split())})"
        raise FetchError(f"Could not download {name}. Tried: {attempt}.", [attempt]) from error
    if on_progress is not None:
        on_progress(f"verifying {name}", 0, None)
    try:
        check(Path(file))
        os.replace(file, folder / name)
    except ValueError as error:
        attempt = f"{source} ({error})"
        raise FetchError(f"Could not download {name}. Tried: {attempt}.", [attempt]) from error
    finally:
        shutil.rmtree(store, ignore_errors=True)
    return folder / name


def _progress_bar(name: str, on_progress: OnProgress | None) -> type[Any]:
    """A class of tqdm that calls ``on_progress`` and prints nothing."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    class ProgressBar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            self._done, self._total = options.get("initial") or 0, options.get("total")
            super().__init__(*args, **{**options, "disable": True})

        def update(self, n: float | None = 1) -> None:
            self._done += n or 0
            if on_progress is not None:
                on_progress(name, int(self._done), self._total)

    return ProgressBar


def from_mirrors(mirrors: Sequence[str], name: str) -> list[str]:
    """URLs of a file below several base URLs.

    Example:
        >>> from_mirrors(["http://a.org/data/"], "x.gz")
        ['http://a.org/data/x.gz']
    """
    return [f"{mirror.rstrip('/')}/{name}" for mirror in mirrors]


def digest(algorithm: str, expected: str) -> Check:
    """A check that a file has this ``md5`` or ``sha256``, in hexadecimal digits."""

    def check(path: Path) -> None:
        state = hashlib.new(algorithm, usedforsecurity=False)
        with open(path, "rb") as file:
            while piece := file.read(CHUNK):
                state.update(piece)
        actual = state.hexdigest()
        if actual != expected:
            raise ValueError(f"its {algorithm} is {actual}, not {expected}")

    return check


def _download(
    url: str, part: Path, timeout: float, report: Callable[[int, int | None], None]
) -> None:
    """Append the missing bytes to ``part``, or start again where the server has no ranges."""
    have = _size(part)
    headers = {"User-Agent": "riskmatch", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        opened = urlopen(Request(url, headers=headers), timeout=timeout)
    except HTTPError as error:
        error.close()
        if error.code == 416 and have:  # no bytes follow: the part is complete, or wrong
            return
        raise
    with cast(HTTPResponse, opened) as response:
        if response.status == 200 and _is_web_page(response.peek(512)):
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


def _is_web_page(start: bytes) -> bool:
    """Whether content is HTML, such as the page that hosts send when a quota is exceeded."""
    return start.lstrip().lower().startswith((b"<!doctype", b"<html"))


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


def _reason(error: Exception, timeout: float) -> str:
    if isinstance(error, HTTPError):
        return f"{error.code} {error.reason}"
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no data for {timeout:g} s"
    return str(cause) or type(cause).__name__
