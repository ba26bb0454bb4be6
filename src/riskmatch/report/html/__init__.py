"""The one-file report: page data in, one HTML text out, which asks the network for nothing."""

from riskmatch.report.html.document import page

__all__ = ["page"]
