"""Features of frozen backbones, computed once per image and cached on disk."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from riskmatch.data import OnProgress, no_progress
from riskmatch.data.catalogue import find_images, load
from riskmatch.data.convert import table_options
from riskmatch.data.domain import Augment, Domain, DomainSet, NamedTensors, StoredImages
from riskmatch.data.features import check_features_file, random_view, write_features
from riskmatch.data.sampler import stream
from riskmatch.device import resolve_device
from riskmatch.files import check_regular, file_lock, refuse_input, sha256, user_folder, write_whole
from riskmatch.models.trunk import Trunk, seeded_trunk, trunk
from riskmatch.validation import check_options

FORMAT = 2
"""Version of the cache; to be raised when the same images would get other features."""
CHUNK = 8
"""Images per forward pass: few enough for the processor's cache."""
HASH_CHUNK = 256
"""Samples read at a time to be hashed."""
_KEY = "features"


def embed(
    domains: DomainSet,
    trunk: Trunk,
    *,
    views: int = 1,
    cache: Path | None = None,
    device: torch.device | str = "cpu",
    on_progress: OnProgress | None = None,
) -> DomainSet:
    """Replace the images of a data set by their features, which are cached on disk.

    The cache is keyed by the content of each image and by the backbone with its weights and
    preprocessing, so that images in a part of a data set, a copy or a link of it are not embedded
    again. Each view of each domain writes a file of the images that were new: an interruption loses
    only the one being computed, and further views need only themselves.

    Args:
        domains: data set of images.
        trunk: the backbone, see :func:`~riskmatch.models.seeded_trunk`.
        views: views of each image: the first is the image itself, the others are augmented as in
            training. Training draws one at random, evaluation uses the first.
        cache: folder of the features; by default one in the user's cache folder.
        device: device of the backbone; the features are returned on the CPU.
        on_progress: called with the number of images of all domains and views that are done, and
            their total.

    Returns:
        The data set with inputs (n, width), or (n, views, width) for several views.
    """
    if views < 1:
        raise ValueError(f"views must be at least 1, got {views}.")
    if views > 1 and domains.augment is None:
        raise ValueError(f"views={views} needs augmentation, which '{domains.name}' does not have.")
    trunk = trunk.to(device).eval()
    identity = json.dumps([FORMAT, trunk.name, hash_weights(trunk), repr(trunk.preprocess)])
    folder = cache or user_folder("cache") / "features"
    report = no_progress if on_progress is None else on_progress
    images = sum(len(part) for d in domains.domains for part in (d, d.validation) if part)
    done = 0

    def view(domain: Domain, contents: Sequence[str], number: int) -> Tensor:
        """Features (n, width) of every image, augmented unless ``number`` is 0."""
        augment = domains.augment if number else None
        seen = f"{augment!r}, {number}" if number else "as it is"
        files = folder / f"{sha256(json.dumps([identity, seen]))[:12]}-*.safetensors"
        nonlocal done
        before = done + len(domain)

        def make(rows: Mapping[str, int]) -> Tensor:
            draws = [stream("view", content, number) for content in rows]
            return _features(
                domain.x,
                [*rows.values()],
                trunk,
                augment,
                draws,
                lambda left: report("embedding", before - left, views * images),
            )

        waiting = partial(report, "waiting for another process", 0, None)
        features = _cached(files, contents, make, waiting)
        done = before
        return features

    def embedded(domain: Domain) -> Domain:
        contents = hash_images(domain.x)
        features = [view(domain, contents, number) for number in range(views)]
        return replace(
            domain,
            x=features[0] if views == 1 else torch.stack(features, 1),
            validation=domain.validation and embedded(domain.validation),
        )

    return replace(
        domains,
        domains=tuple(map(embedded, domains.domains)),
        augment=None if views == 1 else random_view,
    )


