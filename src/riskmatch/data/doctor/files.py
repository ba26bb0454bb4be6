"""What is wrong with a file by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from riskmatch.data.doctor.examination import Finding, Severity
from riskmatch.data.doctor.look import EMPTY, REFUSED, TOO_LARGE, Look
from riskmatch.data.doctor.signature import ENDINGS
from riskmatch.data.images.index import ImageIndex

SMALL = 16
"""Pixels of a side below which there is little to see."""
LARGE = 8_000
"""Pixels of a side above which decoding takes long and much memory."""
ELONGATED = 8
"""Sides in this ratio leave next to nothing of the picture in a square crop."""
SCALE = f"Scale it down to sides of at most {LARGE:,} pixels."
PLAIN = "Save it as 8-bit RGB."
AGAIN = "Get the file again, or delete it."


def check_file(path: str, domain: str, look: Look) -> Iterator[Finding]:
    """The findings on one file."""

    def found(kind: str, severity: Severity, message: str, cure: str) -> Finding:
        return Finding(kind, severity, message, cure, path=path, domain=domain)

    name = PurePosixPath(path)
    if look.error is not None:
        if look.error == EMPTY:
            yield found("empty", "fault", "has zero bytes", AGAIN)
        elif look.error.startswith(TOO_LARGE):
            yield found("huge-image", "fault", f"has {look.error}", SCALE)
        elif look.error.startswith(REFUSED):
            yield found("odd-colours", "fault", f"has {look.error}", PLAIN)
        elif not look.content:
            cure = "Mend the link or the rights, or delete it."
            yield found("unreadable", "fault", f"cannot be opened ({look.error})", cure)
        elif look.holds not in ENDINGS:
            yield found("no-image", "fault", f"holds {look.holds}, no image", AGAIN)
        elif look.cut:
            message = f"is a {look.holds} image whose end is missing ({look.error})"
            yield found("truncated", "fault", message, AGAIN)
        else:
            message = f"is a {look.holds} image that cannot be decoded ({look.error})"
            yield found("damaged", "fault", message, AGAIN)
        return

    endings = ENDINGS.get(look.holds, (f".{look.holds.lower()}",))
    if name.suffix.lower() not in endings:
        right = name.with_suffix(endings[0])
        message = f"has the name of {_kind_named(name.suffix)}, and is a {look.holds} image"
        yield found("wrong-extension", "warning", message, f"Rename it to {right}.")
    width, height = look.size
    if min(look.size) < SMALL:
        message = f"is only {width}×{height} pixels"
        yield found("tiny-image", "warning", message, "Get a larger one, or delete it.")
    elif max(look.size) > LARGE:
        yield found("huge-image", "warning", f"is {width:,}×{height:,} pixels", SCALE)
    if max(look.size) >= ELONGATED * min(look.size):
        message = f"is {width}×{height} pixels, a strip"
        yield found("elongated", "warning", message, "Crop it to what it shows, or delete it.")
    if look.mode == "CMYK":
        message = "is CMYK; libraries turn it into RGB in different ways"
        yield found("odd-colours", "warning", message, PLAIN)
    elif look.deep and not look.thumbnail:
        message = f"is more than 8 bits deep ({look.mode}), of which the loader sees one colour"
        yield found("odd-colours", "warning", message, "Scale its values to all of its range.")


def check_colours(index: ImageIndex, looks: Sequence[Look]) -> Iterator[Finding]:
    """For each domain, how many images the loader scales by their depth, or lays on white."""
    for place, domain in enumerate(index.domain_names):
        rows = [row for row, home in enumerate(index.domains) if home == place]
        if deep := [index.paths[row] for row in rows if looks[row].deep]:
            message = f"has images of more than 8 bits ({_some(deep)}), scaled by their depth"
            cure = "Leave them so, or scale them yourself."
            yield Finding("depth", "note", message, cure, domain=domain)
        if clear := [index.paths[row] for row in rows if looks[row].transparent]:
            message = f"has images that are transparent in part ({_some(clear)}), laid on white"
            cure = "Leave them so, or lay them on another ground yourself."
            yield Finding("transparency", "note", message, cure, domain=domain)


def _some(paths: Sequence[str]) -> str:
    return f"{len(paths):,}, the first {paths[0]}"


def _kind_named(suffix: str) -> str:
    kinds = [kind for kind, endings in ENDINGS.items() if suffix.lower() in endings]
    return f"a {kinds[0]} image" if kinds else "no image"
