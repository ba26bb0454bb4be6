"""A benchmark of images, fetched or unpacked: whole in its folder, or not there at all."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from riskmatch.data.fetch import TIMEOUT, FetchError, fetch_from
from riskmatch.data.images.archives import stem
from riskmatch.data.images.benchmark import Benchmark, Download, Origin, Prepare, unpack
from riskmatch.data.images.locate import (
    check_counts,
    find_benchmark,
    index_benchmark,
    layout,
    missing_domains,
)
from riskmatch.data.images.prepared import prepared
from riskmatch.data.places import bases, cache_folder
from riskmatch.data.progress import OnProgress


def get_benchmark(
    benchmark: Benchmark,
    folder: Path | None = None,
    *,
    mirrors: Sequence[str] = (),
    timeout: float = TIMEOUT,
    on_progress: OnProgress | None = None,
) -> Path:
    """Have a benchmark on this machine; returns the folder of its domains, counts verified.

    An archive that is here already is unpacked and left where it is. Otherwise the files of each
    origin are fetched in turn, until one gives the images in the published numbers; what was
    fetched is then removed.

    Args:
        benchmark: one of :data:`~riskmatch.data.images.benchmarks.BENCHMARKS`.
        folder: where to; a folder of its name in the cache, where nothing is said.
        mirrors: URLs of folders with the files, instead of the benchmark's own.
        timeout: seconds without a byte before a connection is given up.
        on_progress: told of what is fetched and unpacked, in bytes.

    Raises:
        FetchError: it could not be had; what has arrived is kept, and the next call goes on.
        ValueError: it is in the folder already, in part or with other images than were published.
    """
    found = find_benchmark(benchmark) if folder is None else None
    folder = found or folder or cache_folder() / benchmark.name
    missing = missing_domains(benchmark, folder)
    if not missing:
        return _verified(benchmark, folder)
    if len(missing) < len(benchmark.parts):
        raise ValueError(f"{folder} lacks {', '.join(missing)}: complete it, or move it away.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    near = tuple(dict.fromkeys((folder, folder.parent, *bases())))
    store = folder.parent / f"{benchmark.name}.download"
    tried = list[str]()
    for archive in _archives(benchmark, near):
        for way in _ways(benchmark, archive):
            try:
                return prepared(benchmark, way, {archive.name: archive}, folder, on_progress)
            except ValueError as error:
                tried.append(str(error))
    for origin in benchmark.origins:
        try:
            files = _files(origin, (*near, store), store, mirrors, timeout, on_progress)
            prepared(benchmark, origin, files, folder, on_progress)
        except FetchError as error:
            tried += error.tried
        except ValueError as error:
            tried.append(str(error))
            for file in origin.files:  # lest the next call take what did not give the benchmark
                (store / file.name).unlink(missing_ok=True)
        else:
            shutil.rmtree(store, ignore_errors=True)
            return folder
    with suppress(OSError):
        store.rmdir()  # where nothing has arrived
    raise FetchError(_failure(benchmark, folder, tried), tried)


def _verified(benchmark: Benchmark, folder: Path) -> Path:
    try:
        check_counts(benchmark, index_benchmark(benchmark, folder))
    except ValueError as error:
        raise ValueError(
            f"{folder} is not {benchmark.title} as published: {error}. Use it as it is, or move "
            f"it away to get {benchmark.name} anew."
        ) from error
    return folder


def _archives(benchmark: Benchmark, near: Sequence[Path]) -> list[Path]:
    """The archives on this machine that are called as the benchmark is."""
    return [
        path
        for place in near
        if place.is_dir()
        for path in sorted(place.iterdir())
        if path.is_file() and benchmark.is_called(stem(path.name) or "")
    ]


def _ways(benchmark: Benchmark, archive: Path) -> list[Origin]:
    """An archive taken as holding the images as they should lie, or as an origin's archive does."""
    files = (Download(archive.name, ()),)
    ways: dict[Prepare, Origin] = {unpack: Origin(files)}
    for origin in benchmark.origins:
        if len(origin.files) == 1 and stem(origin.files[0].name):
            ways.setdefault(origin.prepare, replace(origin, files=files))
    return list(ways.values())


def _files(
    origin: Origin,
    near: Sequence[Path],
    store: Path,
    mirrors: Sequence[str],
    timeout: float,
    on_progress: OnProgress | None,
) -> dict[str, Path]:
    """The files of an origin by name: those that are here, and the others, fetched."""
    if origin.package is not None and find_spec(origin.package) is None:
        cure = f"pip install 'riskmatch[{origin.extra}]'"
        needs = f"{origin.files[0].name} (it needs {origin.package}: {cure})"
        raise FetchError(needs, [needs])
    return {
        file.name: _here(file, near, on_progress)
        or fetch_from(
            [f"{mirror.rstrip('/')}/{file.name}" for mirror in mirrors] or file.urls,
            file.name,
            store,
            file.check,
            timeout=timeout,
            on_progress=on_progress,
        )
        for file in origin.files
    }


def _here(file: Download, near: Sequence[Path], on_progress: OnProgress | None) -> Path | None:
    for path in (place / file.name for place in near):
        if path.is_file():
            if on_progress is not None:
                on_progress(f"verifying {file.name}", 0, None)
            try:
                file.check(path)
            except ValueError:  # of another issue, or damaged: it can be fetched
                continue
            return path
    return None


def _failure(benchmark: Benchmark, folder: Path, tried: Sequence[str]) -> str:
    sets = "; or ".join(
        ", ".join(file.name for file in origin.files) for origin in benchmark.origins
    )
    return (
        f"Could not get {benchmark.title}. Tried: {'; '.join(tried)}. Call again to go on from "
        f"what has arrived. Where the network is closed, place in {folder.parent} an archive of "
        f"the images called {benchmark.name}.tar, .tar.gz or .zip, or the files {sets}; or place "
        f"the images as {folder}/{layout(benchmark)}. See {benchmark.page}"
    )
