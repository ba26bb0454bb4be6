"""Download or unpack an image benchmark; its folder appears only once it is complete."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from riskmatch.data import OnProgress, no_progress
from riskmatch.data.fetch import FetchError, data_folders, fetch, from_mirrors
from riskmatch.data.images.archives import CONVERTERS, Unpacker
from riskmatch.data.images.benchmark import (
    Benchmark,
    Download,
    Origin,
    archive_stem,
    check_counts,
    find_benchmark,
    find_tree,
    index_benchmark,
    layout,
    missing_domains,
)
from riskmatch.files import file_lock, user_folder

MARGIN = 3
"""Most bytes and files of a download, and of what it unpacks to, relative to the benchmark's."""


def get_benchmark(
    benchmark: Benchmark,
    folder: Path | None = None,
    *,
    mirrors: Sequence[str] = (),
    on_progress: OnProgress | None = None,
) -> Path:
    """Make a benchmark available; returns the folder of its domains, with verified counts.

    An archive on this machine is unpacked and kept. Otherwise the files of each origin are
    downloaded in turn until one gives the published number of images; they are then removed.

    Args:
        benchmark: one of :data:`~riskmatch.data.images.benchmark.BENCHMARKS`.
        folder: target; by default a folder of its name in the cache.
        mirrors: base URLs of the files, instead of the benchmark's own.
        on_progress: called with the bytes downloaded and unpacked.

    Raises:
        FetchError: no origin gave the benchmark; the next call continues from the bytes received.
        ValueError: the folder holds only part of the benchmark, or a different number of images.
    """
    existing = find_benchmark(benchmark) if folder is None else None
    folder = existing or folder or user_folder("cache") / benchmark.name
    missing = missing_domains(benchmark, folder)
    if not missing:
        return _verified(benchmark, folder)
    if len(missing) < len(benchmark.parts):
        raise ValueError(f"{folder} lacks {', '.join(missing)}: complete it, or move it away.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    searched = tuple(dict.fromkeys((folder, folder.parent, *data_folders())))
    store = folder.parent / f"{benchmark.name}.download"
    report = no_progress if on_progress is None else on_progress
    attempts = list[str]()
    for origin, files in _origins(benchmark, searched):
        try:
            for file in origin.files:
                files[file.name] = _file(benchmark, file, searched, store, mirrors, report)
            _install(benchmark, origin, files, folder, report)
        except FetchError as error:
            attempts += error.attempts
        except ValueError as error:
            attempts.append(str(error))
            for file in origin.files:  # or the next call would use them again
                (store / file.name).unlink(missing_ok=True)
        else:
            _remove_downloads(benchmark, store)
            return folder
    with suppress(OSError):
        store.rmdir()  # where nothing was received
    raise FetchError(_failure(benchmark, folder, attempts), attempts)


def _remove_downloads(benchmark: Benchmark, store: Path) -> None:
    """Remove what was downloaded; other files stay."""
    for file in (file for origin in benchmark.origins for file in origin.files):
        for name in (file.name, f"{file.name}.part"):
            (store / name).unlink(missing_ok=True)
    with suppress(OSError):
        store.rmdir()


def _verified(benchmark: Benchmark, folder: Path) -> Path:
    try:
        check_counts(benchmark, index_benchmark(benchmark, folder))
    except ValueError as error:
        raise ValueError(
            f"{folder} differs from {benchmark.title} as published: {error}. Use it as it is, or "
            f"move it away and repeat `riskmatch data get {benchmark.name}`."
        ) from error
    return folder


def _origins(
    benchmark: Benchmark, folders: Sequence[Path]
) -> Iterator[tuple[Origin, dict[str, Path]]]:
    """Archives on this machine that have a name of the benchmark, then the published origins.

    An archive has the plain layout, or that of a published archive.
    """
    published = {"unpack": Origin(())}
    for origin in benchmark.origins:
        if len(origin.files) == 1 and archive_stem(origin.files[0].name):
            published.setdefault(origin.convert, replace(origin, files=()))
    existing = [folder for folder in folders if folder.is_dir()]
    for path in (path for folder in existing for path in sorted(folder.iterdir())):
        if benchmark.matches(archive_stem(path.name) or "") and path.is_file():
            yield from ((origin, {path.name: path}) for origin in published.values())
    yield from ((origin, {}) for origin in benchmark.origins)


def _file(
    benchmark: Benchmark,
    file: Download,
    folders: Sequence[Path],
    store: Path,
    mirrors: Sequence[str],
    on_progress: OnProgress,
) -> Path:
    """The file, intact, in one of the folders; else downloaded to ``store``."""
    if file.is_parquet and find_spec("pyarrow") is None:
        cure = f"{file.name} (it needs pyarrow: pip install 'riskmatch[parquet]')"
        raise FetchError(cure, [cure])
    for path in (folder / file.name for folder in (*folders, store)):
        if path.is_file():
            on_progress(f"verifying {file.name}", 0, None)
            with suppress(ValueError):  # another version, or damaged: download it instead
                file.check(path)
                return path
    urls = from_mirrors(mirrors, file.name) or file.urls
    most = MARGIN * benchmark.megabytes * 10**6
    return fetch(urls, file.name, store, file.check, on_progress, limit=most)


def _install(
    benchmark: Benchmark,
    origin: Origin,
    files: Mapping[str, Path],
    folder: Path,
    on_progress: OnProgress,
) -> None:
    """Unpack beside the folder, verify the counts, then rename.

    A number of images other than the published one is an error, unless checksums show that the
    files are intact. Other processes that install into the same folder wait.

    Raises:
        ValueError: the files do not hold the benchmark.
    """
    sources = ", ".join(map(str, files.values()))
    with _work_folder(folder, on_progress) as work:
        if not missing_domains(benchmark, folder):  # another process has finished in the meantime
            return
        images = max(benchmark.images, benchmark.reissued or 0)
        most = MARGIN * benchmark.megabytes * 10**6
        unpacker = Unpacker(work, on_progress, most, MARGIN * images)
        CONVERTERS[origin.convert](files, unpacker)
        tree = find_tree(benchmark, work)
        if tree is None:
            raise ValueError(f"{sources} (no folders {layout(benchmark)} in it)")
        try:
            check_counts(benchmark, index_benchmark(benchmark, tree))
        except ValueError as error:
            archives = [file for file in origin.files if not file.name.endswith(".txt")]
            if not archives or not all(file.checksum for file in archives):
                raise ValueError(f"{sources} ({error})") from error
            warnings.warn(
                f"{benchmark.title}: {error}. The files have their published checksums, so the "
                "images are used as they are.",
                stacklevel=3,
            )
        _move_domains(benchmark, tree, folder)
    if origin.caution:
        warnings.warn(f"{benchmark.title}: {origin.caution}.", stacklevel=3)


def _move_domains(benchmark: Benchmark, tree: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(tree, folder)
        return
    for child in tree.iterdir():  # the folder is empty, or holds the archive
        if any(part.matches(child.name) for part in benchmark.parts):
            os.replace(child, folder / child.name)


@contextmanager
def _work_folder(folder: Path, on_progress: OnProgress) -> Iterator[Path]:
    """An empty folder beside ``folder``, used by one process at a time.

    Files that a killed process left there are removed first.
    """
    waiting = partial(on_progress, "waiting for another process", 0, None)
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
