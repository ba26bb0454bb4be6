"""From the files of a benchmark to the folder of its images, which appears whole."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from riskmatch.data.images.benchmark import Benchmark, Origin
from riskmatch.data.images.locate import (
    check_counts,
    find_tree,
    has_domains,
    index_benchmark,
    layout,
)
from riskmatch.data.progress import OnProgress


def prepared(
    benchmark: Benchmark,
    origin: Origin,
    files: Mapping[str, Path],
    folder: Path,
    on_progress: OnProgress | None = None,
) -> Path:
    """Unpack beside the folder, verify, then rename; returns the folder.

    Other numbers than the published are refused, unless checksums say that nothing was damaged.
    Of processes that prepare the same folder one does, the others wait. What one that was killed
    has left behind is removed by the next.

    Args:
        benchmark: of which the files are.
        origin: where they come from.
        files: by name.
        folder: for the domains.
        on_progress: told of what is unpacked, in bytes.

    Raises:
        ValueError: the files do not hold the benchmark.
    """
    report: OnProgress = (lambda *_: None) if on_progress is None else on_progress
    used = ", ".join(map(str, files.values()))
    with _workshop(folder, lambda: report("waiting for another process", 0, None)) as work:
        if has_domains(benchmark, folder):  # which another process has made meanwhile
            return folder
        origin.prepare(files, work, on_progress)
        tree = find_tree(benchmark, work)
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
    if origin.caution:
        warnings.warn(f"{benchmark.title}: {origin.caution}.", stacklevel=3)
    return folder


def _place(benchmark: Benchmark, tree: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(tree, folder)
        return
    for child in tree.iterdir():  # the folder is empty, or the archive lies in it
        if any(part.is_called(child.name) for part in benchmark.parts):
            os.replace(child, folder / child.name)


@contextmanager
def _workshop(folder: Path, waiting: Callable[[], None]) -> Iterator[Path]:
    """An empty folder beside ``folder``, for one process at a time."""
    work = folder.with_name(f".{folder.name}.unpacking")
    with _alone(folder.with_name(f".{folder.name}.lock"), waiting):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _alone(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Be the only process to hold the file ``path``, and remove it in the end.

    The system lets go of it at our death.
    """
    import fcntl  # POSIX only

    while True:
        with open(path, "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_at(lock, path):
                try:
                    yield
                finally:
                    path.unlink()
                return


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether an open file still has its name; who held it before us has removed it, perhaps."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
