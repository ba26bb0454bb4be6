"""What a file holds, by its first bytes."""

from __future__ import annotations

import re

ENDINGS = {
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "JPEG": (".jpg", ".jpeg"),
    "PNG": (".png",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
"""The kinds of images, and how their names end."""

HEAD = 512
"""Bytes that are enough to tell."""

_BEGINNINGS = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
)
_PATTERNS = (
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "WEBP"),
    # Two letters that text may begin with, too: so the size of the second header is looked at.
    (re.compile(rb"BM.{12}[\x0c\x10\x28\x34\x38\x40\x6c\x7c]\0\0\0", re.DOTALL), "BMP"),
    # So are the width and the height, which comments may precede.
    (re.compile(rb"P[1-6]\s+(#.*\n\s*)*\d+\s+(#.*\n\s*)*\d+\s"), "PPM"),
)


def content_of(head: bytes) -> str:
    """One of ``ENDINGS``, or what else it is in words.

    Example:
        >>> content_of(b"GIF89a..."), content_of(b"<html>404</html>"), content_of(bytes(9))
        ('GIF', 'text', 'bytes of no known image')
    """
    for beginning, kind in _BEGINNINGS:
        if head.startswith(beginning):
            return kind
    for pattern, kind in _PATTERNS:
        if pattern.match(head):
            return kind
    try:
        text = head[: HEAD - 4].decode()  # a character of UTF-8 may be cut at the end
    except UnicodeDecodeError:
        return "bytes of no known image"
    plain = all(character.isprintable() or character.isspace() for character in text)
    return "text" if plain and text.strip() else "bytes of no known image"
