"""Samples of runs: predictions, stored or from a checkpoint, and the hardest ones for display."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from riskmatch.data import OnProgress
from riskmatch.files import bytes_of
from riskmatch.metrics import Metric
from riskmatch.registry import INSTANCE
from riskmatch.report.density import spread
from riskmatch.runs import predictions
from riskmatch.runs.lines import Split
from riskmatch.runs.predictions import ByDomain, Predictions
from riskmatch.runs.records import StoredRun, checkpoints

if TYPE_CHECKING:
    from PIL.Image import Image

    from riskmatch.data.domain import Domain, DomainSet
    from riskmatch.report.groups import Groups
    from riskmatch.runs.config import RunConfig

T = TypeVar("T")
MAX_SAMPLES = 2000
"""Most samples of a part of a domain that are passed through a network."""
MAX_VALUES = 1 << 26
"""Most input values of such a part: 341 images of 3 × 256²."""

UNREADABLE = (OSError, ValueError, ImportError, RuntimeError)
"""Errors of a data set, a network or a checkpoint that cannot be loaded."""


MAX_FEATURES = 12
"""Most features shown of a row."""
MAX_HARDEST = 12
"""Hardest samples per domain."""
SIDE = 96
"""Longest side of a thumbnail in pixels."""


class NotStoredError(FileNotFoundError):
    """A run stored neither predictions nor its last checkpoint."""


class DataCache:
    """Load the data sets of runs, and keep the last one.

    Args:
        data_dir: folder in which to look for data first.
        on_progress: called with the progress of reading, decoding or embedding images.
    """

    def __init__(self, data_dir: Path | None = None, on_progress: OnProgress | None = None) -> None:
        self._data_dir, self._on_progress = data_dir, on_progress
        self._last: dict[str, tuple[Any, Any]] = {}

    def inputs(self, config: RunConfig) -> DomainSet:
        """Inputs of the network of a run: features, where its backbone is frozen."""
        from riskmatch.engine.assemble import domains_of

        frozen = (config.model, config.model_options) if config.model_options.get("frozen") else ()
        key = (config.data, config.data_options, frozen)
        load = partial(domains_of, config, self._data_dir, on_progress=self._on_progress)
        return self._cached("inputs", key, load)

    def examples(self, config: RunConfig) -> Examples:
        """Samples of a run for display; only the images that are shown are decoded."""
        from riskmatch.data.catalogue import resolve
        from riskmatch.data.images.cache import index_domains
        from riskmatch.data.splits import splits

        if config.data.startswith(INSTANCE):
            raise ValueError("the data were passed as an object, which the run does not store")
        run = config.trial, config.test_domains, config.split
        if (data := resolve(config.data)).contents != "images":
            inputs = self.inputs(config)
            return Examples(inputs.label_names, splits(inputs.domains, *run), example_of_tensor)
        options = config.data_options
        index = self._cached(
            "index", (config.data, options), lambda: data.index(self._data_dir, options)
        )

        def show(row: Any, label: Any) -> Example:
            return Example(label, index.paths[row], file_thumbnail(index.file(int(row))))

        return Examples(index.class_names, splits(index_domains(index), *run), show)

    def groups(self, config: RunConfig, by: Sequence[str]) -> Groups:
        """The groups of the samples of a run by columns of its data."""
        from riskmatch.report.groups import Groups

        key = (config.data, config.data_options, tuple(by))
        return self._cached("groups", key, lambda: Groups.read(config, by, self._data_dir))

    def _cached(self, name: str, key: Any, load: Callable[[], T]) -> T:
        if name not in self._last or self._last[name][0] != key:
            self._last.pop(name, None)  # free its memory first
            self._last[name] = key, load()
        value: T = self._last[name][1]
        return value


def predictions_by_step(
    run: StoredRun, data: DataCache, chosen: int | None = None
) -> dict[int, ByDomain]:
    """Predictions by step: some stored ones and ``chosen``, else those of one checkpoint.

    It is that of the step ``chosen`` where it was kept, else the last.

    Raises:
        NotStoredError: there are neither predictions nor a checkpoint.
        OSError, ValueError, ImportError, RuntimeError: network or data cannot be loaded.
    """
    stored = predictions.steps(run.folder)
    if stored:
        steps = {*spread(stored), *(step for step in stored if step == chosen)}
        return {step: unseen(run, predictions.read(run.folder, step)) for step in sorted(steps)}
    return dict([_of_checkpoint(run, data, chosen)])


def predictions_at(
    run: StoredRun, data: DataCache, chosen: int, metric: Metric
) -> tuple[int, ByDomain]:
    """Step and predictions from which a metric can be computed: those of ``chosen`` where possible.

    Scores are stored of the last step alone, so that a metric that needs them may be of that step.

    Raises:
        NotStoredError, OSError, ValueError, ImportError, RuntimeError: as for
            :func:`predictions_by_step`.
    """
    stored = predictions.steps(run.folder)
    if not stored:
        return _of_checkpoint(run, data, chosen)
    if chosen in stored:
        by_domain = predictions.read(run.folder, chosen)
        parts = [part for splits in by_domain.values() for part in splits.values()]
        if any(
            part.scores is not None or not metric(part.label, part.predicted)[1] for part in parts
        ):
            return chosen, by_domain
    return stored[-1], predictions.read(run.folder, stored[-1])


def _of_checkpoint(run: StoredRun, data: DataCache, chosen: int | None) -> tuple[int, ByDomain]:
    """Step and predictions of a checkpoint: that of ``chosen`` where it was kept, else the last."""
    kept = checkpoints(run.folder)
    if not kept:  # checked before torch is imported
        raise NotStoredError("the run stored neither predictions nor its last checkpoint")
    step = chosen if chosen in kept else max(kept)
    return step, unseen(run, _from_checkpoint(run, data, step))


def unseen(run: StoredRun, by_domain: ByDomain) -> ByDomain:
    """Predictions but for samples of test domains whose groups are trained on."""
    shared = run.record.data.shared_groups if run.record.data else ()
    tests = [name for name in run.config.test_domains if name in shared]
    return {
        domain: {
            name: part for name, part in splits.items() if domain not in tests or name != "val"
        }
        for domain, splits in by_domain.items()
    }


def validation(by_domain: ByDomain) -> dict[str, Predictions]:
    """The predictions on validation samples, or on all where there are none, by domain."""
    return {d: splits.get("val") or splits["train"] for d, splits in by_domain.items() if splits}


def shown_parts(test: bool) -> tuple[Split, ...]:
    """The parts of a domain that are shown in detail: of a test domain both, else validation."""
    return ("train", "val") if test else ("val",)


def shown_in_detail(by_domain: ByDomain, tests: Sequence[str]) -> ByDomain:
    """Validation samples of training domains, and all samples of test domains."""
    return {
        domain: {part: splits[part] for part in shown_parts(domain in tests) if part in splits}
        for domain, splits in by_domain.items()
    }


def _from_checkpoint(run: StoredRun, data: DataCache, step: int) -> ByDomain:
    from riskmatch.engine.assemble import split_all, task_of
    from riskmatch.engine.evaluate import EvaluatedPart, predict, restore_of
    from riskmatch.engine.load import final_network

    domains = data.inputs(run.config)
    _, task = task_of(run.config, domains)
    model = final_network(run, domains, step)
    parts, tests = [], run.config.test_domains
    for domain, splits in split_all(domains, run.config).items():
        for name in shown_parts(domain in tests):
            rows, samples = _spaced(splits[name])
            parts.append(EvaluatedPart(name, samples, rows))
    return predict(model, parts, task, restore=restore_of(domains))


def _spaced(part: Domain) -> tuple[Any, Domain]:
    """Evenly spaced samples of a part of a domain, with their positions in it."""
    import torch

    limit = max(1, min(MAX_SAMPLES, MAX_VALUES // math.prod(part.x.shape[1:])))
    count = min(limit, len(part))
    rows = torch.arange(count) * len(part) // count
    return rows.numpy(), part.take(rows)


@dataclass(frozen=True)
class Example:
    """One sample for display."""

    label: Any
    """As the data have it: a class, a number, or the tags (k,)."""
    name: str | None = None
    """File name."""
    thumbnail: str | None = None
    """Data URI of an image."""
    row: dict[str, str] | None = None
    """Features by name."""


@dataclass(frozen=True)
class Examples:
    """Samples of the data set of a run."""

    classes: tuple[str, ...]
    """Names of the classes, or of the tags."""
    splits: Mapping[str, Mapping[str, Domain]]
    """Both parts of every domain."""
    show: Callable[[Any, int], Example]
    """Make an example of an input and its label."""

    def take(self, domain: str, part: Split, indices: Sequence[int]) -> list[Example]:
        """Samples of a part of a domain, by their positions in it."""
        import torch

        subset = self.splits[domain][part].take(torch.tensor(indices))
        return [self.show(x, y) for x, y in zip(subset.x[:], subset.y.tolist(), strict=True)]


TakeExamples = Callable[[str, Split, Sequence[int]], Sequence[Example]]
"""Samples by domain, part and positions in it; see :meth:`Examples.take`."""


def hardest(
    predictions: ByDomain,
    classes: Sequence[str],
    take: TakeExamples | None,
    limit: int = MAX_HARDEST,
) -> dict[str, list[dict[str, Any]]]:
    """Samples with the largest risks of every domain, largest first and NaN last.

    Args:
        predictions: predictions by domain and part.
        classes: names of the classes, or of the tags.
        take: gives the samples to show; None where the data set is not available.
        limit: samples per domain.

    Raises:
        ValueError: the labels of the samples differ from the predictions': the data have changed.
    """
    by_domain = {}
    for domain, parts in predictions.items():
        classified = all(predicted.label.dtype.kind in "iu" for predicted in parts.values())
        ranked = [
            (-math.inf if math.isnan(risk) else risk, part, row)
            for part, predicted in parts.items()
            for row, risk in enumerate(predicted.risk.tolist())
        ]
        chosen = nlargest(limit, ranked, key=itemgetter(0))
        shown: dict[tuple[Split, int], Example] = {}
        for part, predicted in parts.items():
            rows = [row for _, part_, row in chosen if part_ == part]
            indices, labels = predicted.index[rows].tolist(), predicted.label[rows].tolist()
            samples = take(domain, part, indices) if take and rows else list(map(Example, labels))
            if classified and [sample.label for sample in samples] != labels:
                raise ValueError("the data set has changed since the run: its labels differ")
            shown |= {(part, row): one for row, one in zip(rows, samples, strict=True)}
        by_domain[domain] = [
            _entry(parts[part], row, classes, shown[part, row], part) for _, part, row in chosen
        ]
    return by_domain


def _entry(
    predicted: Predictions, row: int, classes: Sequence[str], sample: Example, part: Split
) -> dict[str, Any]:
    number = f"{'' if part == 'val' else f'{part} '}sample {predicted.index[row]}"
    return {
        "risk": float(predicted.risk[row]),
        "label": label_text(predicted.label[row], classes),
        "predicted": label_text(predicted.predicted[row], classes),
        "confidence": float(predicted.confidence[row]),
        "name": sample.name or number,
        "thumbnail": sample.thumbnail,
        "row": sample.row,
    }


def label_text(label: Any, classes: Sequence[str]) -> str:
    """A label in words: a class, a number, or the tags that a sample has.

    Example:
        >>> label_text(np.int64(1), ["cat", "dog"]), label_text(np.float32(0.25), [])
        ('dog', '0.25')
        >>> label_text(np.array([1.0, np.nan, 1.0]), ["red", "big", "old"])
        'red, old'
    """
    if np.ndim(label) == 1 and np.isin(label, (0, 1)).sum() + np.isnan(label).sum() == len(label):
        names = classes if len(classes) == len(label) else [str(k) for k in range(len(label))]
        return ", ".join(names[k] for k in np.flatnonzero(label == 1).tolist()) or "no tag"
    if np.ndim(label):
        return f"{np.size(label)} values"
    return f"{label:.4g}" if np.asarray(label).dtype.kind == "f" else classes[int(label)]


def example_of_tensor(x: Any, label: Any) -> Example:
    """Example of an image tensor (channels, height, width) or of features (d,)."""
    if x.ndim == 3:
        return Example(label, thumbnail=array_thumbnail(x.numpy()))
    values = x.flatten().tolist()[:MAX_FEATURES]
    return Example(label, row={str(k): f"{value:.4g}" for k, value in enumerate(values)})


def file_thumbnail(path: Path) -> str:
    """Data URI of a small JPEG of an image file, with its aspect ratio.

    Raises:
        ImageError: the file cannot be read as an image.
    """
    from riskmatch.data.images.decode import opened, to_rgb

    with opened(path) as image:
        image.draft("RGB", (SIDE, SIDE))  # decodes a JPEG at reduced size
        rgb = to_rgb(image)
        rgb.thumbnail((SIDE, SIDE))
        return _data_uri(rgb, "JPEG", quality=70, optimize=True)


def array_thumbnail(pixels: NDArray[Any]) -> str:
    """Data URI of a PNG of an array (channels, height, width) in [0, 1], or of bytes.

    One channel is grey, two are red and green, three are RGB. Pixels are enlarged by a whole
    factor.
    """
    from PIL.Image import Resampling, fromarray

    channels, height, width = pixels.shape
    values = pixels if pixels.dtype == np.uint8 else np.clip(pixels, 0, 1) * 255
    rgb = np.zeros((height, width, 3), np.uint8)
    visible = np.repeat(values, 3, 0) if channels == 1 else values[:3]
    rgb[:, :, : len(visible)] = np.moveaxis(visible, 0, -1).round()
    scale = max(1, SIDE // max(height, width))
    enlarged = fromarray(rgb).resize((width * scale, height * scale), Resampling.NEAREST)
    return _data_uri(enlarged, "PNG")


def _data_uri(image: Image, format_: str, **options: Any) -> str:
    content = bytes_of(lambda file: image.save(file, format_, **options))
    return f"data:image/{format_.lower()};base64,{base64.b64encode(content).decode()}"
