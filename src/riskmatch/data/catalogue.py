"""Find data sets by name: built-in, a path, or the user's own."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from riskmatch import registry
from riskmatch.data import OnProgress
from riskmatch.data.domain import DomainSet
from riskmatch.data.features import feature_domains, read_features
from riskmatch.data.fetch import check_mirrors
from riskmatch.data.images.benchmark import BENCHMARKS, Benchmark, index_benchmark, locate
from riskmatch.data.images.cache import readable
from riskmatch.data.images.index import ImageIndex, index_folder
from riskmatch.data.images.manifest import COLUMNS, index_manifest, is_manifest
from riskmatch.data.labels import summary
from riskmatch.data.sources import DATASETS, DataSource, image_source
from riskmatch.data.table import TableDomains, load_table
from riskmatch.data.table_files import SUFFIXES, column_names
from riskmatch.files import check_regular
from riskmatch.registry import Part, PartError
from riskmatch.trust import is_own
from riskmatch.validation import check_option, check_options

Contents = Literal["images", "table", "features"]
POSITIONAL = ["data_dir", "on_progress"]
"""Positional parameters that the function of a data set may have, in this order."""


@dataclass(frozen=True)
class DataName:
    """What the name of a data set stands for. Nothing is imported or read before it is needed."""

    name: str
    path: Path | None = None
    """Folder ``domain/class/image``, manifest, table or file of features, where it is a path."""
    benchmark: Benchmark | None = None
    """The image benchmark of this name."""

    @cached_property
    def contents(self) -> Contents | None:
        """What the files of a path or a benchmark hold; None for other data sets."""
        if self.path is not None:
            return path_contents(self.path)
        return "images" if self.benchmark else None

    @cached_property
    def part(self) -> Part | None:
        """The user's own part, imported; None for a built-in name or a path."""
        if self.path is not None or self.name in DATASETS:
            return None
        return registry.find("data", self.name)

    @cached_property
    def source(self) -> DataSource:
        """How to load the data set.

        Raises:
            PartError: the user's own part cannot be imported or is no data set.
        """
        if self.path is not None:
            if self.contents == "features":
                return DataSource(partial(read_features, self.path))
            if self.contents == "table":
                return DataSource(partial(load_table, self.path))
            return image_source(partial(_index_path, self.path))
        if self.part is None:
            return DATASETS[self.name]
        value = self.part.value
        if isinstance(value, DataSource):
            return value
        if not callable(value) or isinstance(value, type):
            raise PartError(
                f"The data set '{self.name}' must be a function or a DataSource, got {value!r}."
            )
        return DataSource(value)

    def load(
        self,
        options: Mapping[str, Any] | None = None,
        data_dir: Path | None = None,
        on_progress: OnProgress | None = None,
    ) -> DomainSet:
        """The data; see :func:`load`."""
        load = self.source.load
        check_table_options(self.name, options or {})
        check_options(self.name, options or {}, load)
        parameters = inspect.signature(load).parameters.values()
        given = [
            p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        if wrong := [name for k, name in enumerate(given) if [name] != POSITIONAL[k : k + 1]]:
            raise PartError(
                f"The data set '{self.name}' has a positional parameter '{wrong[0]}'; only a first "
                "data_dir and a second on_progress are allowed. Make it keyword-only (after a *)."
            )
        loaded = load(*(data_dir, on_progress)[: len(given)], **options or {})
        if not isinstance(loaded, DomainSet):
            got = type(loaded).__name__
            raise PartError(f"The data set '{self.name}' must return a DomainSet, got {got}.")
        return loaded

    def index(
        self, data_dir: Path | None = None, options: Mapping[str, Any] | None = None
    ) -> ImageIndex:
        """The image files of a benchmark, a folder or a manifest, without reading any image."""
        folder, benchmark = find_images(self.name, data_dir)
        options = options or {}
        if benchmark:
            index = index_benchmark(benchmark, folder).grouped(options.get("group"))
        else:
            named = {"label", "group", "drop_missing_labels"} & options.keys()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".* without a label are left out")  # load warns
                index = _index_path(folder, **{name: options[name] for name in named})
        return readable(index) if options.get("skip_unreadable") else index


