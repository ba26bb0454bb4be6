"""A benchmark of images, fetched or unpacked: whole in its folder, or not there at all."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from riskmatch.data.fetch import TIMEOUT, FetchError, OnProgress, fetch_from
from riskmatch.data.images.archives import stem
from riskmatch.data.images.benchmark import Benchmark, Download, Origin
from riskmatch.data.images.locate import (
    check_counts,
    find_benchmark,
    find_tree,
    index_benchmark,
    layout,
    missing_domains,
)
from riskmatch.data.places import bases, cache_folder


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
        on_progress: told of every piece.

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
        try:
            own = Origin((Download(archive.name, ()),))
            return _prepared(benchmark, own, {archive.name: archive}, folder)
        except ValueError as error:
            tried.append(str(error))
    for origin in benchmark.origins:
        try:
            files = _files(origin, (*near, store), store, mirrors, timeout, on_progress)
            _prepared(benchmark, origin, files, folder)
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
        file.name: _here(file, near)
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


def _here(file: Download, near: Sequence[Path]) -> Path | None:
    for path in (place / file.name for place in near):
        if path.is_file():
            try:
                file.check(path)
            except ValueError:  # of another issue, or damaged: it can be fetched
                continue
            return path
    return None


def _prepared(
    benchmark: Benchmark, origin: Origin, files: Mapping[str, Path], folder: Path
) -> Path:
    """Unpack beside the folder, verify, then rename: it appears whole.

    Other numbers than the published are refused, unless checksums say that nothing was damaged.
    """
    used = ", ".join(map(str, files.values()))
    with TemporaryDirectory(prefix=f".{benchmark.name}-", dir=folder.parent) as work:
        origin.prepare(files, Path(work, "tree"))
        tree = find_tree(benchmark, Path(work, "tree"))
        if tree is None:
            raise ValueError(f"{used} (no folders {layout(benchmark)} in it)")
        try:
            check_counts(benchmark, index_benchmark(benchmark, tree))
        except ValueError as error:
            if not origin.has_checksums:
                raise ValueError(f"{used} ({error})") from error
            warnings.warn(
                f"{benchmark.title}: {error}. The files have their published checksums, so the "
                f"images are kept as they are.",
                stacklevel=3,
            )
        _place(benchmark, tree, folder)
    return folder


def _place(benchmark: Benchmark, tree: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(tree, folder)
        return
    if not missing_domains(benchmark, folder):  # another process was faster
        return
    for child in tree.iterdir():  # the folder is empty, or the archive lies in it
        if any(part.is_called(child.name) for part in benchmark.parts):
            os.replace(child, folder / child.name)


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
