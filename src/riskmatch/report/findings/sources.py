"""The data sets of runs, each loaded once and only as far as it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.data.progress import OnProgress
from riskmatch.report.findings.examples import Examples, of_files, of_tensors

if TYPE_CHECKING:
    from riskmatch.data.domain import DomainSet
    from riskmatch.data.images.index import ImageIndex
    from riskmatch.runs.config import RunConfig


class Sources:
    """Loads data sets and keeps the last.

    Args:
        data_dir: where files of data sets are looked for first.
        on_progress: told of images that are read, decoded or embedded.
    """

    def __init__(self, data_dir: Path | None = None, on_progress: OnProgress | None = None) -> None:
        self._data_dir, self._on_progress = data_dir, on_progress
        self._inputs: tuple[Any, DomainSet | None] = None, None
        self._index: tuple[Any, ImageIndex | None] = None, None

    def inputs(self, config: RunConfig) -> DomainSet:
        """What the network of a run sees: features, where its backbone is frozen."""
        from riskmatch.engine.assemble import domains_of

        frozen = (config.model, config.model_options) if config.model_options.get("frozen") else ()
        key = (config.data, config.data_options, frozen)
        known, found = self._inputs
        if found is None or known != key:
            self._inputs = None, None  # before the next takes its memory
            found = domains_of(config, self._data_dir, on_progress=self._on_progress)
            self._inputs = key, found
        return found

    def examples(self, config: RunConfig) -> Examples:
        """The validation samples of a run, to look at.

        Images are read from their files, so that nothing is decoded that is not shown.
        """
        from riskmatch.data.catalogue import resolve

        if resolve(config.data).has_image_files:
            return of_files(self._images(config.data), config.trial)
        return of_tensors(self.inputs(config), config.trial)

    def _images(self, data: str) -> ImageIndex:
        from riskmatch.data.catalogue import resolve

        known, found = self._index
        if found is None or known != data:
            found = resolve(data).index(self._data_dir)
            self._index = data, found
        return found
