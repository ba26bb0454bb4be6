"""The examination of a data set of images, from beginning to end."""

from __future__ import annotations

from pathlib import Path

from riskmatch.data.doctor.benchmark import Copy, check_counts, recognise
from riskmatch.data.doctor.classes import check_classes
from riskmatch.data.doctor.duplicates import check_duplicates
from riskmatch.data.doctor.examination import Examination, in_order
from riskmatch.data.doctor.files import check_colours, check_file
from riskmatch.data.doctor.look import Look, look_at_all
from riskmatch.data.doctor.survey import survey
from riskmatch.data.images.benchmark import Benchmark
from riskmatch.data.progress import OnProgress


def examine(
    source: Path,
    *,
    published: Benchmark | None = None,
    on_progress: OnProgress | None = None,
    jobs: int | None = None,
) -> Examination:
    """Examine every image of a data set.

    Each file is read once and decoded in full. What is kept of an image is about a kilobyte.

    Args:
        source: a folder ``domain/class/image``, or a manifest.
        published: the benchmark that it is a copy of; one that has its names of domains and
            classes, where nothing is said.
        on_progress: told how many images are examined, and that they are compared.
        jobs: threads; one per core, where nothing is said.

    Raises:
        FileNotFoundError: there is no such folder or manifest.
        ValueError: the tree has another shape, or holds nothing.
        ImportError: Pillow is not installed.
    """
    index, findings = survey(source)
    copy = Copy.of(index, published or recognise(index))
    findings += check_counts(index, copy)
    findings += check_classes(index, copy)
    looks = list[Look]()
    for look in look_at_all([index.file(row) for row in range(len(index))], jobs):
        row = len(looks)
        findings += check_file(index.paths[row], index.domain_names[index.domains[row]], look)
        looks.append(look)
        if on_progress is not None:
            on_progress("examining images", len(looks), len(index))
    if on_progress is not None:
        on_progress("comparing images", 0, None)
    findings += check_colours(index, looks)
    findings += check_duplicates(index, copy, looks)
    return Examination(
        index,
        copy.benchmark.title if copy.benchmark else None,
        copy.published,
        in_order(findings),
    )
