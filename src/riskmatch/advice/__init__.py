"""Which method to train for a new domain, and what it is worth."""

from typing import TYPE_CHECKING

from riskmatch.lazy import lazy_names

if TYPE_CHECKING:
    from riskmatch.advice.advice import Advice, read_advice, write_advice
    from riskmatch.advice.advising import advise
    from riskmatch.advice.report import Advised

__all__ = ["Advice", "Advised", "advise", "read_advice", "write_advice"]

_HOMES = {
    "Advice": "advice",
    "Advised": "report",
    "advise": "advising",
    "read_advice": "advice",
    "write_advice": "advice",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