def resolve(name: str) -> DataName:
    """What a data name stands for.

    The first that fits wins: a built-in name; a path that exists or can only be a path; a name
    that an installed package announces; ``package.module:Name``.

    Raises:
        ValueError: the name is unknown.

    Example:
        >>> resolve("pacs").benchmark.title, resolve("data/pets").path.name
        ('PACS', 'pets')
        >>> resolve("pacs").contents, resolve("my_data:waves").contents
        ('images', None)
    """
    if name in DATASETS:
        return DataName(name, benchmark=BENCHMARKS.get(name))
    if is_path(name):
        return DataName(name, path=Path(name))
    if not is_own(name):
        hint = " A data set of your own is named package.module:Name."
        _check_known("data set", name, registry.names("data"), hint)
    return DataName(name)


def is_path(name: str) -> bool:
    """Whether a data name is a path: no built-in name, and it exists or could not be a name.

    Example:
        >>> is_path("./pets"), is_path("pets.csv"), is_path("pacs"), is_path("my_data:waves")
        (True, True, False, False)
    """
    if name in DATASETS:
        return False
    file = is_manifest(Path(name)) or Path(name).suffix.lower() == ".npz"
    return "/" in name or "\\" in name or file or Path(name).exists()


def path_contents(path: Path) -> Contents:
    """What a folder or a file holds, by its extension and the names of its columns.

    A list of images has a column ``path``, and ``label`` or ``domain``; a Parquet file of features
    has ``features``. A file that cannot be read is a table: reading it as such names the cause.
    """
    suffix = path.suffix.lower()
    if suffix == ".npz" and not path.is_dir():
        return "features"
    if suffix not in SUFFIXES or not path.is_file():
        return "images"
    try:
        names = column_names(path)
    except (OSError, ValueError, ImportError):
        return "table"
    if suffix == ".parquet" and "features" in names:
        return "features"
    image, *others = COLUMNS
    return "images" if image in names and any(name in names for name in others) else "table"


