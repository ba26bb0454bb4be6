"""What to know of a result before it is believed: the budget, and which data it is not about."""

from __future__ import annotations

from riskmatch.experiments.experiment import STAND_IN, Budget, Request
from riskmatch.report import titles

NOTES: dict[Budget, str] = {
    "smoke": "The budget smoke shows that everything works, with few methods and few steps: its "
    "numbers are not to be compared with the paper's.",
    "laptop": "The budget laptop trains heads on the frozen features of a network smaller than the "
    "paper's ResNet-50, which was trained whole: compare methods with each other, not with the "
    "paper's numbers. Seconds and memory are those of the head.",
    "paper": "",
}
"""What to know of each budget."""


def left_out(request: Request) -> str:
    """The data sets that are not in the result, and how to have them; empty where none is."""
    told = ", ".join(f"{titles.DATA[name]} ({cure})" for name, cure in request.absent.items())
    return f"Left out: {told}." if told and not request.stands_in else ""


def in_place_of(request: Request) -> str:
    """What a caption begins with where the data is not the experiment's own."""
    if not request.stands_in:
        return ""
    names = ", ".join(titles.DATA[name] for name in request.absent)
    return f"{STAND_IN}, scikit-learn's handwritten digits, in place of {names}. "
