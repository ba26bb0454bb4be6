"""Models to ship: the model folder, predictions, evaluation, export and monitoring."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
