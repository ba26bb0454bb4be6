"""Render page data as one self-contained HTML file."""

from riskmatch.report.html.render import render, write_report

__all__ = ["render", "write_report"]
