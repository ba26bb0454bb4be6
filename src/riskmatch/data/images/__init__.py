"""Image data sets: index files, decode them once, feed them from memory."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
