"""Results of an examination: findings, counts, and a contact sheet of the images."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from riskmatch.data.images.decode import check_pillow, opened, to_rgb
from riskmatch.data.images.index import ImageIndex
from riskmatch.files import bytes_of, refuse_input, write_whole

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

Severity = Literal["fault", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("fault", "warning", "note")
"""A fault makes results wrong or loses images; a warning may; a note is information."""
CELL, GAP, MARGIN, HEAD = 96, 4, 120, 24
"""Pixels: side of an image, gap between two, width of class names, height of domain names."""
TRIES = 5
"""Files of a cell that are tried until one can be decoded."""
PAPER, INK, BLANK = "#ffffff", "#202020", "#e8e8e8"


@dataclass(frozen=True)
class Finding:
    """One observation about a data set, with its cure."""

    kind: str
    """Identifier such as "truncated"."""
    severity: Severity
    message: str
    """Predicate of a sentence whose subject is the path, the column or the domain."""
    cure: str
    path: str | None = None
    """File or folder relative to the root; None where the finding concerns more than one."""
    domain: str | None = None
    other: str | None = None
    """File that it is compared with."""
    column: str | None = None
    """Column of a table."""

    @property
    def subject(self) -> str:
        """The path, the column, the domain, or "the data set"."""
        return self.path or self.column or self.domain or "the data set"


@dataclass(frozen=True)
class Examination:
    """The result of examining a data set."""

    name: str
    root: str
    """Folder, manifest or table."""
    counts: Mapping[str, Mapping[str, int]]
    """Number of samples by domain and class or tag; a regression has the class ""."""
    benchmark: str | None
    """Title of the published data set that this is a copy of."""
    published: Mapping[str, int]
    """Published number of images, by the names of the domains here; empty without a benchmark."""
    findings: tuple[Finding, ...]
    """Sorted by severity, kind and subject; drift of columns by its size."""
    index: ImageIndex | None = None
    """Images in their proper place, intact or not; None for a table."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Number of samples by domain."""
    labels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By domain the share of each tag, or the ``mean`` and ``spread`` of a regression's labels;
    empty where the labels are classes."""

    @property
    def samples(self) -> str:
        """What the samples are: ``images`` or ``rows``."""
        return "rows" if self.index is None else "images"

    def __len__(self) -> int:
        return sum(self.sizes.values())

    def tally(self) -> dict[Severity, int]:
        """Number of findings by severity."""
        counts = Counter(finding.severity for finding in self.findings)
        return {severity: counts[severity] for severity in SEVERITIES}

    @property
    def exit_code(self) -> int:
        """1 if there is a fault, else 0."""
        return 1 if self.tally()["fault"] else 0

    def contact_sheet(self, file: Path) -> None:
        """Write a PNG with one image of each class in each domain.

        Raises:
            ValueError: the data are a table, or the file is one of the images.
        """
        if self.index is None:
            raise ValueError("A contact sheet is for images; leave it out for a table.")
        contact_sheet(self.index, file)

    def to_json(self) -> str:
        """The examination as JSON."""
        content = {
            "name": self.name,
            "root": self.root,
            self.samples: len(self),
            "benchmark": self.benchmark,
            "counts": self.counts,
            **({"labels": self.labels} if self.labels else {}),
            "published": dict(self.published),
            "tally": self.tally(),
            "findings": [asdict(finding) for finding in self.findings],
        }
        return json.dumps(content, indent=2)


def contact_sheet(index: ImageIndex, file: Path) -> None:
    """Write a PNG of classes or tags (rows) × domains (columns) with the first image of each.

    A cell is grey where a domain lacks a class, or where its first images cannot be decoded.

    Raises:
        ValueError: the file is one of the images.
    """
    check_pillow()
    if file.exists():
        refuse_input(file, *map(index.file, range(len(index))))
    from PIL import Image, ImageDraw, ImageFont

    step = CELL + GAP
    width = MARGIN + step * len(index.domain_names)
    lines = index.class_names or ("",)
    height = HEAD + step * len(lines)
    sheet = Image.new("RGB", (width, height), PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=13)
    for column, name in enumerate(index.domain_names):
        x = MARGIN + column * step
        draw.text((x, GAP), clipped(draw, font, name, CELL), fill=INK, font=font)
    for line, name in enumerate(lines):
        y = HEAD + line * step + CELL // 2 - GAP * 2
        draw.text((GAP, y), clipped(draw, font, name, MARGIN - 2 * GAP), fill=INK, font=font)
    for (label, domain), rows in _cells(index).items():
        corner = MARGIN + domain * step, HEAD + label * step
        picture = next(filter(None, (_thumbnail(index.file(row)) for row in rows)), None)
        sheet.paste(picture or Image.new("RGB", (CELL, CELL), BLANK), corner)
    write_whole(file, bytes_of(lambda png: sheet.save(png, "PNG")))


def _cells(index: ImageIndex) -> dict[tuple[int, int], list[int]]:
    """The first rows of each class or tag and domain."""
    lines = {name: line for line, name in enumerate(index.class_names or ("",))}
    keys = product(lines.values(), range(len(index.domain_names)))
    cells: dict[tuple[int, int], list[int]] = {key: [] for key in keys}
    for row, domain in enumerate(index.domains):
        for name in index.names(row) if index.class_names else ("",):
            if len(cells[lines[name], domain]) < TRIES:
                cells[lines[name], domain].append(row)
    return cells


def _thumbnail(path: Path) -> Image | None:
    from PIL import ImageOps

    try:
        with opened(path) as image:
            image.draft("RGB", (CELL, CELL))
            return ImageOps.fit(to_rgb(image), (CELL, CELL))
    except Exception:  # decoders raise many types on corrupt data
        return None


def clipped(draw: ImageDraw, font: FreeTypeFont | ImageFont, name: str, width: int) -> str:
    """The name, escaped where the font lacks a letter, and cut to ``width`` pixels."""
    printable = "".join(letter if letter.isprintable() else "?" for letter in name)
    text = printable.encode("latin-1", "backslashreplace").decode("latin-1")
    if draw.textlength(text, font=font) <= width:
        return text
    while text and draw.textlength(f"{text}...", font=font) > width:
        text = text[:-1]
    return f"{text}..."
