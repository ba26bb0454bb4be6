"""Old names of riskmatch.report.comparison, until their last users have moved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from riskmatch.report import comparison
from riskmatch.report.comparison import RowKey, rows_over, select
from riskmatch.runs.config import RunConfig
from riskmatch.runs.frame import frame_of
from riskmatch.runs.records import RunRecord
from riskmatch.selection import cases, choose_among, find_rule

__all__ = ["RowKey", "Selected", "row_label", "rows_over"]


def row_label(key: RowKey) -> str:
    """The name of a row."""
    return comparison.row_label(*key)


class Selected(comparison.Selected):
    """What a rule chose on one data set."""

    @classmethod
    def of(
        cls, runs: Iterable[RunRecord], data: str, rule: str, plan: Iterable[RunConfig] = ()
    ) -> Selected:
        """What the rule chooses on a data set, from the runs of the plan if there is one."""
        planned = [config for config in plan if config.data == data]
        frame = frame_of(run for run in runs if run.config.data == data)
        found = select(frame, rule, planned).get(data)
        if found is None:
            table = cases(frame)
            found = comparison.Selected(
                data,
                find_rule(rule),
                table,
                choose_among(table, frame, find_rule(rule)),
                False,
                frame,
            )
        return cls(**vars(found))

    @property
    def choices(self) -> list[tuple[object, ...]]:
        """The choices."""
        return list(self.chosen.itertuples())

    def label(self, *key: Any) -> str:
        """The name of a row."""
        return super().label(*(key[0] if len(key) == 1 else key))
