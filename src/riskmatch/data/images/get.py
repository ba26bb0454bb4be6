"""Download or unpack an image benchmark; its folder appears only once it is complete."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from riskmatch.data import OnProgress
from riskmatch.data.fetch import TIMEOUT, FetchError, fetch, fetch_from_hub, from_mirrors
from riskmatch.data.folders import cache_folder, data_folders
from riskmatch.data.images.archives import archive_stem
from riskmatch.data.images.benchmark import (
    Benchmark,
    Download,
    HubFile,
    Origin,
    check_counts,
    find_benchmark,
    find_tree,
    has_domains,
    index_benchmark,
    layout,
    missing_domains,
)
from riskmatch.data.images.layouts import Convert, unpack
from riskmatch.files import file_lock


def get_benchmark(
    benchmark: Benchmark,
    folder: Path | None = None,
    *,
    mirrors: Sequence[str] = (),
    timeout: float = TIMEOUT,
    on_progress: OnProgress | None = None,
) -> Path:
    """Make a benchmark available; returns the folder of its domains, with verified counts.

    An archive on this machine is unpacked and kept. Otherwise the files of each origin are
    downloaded in turn until one gives the published number of images; they are then removed.

    Args:
        benchmark: one of :data:`~riskmatch.data.images.benchmarks.BENCHMARKS`.
        folder: target; by default a folder of its name in the cache.
        mirrors: base URLs of the files, instead of the benchmark's own.
        timeout: seconds without data before a connection is given up.
        on_progress: called with the bytes downloaded and unpacked.

    Raises:
        FetchError: no origin gave the benchmark; the next call continues from the bytes received.
        ValueError: the folder holds only part of the benchmark, or a different number of images.
    """
    existing = find_benchmark(benchmark) if folder is None else None
    folder = existing or folder or cache_folder() / benchmark.name
    missing = missing_domains(benchmark, folder)
    if not missing:
        return _verified(benchmark, folder)
    if len(missing) < len(benchmark.parts):
        raise ValueError(f"{folder} lacks {', '.join(missing)}: complete it, or move it away.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    searched = tuple(dict.fromkeys((folder, folder.parent, *data_folders())))
    store = folder.parent / f"{benchmark.name}.download"
    attempts = list[str]()
    for archive in _archives(benchmark, searched):
        for origin in _as_origins(benchmark, archive):
            try:
                return _install(benchmark, origin, {archive.name: archive}, folder, on_progress)
            except ValueError as error:
                attempts.append(str(error))
    for origin in benchmark.origins:
        try:
            files = _files(origin, (*searched, store), store, mirrors, timeout, on_progress)
            _install(benchmark, origin, files, folder, on_progress)
        except FetchError as error:
            attempts += error.attempts
        except ValueError as error:
            attempts.append(str(error))
            for file in origin.files:  # or the next call would use them again
                (store / file.name).unlink(missing_ok=True)
        else:
            shutil.rmtree(store, ignore_errors=True)
            return folder
    with suppress(OSError):
        store.rmdir()  # where nothing was received
    raise FetchError(_failure(benchmark, folder, attempts), attempts)


def _verified(benchmark: Benchmark, folder: Path) -> Path:
    try:
        check_counts(benchmark, index_benchmark(benchmark, folder))
    except ValueError as error:
        raise ValueError(
            f"{folder} differs from {benchmark.title} as published: {error}. Use it as it is, or "
            f"move it away and repeat `riskmatch data get {benchmark.name}`."
        ) from error
    return folder


def _archives(benchmark: Benchmark, folders: Sequence[Path]) -> list[Path]:
    """Archives on this machine that have a name of the benchmark."""
    return [
        path
        for folder in folders
        if folder.is_dir()
        for path in sorted(folder.iterdir())
        if path.is_file() and benchmark.matches(archive_stem(path.name) or "")
    ]


def _as_origins(benchmark: Benchmark, archive: Path) -> list[Origin]:
    """Origins that an archive may stand for: the plain layout, or that of a published archive."""
    files = (Download(archive.name, ()),)
    origins: dict[Convert, Origin] = {unpack: Origin(files)}
    for origin in benchmark.origins:
        if len(origin.files) == 1 and archive_stem(origin.files[0].name):
            origins.setdefault(origin.convert, replace(origin, files=files))
    return list(origins.values())


def _files(
    origin: Origin,
    folders: Sequence[Path],
    store: Path,
    mirrors: Sequence[str],
    timeout: float,
    on_progress: OnProgress | None,
) -> dict[str, Path]:
    """The files of an origin by name; those that are not on this machine are downloaded."""
    if origin.package is not None:
        _check_installed(origin.files[0], origin.package, origin.extra)

    def download(file: Download) -> Path:
        target = (file.name, store, file.check)
        urls = from_mirrors(mirrors, file.name)
        if isinstance(file.source, HubFile) and not urls:
            hub = file.source
            _check_installed(file, "huggingface_hub", "images")
            return fetch_from_hub(
                hub.repository,
                hub.path,
                hub.revision,
                *target,
                timeout=timeout,
                on_progress=on_progress,
            )
        if not isinstance(file.source, HubFile):
            urls = urls or list(file.source)
        return fetch(urls, *target, timeout=timeout, on_progress=on_progress)

    return {
        file.name: _local_file(file, folders, on_progress) or download(file)
        for file in origin.files
    }


def _check_installed(file: Download, package: str, extra: str | None) -> None:
    if find_spec(package) is None:
        needs = f"{file.name} (it needs {package}: pip install 'riskmatch[{extra}]')"
        raise FetchError(needs, [needs])


def _local_file(
    file: Download, folders: Sequence[Path], on_progress: OnProgress | None
) -> Path | None:
    for path in (folder / file.name for folder in folders):
        if path.is_file():
            if on_progress is not None:
                on_progress(f"verifying {file.name}", 0, None)
            try:
                file.check(path)
            except ValueError:  # another version, or damaged: download it instead
                continue
            return path
    return None


def _install(
    benchmark: Benchmark,
    origin: Origin,
    files: Mapping[str, Path],
    folder: Path,
    on_progress: OnProgress | None,
) -> Path:
    """Unpack beside the folder, verify the counts, then rename; returns the folder.

    A number of images other than the published one is an error, unless checksums show that the
    files are intact. Other processes that install into the same folder wait.

    Raises:
        ValueError: the files do not hold the benchmark.
    """
    sources = ", ".join(map(str, files.values()))
    with _work_folder(folder, on_progress) as work:
        if has_domains(benchmark, folder):  # another process has finished in the meantime
            return folder
        origin.convert(files, work, on_progress)
        tree = find_tree(benchmark, work)
        if tree is None:
            raise ValueError(f"{sources} (no folders {layout(benchmark)} in it)")
        try:
            check_counts(benchmark, index_benchmark(benchmark, tree))
        except ValueError as error:
            if not origin.has_checksums:
                raise ValueError(f"{sources} ({error})") from error
            warnings.warn(
                f"{benchmark.title}: {error}. The files have their published checksums, so the "
                "images are used as they are.",
                stacklevel=3,
            )
        _move_domains(benchmark, tree, folder)
    if origin.caution:
        warnings.warn(f"{benchmark.title}: {origin.caution}.", stacklevel=3)
    return folder


def _move_domains(benchmark: Benchmark, tree: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(tree, folder)
        return
    for child in tree.iterdir():  # the folder is empty, or holds the archive
        if any(part.matches(child.name) for part in benchmark.parts):
            os.replace(child, folder / child.name)


@contextmanager
def _work_folder(folder: Path, on_progress: OnProgress | None) -> Iterator[Path]:
    """An empty folder beside ``folder``, used by one process at a time.

    Files that a killed process left there are removed first.
    """

    def waiting() -> None:
        if on_progress is not None:
            on_progress("waiting for another process", 0, None)

    work = folder.with_name(f".{folder.name}.unpacking")
    with file_lock(folder.with_name(f".{folder.name}.lock"), waiting):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _failure(benchmark: Benchmark, folder: Path, attempts: Sequence[str]) -> str:
    file_sets = "; or ".join(
        ", ".join(file.name for file in origin.files) for origin in benchmark.origins
    )
    return (
        f"Could not get {benchmark.title}. Tried: {'; '.join(attempts)}. Repeat the command to "
        f"continue from the bytes received. Without network access, place in {folder.parent} an "
        f"archive of the images called {benchmark.name}.tar, .tar.gz or .zip, or the files "
        f"{file_sets}; or place the images as {folder}/{layout(benchmark)}. See {benchmark.page}"
    )