def embed_to_file(
    data: str,
    file: Path,
    backbone: str = "lite0",
    options: Mapping[str, Any] | None = None,
    *,
    group: str | None = None,
    views: int = 1,
    image_size: int = 224,
    label: str | Sequence[str] = (),
    skip_unreadable: bool = False,
    data_dir: Path | None = None,
    device: str = "auto",
    on_progress: OnProgress | None = None,
) -> tuple[int, int]:
    """Write the features of an image data set to a file; return the numbers of rows and features.

    Args:
        data: name of a benchmark, or path of a folder ``domain/class/image`` or of a manifest.
        file: path ending in ``.parquet`` or ``.npz``; see :mod:`riskmatch.data.features`.
        backbone: ``lite0`` or ``timm:NAME``.
        options: options of the backbone: ``weights``, ``pretrained``, ``size``.
        group: column of a manifest, or ``stem`` for images in folders, whose values the file keeps
            as its column ``group``.
        views: views of each image, see :func:`embed`.
        image_size: side of augmented images, in pixels.
        label: columns of the label in a manifest.
        skip_unreadable: leave out images that cannot be read, with a warning that lists them.
        data_dir: folder searched first for a benchmark.
        device: device of the backbone; ``auto`` is a GPU if there is one.
        on_progress: called with each image that is decoded or embedded.
    """
    device = resolve_device(device)
    check_features_file(file)
    refuse_input(file, data)
    for name, value in (("views", views), ("image_size", image_size)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    find_images(data, data_dir)
    check_options(backbone, options or {}, trunk)
    network = seeded_trunk(backbone, options or {})  # before images are decoded: it may fail
    named = {**table_options(label or None, group=group), "skip_unreadable": skip_unreadable}
    domains = load(data, {"image_size": image_size, **named}, data_dir, on_progress)
    features = embed(domains, network, views=views, device=device, on_progress=on_progress)
    if on_progress is not None:
        on_progress(f"writing {file}", 0, None)
    write_features(features, file)
    return sum(map(len, features.domains)) * views, network.width


@torch.no_grad()
def _features(
    x: Tensor | StoredImages | NamedTensors,
    rows: Sequence[int],
    trunk: Trunk,
    augment: Augment | None,
    draws: Sequence[torch.Generator],
    report: Callable[[int], None],
) -> Tensor:
    """Features (n, width) of the images at ``rows``, each augmented by its own generator."""
    device = next(trunk.parameters()).device
    out = torch.empty(len(rows), trunk.width)
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        images: Tensor = x[torch.tensor(rows[part])].to(device)
        if augment:
            pairs = zip(images.split(1), draws[part], strict=True)
            images = torch.cat([augment(image, draw) for image, draw in pairs])
        out[part] = trunk(images)
        report(max(0, len(rows) - start - CHUNK))
    return out


def _cached(
    files: Path,
    contents: Sequence[str],
    make: Callable[[Mapping[str, int]], Tensor],
    waiting: Callable[[], None],
) -> Tensor:
    """Features of images by their contents, from the files of a pattern.

    Those of images in none of the files are made, by one process, and written to another file; the
    other processes that need the same ones wait. A damaged file is removed, with a warning.
    """

    def rows() -> dict[str, int]:
        return {content: row for row, content in enumerate(contents) if content not in known}

    known = dict[str, Tensor]()
    _read(files, {*contents}, known)
    if missing := rows():
        path = files.with_name(files.name.replace("*", sha256(" ".join(missing))[:12]))
        path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(path.with_suffix(".lock"), waiting):
            _read(files, {*missing}, known)  # another process may have made them meanwhile
            if missing := rows():
                features, names = make(missing).contiguous(), " ".join(missing)
                checked = {"images": names, "sha256": hash_tensors({_KEY: features}, names)}
                write_whole(path, to_bytes({_KEY: features}, checked))
                known.update(zip(missing, features, strict=True))
    return torch.stack([known[content] for content in contents])


def _read(files: Path, wanted: Collection[str], known: dict[str, Tensor]) -> None:
    """Add the features of ``wanted`` images that are in files to those that are known."""
    for path in sorted(files.parent.glob(files.name)):
        try:
            check_regular(path)
            with safe_open(path, framework="pt") as file:
                stated = file.metadata() or {}
                names = stated.get("images", "").split()
                if names and not {*names} & {*wanted}:
                    continue
                features: Tensor = file.get_tensor(_KEY)
            fault = "its checksum does not match"
            if stated.get("sha256") == hash_tensors({_KEY: features}, stated.get("images", "")):
                pairs = zip(names, features, strict=True)
                known.update((name, value) for name, value in pairs if name in wanted)
                continue
        except SafetensorError as error:
            fault = str(error)
        warnings.warn(
            f"{path} is damaged, and its images are embedded again: {fault}.", stacklevel=2
        )
        path.unlink(missing_ok=True)


def hash_images(x: Tensor | StoredImages | NamedTensors) -> list[str]:
    """SHA-256 of each image; that of its file, with its size, where it is known."""
    if isinstance(x, StoredImages) and (known := x.contents()):
        return known
    header = f"{tuple(x.shape[1:])} {x.dtype}"
    chunks = (part for part in x.split(HASH_CHUNK) if isinstance(part, Tensor))
    return [sha256(header, more=[_bytes(image)]) for part in chunks for image in part]


def hash_inputs(x: Tensor | StoredImages | NamedTensors) -> str:
    """SHA-256 of all inputs of a domain, in order.

    Stored images are not read if the hash of their file is known.
    """
    if isinstance(x, NamedTensors):
        parts = [[name, hash_inputs(value)] for name, value in sorted(x.tensors.items())]
        return sha256(json.dumps(parts))
    if isinstance(x, StoredImages) and (known := x.fingerprint()):
        return known
    return sha256(f"{tuple(x.shape)} {x.dtype}", more=map(_bytes, x.split(HASH_CHUNK)))


def hash_weights(model: nn.Module) -> str:
    """SHA-256 of the names and values of a network's weights and buffers."""
    return hash_tensors(model.state_dict())


def hash_tensors(tensors: Mapping[str, Tensor], header: str = "") -> str:
    """SHA-256 of a header and of the names, types, shapes and values of tensors."""
    return sha256(
        header,
        more=(
            part
            for name, value in sorted(tensors.items())
            for part in (f"{name} {value.dtype} {tuple(value.shape)}", _bytes(value))
        ),
    )


def _bytes(value: Tensor) -> memoryview:
    flat = value.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data
