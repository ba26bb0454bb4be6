"""Examine data sets of images and tables for faults; every finding has a subject and a cure."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from riskmatch.data import OnProgress, no_progress
from riskmatch.data.catalogue import check_table_options, find_images, is_path, path_contents
from riskmatch.data.doctor.duplicates import Siblings, check_duplicates, siblings_in
from riskmatch.data.doctor.files import Inspection, check_file, inspect_files
from riskmatch.data.doctor.findings import SEVERITIES, Examination, Finding, contact_sheet
from riskmatch.data.doctor.published import BenchmarkCopy, check_classes, check_counts, recognise
from riskmatch.data.doctor.survey import survey
from riskmatch.data.doctor.tables import check_labels, check_table, labels_of, row_counts
from riskmatch.data.labels import summary
from riskmatch.data.table import MAX_CLASSES, TableDomains, load_table
from riskmatch.validation import check_options

__all__ = [
    "Examination",
    "Finding",
    "Siblings",
    "contact_sheet",
    "examine_data",
    "siblings_in",
]


def examine_data(
    data: str | Path | TableDomains,
    data_dir: Path | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    jobs: int | None = None,
) -> Examination:
    """Examine every image of a data set, or every row of a table.

    Each file is read once and decoded in full; about a kilobyte per image is kept. A table is
    searched for columns that determine the label or name the domain, domains of one class,
    duplicates across domains, and drift of columns. Columns and file names that look like groups
    are named, with the share of validation samples that a random split would leak.

    Args:
        data: name of a benchmark, or path of a folder ``domain/class/image``, of a manifest or of
            a table; or a table that :func:`~riskmatch.load_data` made of a data frame. A folder
            with the domain and class names of a benchmark is compared with it.
        data_dir: folder searched first for a benchmark.
        options: options of a table in a file: ``label``, ``domain``, ``ignore`` and ``group``; of a
            manifest ``label`` and ``group``; of a folder ``group``.
        on_progress: called with the number of images examined.
        jobs: number of threads; by default one per core.

    Raises:
        FileNotFoundError: the images are not on this machine.
        ValueError: the name is unknown, or the tree has another layout or no files.
        ImportError: Pillow is not installed.
    """
    report = no_progress if on_progress is None else on_progress
    if isinstance(data, TableDomains):
        return _examine_table(data, data.name)
    if is_path(str(data)) and path_contents(Path(data)) == "table":
        check_options(str(data), options or {}, load_table)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* without a label are left out")  # a finding
            table = load_table(Path(data), **{**(options or {}), "drop_missing_labels": True})
        return _examine_table(table, str(data))
    options = options or {}
    if others := [name for name in options if name != "group"]:
        check_table_options(str(data), options)
        if others != ["label"] or not is_path(str(data)):
            raise ValueError(f"{others[0]} applies only to tables; {data} is not one.")
    source, benchmark = (data, None) if isinstance(data, Path) else find_images(data, data_dir)
    index, findings = survey(source, options.get("label"), options.get("group"))
    named = benchmark or (recognise(index) if index.classes else None)
    copy = BenchmarkCopy.of(index, named)
    findings += check_counts(index, copy)
    labels = index.labels_by_domain()
    findings += (
        check_classes(index, copy) if index.classes else check_labels(index.class_names, labels)
    )
    files = list[Inspection]()
    for file in inspect_files(map(index.file, range(len(index))), jobs):
        row = len(files)
        findings += check_file(index.paths[row], index.domain_names[index.domains[row]], file)
        files.append(file)
        report("examining images", len(files), len(index))
    report("comparing images", 0, None)
    findings += check_duplicates(index, copy, files)
    findings.sort(key=lambda f: (SEVERITIES.index(f.severity), f.kind, f.subject, f.message))
    title = copy.benchmark.title if copy.benchmark else None
    counts, sizes = index.counts(), index.domain_sizes()
    if not index.class_names:
        counts = {name: {"": size} for name, size in sizes.items()}
    return Examination(
        index.name,
        str(index.root),
        counts,
        title,
        copy.published,
        tuple(findings),
        index,
        sizes,
        summary(index.class_names, labels),
    )


def _examine_table(table: TableDomains, root: str) -> Examination:
    too_many = table.too_many_classes()
    if table.classes > MAX_CLASSES:
        with suppress(ValueError):  # classes that are no numbers
            table = table.labelled("numbers")
    findings = list(check_table(table))
    if too_many and table.classes:
        cure = "Choose another label."
        findings.append(Finding("many-classes", "fault", too_many, cure, column=table.label))
    elif too_many:
        cure = "Train a regression, --task regression (task='regression'), or choose another label."
        findings.append(Finding("many-classes", "note", too_many, cure, column=table.label))
    findings.sort(key=lambda finding: (SEVERITIES.index(finding.severity), finding.kind))
    return Examination(
        table.name,
        root,
        row_counts(table),
        None,
        {},
        tuple(findings),
        sizes={domain.name: len(domain) for domain in table.domains},
        labels=summary(table.class_names, labels_of(table)),
    )
