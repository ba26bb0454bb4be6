"""Features of frozen backbones, computed once per image and cached on disk."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from riskmatch.data import OnProgress, no_progress
from riskmatch.data.catalogue import find_images, load
from riskmatch.data.domain import Augment, Domain, DomainSet, NamedTensors, StoredImages
from riskmatch.data.features import check_features_file, random_view, write_features
from riskmatch.data.sampler import stream
from riskmatch.device import resolve_device
from riskmatch.files import check_regular, file_lock, refuse_input, sha256, user_folder, write_whole
from riskmatch.models.trunk import Trunk, seeded_trunk, trunk
from riskmatch.validation import check_options

FORMAT = 1
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

    The cache is keyed by the content of the images and by the backbone with its weights and
    preprocessing. Each view of each domain is a file: an interruption loses only the one being
    computed, and further views need only themselves.

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

    def view(domain: Domain, content: str, number: int) -> Tensor:
        """Features (n, width) of every image, augmented unless ``number`` is 0."""
        augment = domains.augment if number else None
        seen = f"{augment!r}, {domain.name}, {number}" if number else "as it is"
        key = sha256(json.dumps([identity, content, seen]))
        generator = stream("view", domain.name, number)
        nonlocal done
        before = done
        features = _cached(
            folder / f"{key[:24]}.safetensors",
            lambda: _features(
                domain,
                trunk,
                augment,
                generator,
                lambda more: report("embedding", before + more, views * images),
            ),
            lambda: report("waiting for another process", 0, None),
        )
        done += len(domain)
        return features

    def embedded(domain: Domain) -> Domain:
        content = hash_inputs(domain.x)
        features = [view(domain, content, number) for number in range(views)]
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
    named: dict[str, Any] = {"image_size": image_size}
    if label:
        named["label"] = label if isinstance(label, str) else list(label)
    if group is not None:
        named["group"] = group
    if skip_unreadable:
        named["skip_unreadable"] = True
    domains = load(data, named, data_dir, on_progress)
    features = embed(domains, network, views=views, device=device, on_progress=on_progress)
    if on_progress is not None:
        on_progress(f"writing {file}", 0, None)
    write_features(features, file)
    return sum(map(len, features.domains)) * views, network.width


@torch.no_grad()
def _features(
    domain: Domain,
    trunk: Trunk,
    augment: Augment | None,
    generator: torch.Generator,
    report: Callable[[int], None],
) -> Tensor:
    device = next(trunk.parameters()).device
    out = torch.empty(len(domain), trunk.width)
    for start in range(0, len(domain), CHUNK):
        x = domain.x[start : start + CHUNK].to(device)
        out[start : start + CHUNK] = trunk(augment(x, generator) if augment else x)
        report(min(start + CHUNK, len(domain)))
    return out


def _cached(path: Path, make: Callable[[], Tensor], waiting: Callable[[], None]) -> Tensor:
    """Load the tensor in ``path``; if there is none, one process makes it and the others wait.

    A damaged file is made again, with a warning.
    """
    features, _ = _read_cached(path)
    if features is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(path.with_suffix(".lock"), waiting):
            features, fault = _read_cached(path)  # another process may have made it meanwhile
            if fault:
                warnings.warn(f"{path} is damaged and made again: {fault}.", stacklevel=2)
            if features is None:
                features = make().contiguous()
                write_whole(path, to_bytes({_KEY: features}, {"sha256": hash_inputs(features)}))
    return features


def _read_cached(path: Path) -> tuple[Tensor | None, str]:
    """The tensor in ``path``; None if there is none, with the cause where the file is damaged."""
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            features: Tensor = file.get_tensor(_KEY)
            expected = (file.metadata() or {}).get("sha256")
    except FileNotFoundError:
        return None, ""
    except SafetensorError as error:
        return None, str(error)
    if expected != hash_inputs(features):
        return None, "its checksum does not match"
    return features, ""


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
