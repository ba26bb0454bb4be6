"""Web pages that come where a file was asked for: what they are told by, where they lead."""

from __future__ import annotations

import base64
import binascii
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

START = 512
"""Bytes by which a page is told."""
BUTTON = "downloadButton"
"""What MediaFire calls the link to the file on its pages."""


def is_page(start: bytes) -> bool:
    """Whether a file that begins so is a web page.

    Example:
        >>> is_page(b" <!DOCTYPE html>"), is_page(b"PK")
        (True, False)
    """
    return start.lstrip().lower().startswith((b"<!doctype", b"<html"))


def linked_file(page: str, url: str) -> str | None:
    """The address behind the download button of a page; None where it has no such button.

    The address is the link itself, or the button's ``data-scrambled-url``, in base 64.

    Args:
        page: its HTML.
        url: where it came from, which a link may be relative to.

    Example:
        >>> linked_file('<a id="downloadButton" href="/f/data.zip">Download</a>', "http://a.org/p")
        'http://a.org/f/data.zip'
    """
    reader = _Button()
    reader.feed(page)
    link = urljoin(url, reader.link) if reader.link else ""
    return link if urlsplit(link).scheme in ("http", "https") else None


class _Button(HTMLParser):
    link: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag == "a" and said.get("id") == BUTTON:
            self.link = _plain(said.get("data-scrambled-url")) or said.get("href")


def _plain(scrambled: str | None) -> str | None:
    try:
        return base64.b64decode(scrambled or "", validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return None
