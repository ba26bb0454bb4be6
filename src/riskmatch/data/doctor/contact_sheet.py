"""Draw a contact sheet: one image of each class in each domain."""

from __future__ import annotations

from io import BytesIO
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from riskmatch.data.images.decode import check_pillow, opened, to_rgb
from riskmatch.data.images.index import ImageIndex
from riskmatch.files import refuse_input, write_whole

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

CELL, GAP, MARGIN, HEAD = 96, 4, 120, 24
"""Pixels: side of an image, gap between two, width of class names, height of domain names."""
TRIES = 5
"""Files of a cell that are tried until one can be decoded."""
PAPER, INK, BLANK = "#ffffff", "#202020", "#e8e8e8"


def contact_sheet(index: ImageIndex, file: Path) -> None:
    """Write a PNG of classes (rows) × domains (columns) with the first image of each.

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
    height = HEAD + step * len(index.class_names)
    sheet = Image.new("RGB", (width, height), PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=13)
    for column, name in enumerate(index.domain_names):
        x = MARGIN + column * step
        draw.text((x, GAP), clipped(draw, font, name, CELL), fill=INK, font=font)
    for line, name in enumerate(index.class_names):
        y = HEAD + line * step + CELL // 2 - GAP * 2
        draw.text((GAP, y), clipped(draw, font, name, MARGIN - 2 * GAP), fill=INK, font=font)
    for (label, domain), rows in _cells(index).items():
        corner = MARGIN + domain * step, HEAD + label * step
        picture = next(filter(None, (_thumbnail(index.file(row)) for row in rows)), None)
        sheet.paste(picture or Image.new("RGB", (CELL, CELL), BLANK), corner)
    png = BytesIO()
    sheet.save(png, "PNG")
    write_whole(file, png.getvalue())


def _cells(index: ImageIndex) -> dict[tuple[int, int], list[int]]:
    """The first rows of each label and domain."""
    keys = product(range(len(index.class_names)), range(len(index.domain_names)))
    cells: dict[tuple[int, int], list[int]] = {key: [] for key in keys}
    for row, key in enumerate(zip(index.labels, index.domains, strict=True)):
        if len(cells[key]) < TRIES:
            cells[key].append(row)
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
