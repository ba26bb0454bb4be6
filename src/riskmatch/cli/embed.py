"""``riskmatch embed``: images as the features of a frozen backbone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from riskmatch.cli.device import device_of
from riskmatch.cli.errors import BadInput, RunFailed
from riskmatch.cli.files import ready
from riskmatch.cli.parser import parse
from riskmatch.cli.progress import progress
from riskmatch.validation import check_options


@dataclass(frozen=True)
class Embed:
    """Embed the images of a data set with a frozen backbone, and write the features to a file.

    A row per image and view: domain, label, class, view, features. What was embedded is kept, for
    this command and for riskmatch train --frozen.

    Example:
      riskmatch embed pacs --out pacs.parquet
    """

    data: Positional[str]
    """The name of a benchmark, or the path of a folder domain/class/image or of a manifest."""
    out: Path
    """The file to write, .parquet or .npz."""
    backbone: str = "lite0"
    """The name of a pretrained network: lite0, or timm:NAME."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the network: weights=FILE, pretrained=false, size=PIXELS."""
    views: int = 1
    """Of each image: the first is the image as it is, the others are augmented as in training."""
    image_size: int = 224
    """The side of the images that augmentation makes; the backbone resizes them to its own."""
    data_dir: Path | None = None
    """A folder in which to look for a benchmark first."""
    device: str = "auto"
    """Where to compute: cpu, cuda:1, …; auto takes a GPU if there is one."""
    quiet: bool = False
    """Print nothing but errors."""


def run(words: Sequence[str]) -> int:
    """Embed, write the file, say where it is."""
    options = parse(Embed, "embed", words)
    ready(options.out, "--out", (".parquet", ".npz"))
    if options.out.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise BadInput("Parquet needs pip install 'riskmatch[parquet]'; .npz does not.")
    for name in ("views", "image_size"):
        if getattr(options, name) < 1:
            raise BadInput(f"--{name.replace('_', '-')} {getattr(options, name)}: 1 is the least.")
    device = device_of(options.device)
    try:
        rows, width = _embed(options, device)
    except (OSError, ValueError, ImportError) as error:
        raise BadInput(str(error)) from error
    except KeyboardInterrupt as error:
        raise RunFailed("Interrupted. The same command goes on from what is embedded.") from error
    if not options.quiet:
        print(f"{options.out} has {rows:,} rows of {width:,} features")
    return 0


def _embed(options: Embed, device: str) -> tuple[int, int]:
    """The number of rows that were written, and of features in each."""
    from riskmatch.data import load
    from riskmatch.data.catalogue import find_images
    from riskmatch.models import seeded_trunk, trunk
    from riskmatch.models.embedding import embed, write_features

    find_images(options.data, options.data_dir)
    backbone, more = options.backbone, options.model_options
    check_options(backbone, more, trunk)
    network = seeded_trunk(backbone, more)  # before images are decoded: it may fail
    with progress("images", options.quiet) as on_progress:
        size = {"image_size": options.image_size}
        domains = load(options.data, size, options.data_dir, on_progress)
        features = embed(
            domains, network, views=options.views, device=device, on_progress=on_progress
        )
        if on_progress is not None:
            on_progress(f"writing {options.out}", 0, None)
        write_features(features, options.out)
    return sum(map(len, features.domains)) * options.views, network.width
