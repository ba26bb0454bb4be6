"""``riskmatch embed``: write the features of images under a frozen backbone to a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import riskmatch
from riskmatch.cli.errors import RunFailed, prepare_output
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Quiet
from riskmatch.cli.printer import printable
from riskmatch.cli.progress import Display


@dataclass
class Embed(Quiet, Command):
    """Embed the images of a data set with a frozen backbone, and write the features to a file.

    One row per image and view: domain, label, class, view, features, and group with --group. The
    file can be given as DATA to riskmatch train and sweep. Features are cached, for this command
    and for riskmatch train --frozen.

    Example:
      riskmatch embed pacs --out pacs.parquet
    """

    data: Positional[str]
    """Name of a benchmark, or path of a folder domain/class/image or of a manifest (a CSV, JSON or
    Parquet file with columns path, label and domain)."""
    out: Path
    """File to write, .parquet or .npz."""
    backbone: str = "lite0"
    """Pretrained network: lite0, or timm:NAME."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    """Option of the network: weights=FILE, pretrained=false, size=PIXELS."""
    group: str | None = None
    """Keep a column of the manifest, or stem, the file's name without extension, as the column
    group of the file: riskmatch train FILE --group group."""
    views: int = 1
    """Views of each image: the first is the image itself, the others are augmented."""
    image_size: int = 224
    """Side of augmented images, in pixels; the backbone resizes them."""
    label: tuple[str, ...] = ()
    """Column of the label in a manifest; several, with commas between them, are a tag each."""
    skip_unreadable: bool = False
    """Leave out images that cannot be read, which are listed."""
    data_dir: Path | None = None
    """Folder searched first for a benchmark."""
    device: str = "auto"
    """Device of the backbone: cpu, cuda:1, …; auto takes a GPU if there is one."""

    def execute(self) -> None:
        """Embed, write the file, and print its size."""
        prepare_output(self.out, "--out", (".parquet", ".npz"))
        try:
            with Display(self.quiet) as display:
                rows, width = riskmatch.embed_to_file(
                    file=self.out,
                    options=self.model_options,
                    on_progress=display.progress,
                    **self.arguments("out", "model_options"),
                )
        except KeyboardInterrupt as error:
            raise RunFailed("Interrupted. The same command continues from the cache.") from error
        if not self.quiet:
            split = "; to split by group: --group group" if self.group else ""
            print(f"{printable(self.out)} has {rows:,} rows of {width:,} features{split}")
