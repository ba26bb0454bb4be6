"""The numbers of the paper, as printed, to stand beside ours; nothing here computes."""

from riskmatch.report.published.accuracy import PER_DOMAIN, TABLE2, WRONG_AVERAGES, Published, Row
from riskmatch.report.published.efficiency import EFFICIENCY, Cost

PAPER = "Nguyen et al., Domain Generalisation via Risk Distribution Matching, WACV 2024"

__all__ = [
    "EFFICIENCY",
    "PAPER",
    "PER_DOMAIN",
    "TABLE2",
    "WRONG_AVERAGES",
    "Cost",
    "Published",
    "Row",
]
