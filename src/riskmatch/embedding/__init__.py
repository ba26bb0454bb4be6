"""Frozen backbones: every image embedded once, its features kept on the disk."""

from riskmatch.embedding.embed import embed
from riskmatch.embedding.table import write_features

__all__ = ["embed", "write_features"]
