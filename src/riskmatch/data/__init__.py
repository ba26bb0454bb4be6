"""Domains and batches: data sets by name, from files and from objects in memory."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
