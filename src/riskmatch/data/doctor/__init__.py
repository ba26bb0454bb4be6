"""Examine image data sets for faults; every finding has a path and a cure."""

from __future__ import annotations

from pathlib import Path

from riskmatch.data import OnProgress, no_progress
from riskmatch.data.catalogue import find_images
from riskmatch.data.doctor.contact_sheet import contact_sheet
from riskmatch.data.doctor.duplicates import Siblings, check_duplicates, siblings_in
from riskmatch.data.doctor.files import Inspection, check_colours, check_file, inspect_files
from riskmatch.data.doctor.findings import SEVERITIES, Examination, Finding, print_examination
from riskmatch.data.doctor.published import BenchmarkCopy, check_classes, check_counts, recognise
from riskmatch.data.doctor.survey import survey

__all__ = [
    "Examination",
    "Finding",
    "Siblings",
    "contact_sheet",
    "examine",
    "print_examination",
    "siblings_in",
]


def examine(
    data: str | Path,
    data_dir: Path | None = None,
    *,
    on_progress: OnProgress | None = None,
    jobs: int | None = None,
) -> Examination:
    """Examine every image of a data set.

    Each file is read once and decoded in full; about a kilobyte per image is kept.

    Args:
        data: name of a benchmark, or path of a folder ``domain/class/image`` or of a manifest. A
            folder with the domain and class names of a benchmark is compared with it.
        data_dir: folder searched first for a benchmark.
        on_progress: called with the number of images examined.
        jobs: number of threads; by default one per core.

    Raises:
        FileNotFoundError: the images are not on this machine.
        ValueError: the name is unknown, or the tree has another layout or no files.
        ImportError: Pillow is not installed.
    """
    report = no_progress if on_progress is None else on_progress
    source, benchmark = (data, None) if isinstance(data, Path) else find_images(data, data_dir)
    index, findings = survey(source)
    copy = BenchmarkCopy.of(index, benchmark or recognise(index))
    findings += check_counts(index, copy)
    findings += check_classes(index, copy)
    files = list[Inspection]()
    for file in inspect_files([index.file(row) for row in range(len(index))], jobs):
        row = len(files)
        findings += check_file(index.paths[row], index.domain_names[index.domains[row]], file)
        files.append(file)
        report("examining images", len(files), len(index))
    report("comparing images", 0, None)
    findings += check_colours(index, files)
    findings += check_duplicates(index, copy, files)
    findings.sort(key=lambda f: (SEVERITIES.index(f.severity), f.kind, f.subject, f.message))
    title = copy.benchmark.title if copy.benchmark else None
    return Examination(index, title, copy.published, tuple(findings))