def check_table_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse options of a table for a path that is none; a list of images may name its label.

    Raises:
        FileNotFoundError: there is no such path.
        ValueError: it is a folder or another file.
    """
    path = Path(name)
    manifest = is_manifest(path) and not path.is_dir() and path.suffix.lower() != ".npz"
    columns = [key for key in options if key in ("label", "domain", "ignore")]
    columns = [key for key in columns if not (key == "label" and manifest)]
    if not columns or not is_path(name) or path_contents(path) == "table":
        return
    option = columns[0]
    if not path.exists():
        raise FileNotFoundError(f"There is no {name}.")
    cause = "it is a folder of images"
    if not path.is_dir():
        endings = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        cause = f"a table is a file {endings} that holds neither features nor paths of images"
    raise ValueError(f"{option} applies only to tables; {name} is not one: {cause}.")


def load(
    name: str,
    options: Mapping[str, Any] | None = None,
    data_dir: Path | None = None,
    on_progress: OnProgress | None = None,
) -> DomainSet:
    """Load a data set by name.

    Args:
        name: a built-in name, the path of a folder ``domain/class/image``, of a manifest, of a
            table or of a file of features, a name that an installed package announces, or
            ``package.module:Name``.
        options: keyword arguments of the data set.
        data_dir: folder to search for its files first.
        on_progress: called for every image that is read or decoded.

    Raises:
        ValueError: the name or an option is unknown, or a value has the wrong type.
        FileNotFoundError: the files are not on this machine.

    Example:
        >>> load("colored-digits", {"samples": 10}).names
        ('0.9', '0.8', '0.1')
    """
    return resolve(name).load(options, data_dir, on_progress)


def find_images(name: str, data_dir: Path | None = None) -> tuple[Path, Benchmark | None]:
    """The folder or manifest of an image data set, and its benchmark where the name is one.

    Args:
        name: a benchmark, or the path of a folder ``domain/class/image`` or of a manifest.
        data_dir: folder to search first.

    Raises:
        FileNotFoundError: the images are not on this machine.
        ValueError: the name is not that of an image data set.
    """
    if is_path(name):
        if not Path(name).exists():
            raise FileNotFoundError(f"There is no {name}.")
        if not Path(name).is_dir():
            check_regular(Path(name))
        if (contents := path_contents(Path(name))) != "images":
            raise ValueError(
                f"{name} holds {contents if contents == 'features' else 'a table'}, not images. "
                "Give a folder domain/class/image, or a list of images with the columns "
                f"{', '.join(COLUMNS)}."
            )
        return Path(name), None
    _check_known("data set of images", name, BENCHMARKS)
    return locate(BENCHMARKS[name], data_dir), BENCHMARKS[name]


def known_domains(name: str, options: Mapping[str, Any] | None = None) -> tuple[str, ...] | None:
    """Names of the domains, where they are known without loading data; None elsewhere."""
    data = resolve(name)
    if data.benchmark is not None:
        return data.benchmark.domains
    if data.path is not None and data.contents == "features":
        return feature_domains(data.path)
    if data.contents != "images":
        return None
    named = {**(options or {}), "drop_missing_labels": True, "skip_unreadable": False}
    return data.index(options=named).domain_names


def describe_data(
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    data_dir: Path | None = None,
) -> list[dict[str, Any]]:
    """One row per data set, built-in or announced by an installed package.

    Facts that a data set does not state are None. Files with tags or numbers as labels have
    ``labels``: by domain the share of each tag, or mean and spread. ``cure`` is the command that
    makes it available, or, for a part that cannot be imported, the error; ``package`` is the
    distribution that has it.

    Args:
        name: name or path of the only data set to describe; of a table also the columns.
        options: options of that data set.
        data_dir: folder searched first for data sets.

    Raises:
        ValueError: the name is unknown, or the data cannot be used.
        FileNotFoundError: the path does not exist.

    Example:
        >>> row = describe_data()[0]
        >>> row["name"], row["classes"], row["here"]
        ('colored-digits', 2, True)
    """
    if name is None:
        return [_row(name, data_dir) for name in registry.names("data")]
    data = resolve(name)
    if data.path is None:
        return [_row(name, data_dir)]
    if not data.path.exists():
        raise FileNotFoundError(f"There is no {name}.")
    more: dict[str, Any] = {}
    if data.contents == "images":
        check_table_options(name, options or {})
        index = data.index(data_dir, options)
        names, classes, samples = index.domain_names, index.classes, len(index)
        labels = summary(index.class_names, index.labels_by_domain())
    else:
        domains = data.load(options)
        names, classes = domains.names, domains.classes
        samples = sum(map(len, domains.domains))
        values = {domain.name: domain.y.numpy() for domain in domains.domains}
        labels = summary(domains.label_names, values)
        if isinstance(domains, TableDomains):
            more = {"columns": domains.describe()}
    if labels:
        more["labels"] = labels
    facts = {"name": name, "domains": names, "classes": classes, "samples": samples}
    known = {"licence": None, "package": "riskmatch", "here": True, "cure": None}
    return [{**facts, **known, **more}]


def download_data(
    name: str,
    data_dir: Path | None = None,
    mirrors: Sequence[str] = (),
    on_progress: OnProgress | None = None,
) -> Path:
    """Download the files of a data set, verify them, and return their folder.

    Args:
        name: a built-in data set, or the name of its files, such as ``mnist``.
        data_dir: folder of data sets; by default the cache folder.
        mirrors: URLs of folders with the files, in place of the usual ones.
        on_progress: called with the number of bytes.

    Raises:
        ValueError: there is no such data set, or it has no files to download.
        FetchError: the download failed; a second call continues it.
    """
    check_mirrors(mirrors)
    files = {data: source.files for data, source in DATASETS.items() if source.files is not None}
    files |= {downloads.name: downloads for downloads in files.values()}
    if name in DATASETS and name not in files:
        raise ValueError(f"{name} has no files to download; it comes with a package.")
    check_option("data set to download", name, sorted(files))
    wanted, folder = files[name], None
    if data_dir is not None:
        here = wanted.find(data_dir)
        folder = here if here and here.is_relative_to(data_dir) else data_dir / wanted.name
    return wanted.get(folder, mirrors=mirrors, on_progress=on_progress)


def _row(name: str, data_dir: Path | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"domains": (), "classes": None, "samples": None, "licence": None}
    package, data = None, DataName(name)
    try:
        facts = {fact: getattr(data.source, fact) for fact in facts}
        package = data.part.distribution if data.part else "riskmatch"
        cure = data.source.cure(data_dir)
    except PartError as error:
        cure = str(error)
    return {"name": name, **facts, "package": package, "here": cure is None, "cure": cure}


def _check_known(noun: str, name: str, names: Iterable[str], hint: str = "") -> None:
    either = f" There is no folder or file '{name}' either.{hint}"
    check_option(noun, name, names, "" if name in DATASETS else either)


def _index_path(
    path: Path,
    data_dir: Path | None = None,
    label: str | Sequence[str] | None = None,
    group: str | None = None,
    drop_missing_labels: bool = False,
) -> ImageIndex:
    if path.is_file() or is_manifest(path):
        return index_manifest(path, label, group, drop_missing_labels)
    return index_folder(path).grouped(group)
