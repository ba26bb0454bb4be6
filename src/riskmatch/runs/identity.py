"""Identity of the data of a run: a few values by which a change is detected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from riskmatch.validation import check_json

MAX_CHANGES = 4
"""Most changes that a message lists."""


@dataclass(frozen=True)
class DataIdentity:
    """Classes, number of samples and content of a data set."""

    classes: tuple[str, ...]
    """Names of the classes by label; the labels if they have no names."""
    samples: Mapping[str, int]
    """Number of samples by domain."""
    content: str = ""
    """Hash of inputs and labels; empty if the samples were not read."""

    def changes(self, current: DataIdentity) -> str:
        """Describe how ``current`` differs, in one line; empty if it does not.

        Example:
            >>> before = DataIdentity(("cat", "dog"), {"ink": 6}, "1f")
            >>> before.changes(DataIdentity(("dog", "owl"), {"ink": 5}))
            "class 'cat' was removed, class 'owl' was added, 'ink' has 5 samples instead of 6"
            >>> before.changes(DataIdentity(("cat", "dog"), {"ink": 6}, "2e"))
            'the samples differ'
        """
        changes = [*self._classes(current), *self._samples(current)]
        if not changes and self.content and current.content and self.content != current.content:
            changes = ["the samples differ"]
        more = [f"and {len(changes) - MAX_CHANGES} more"] if len(changes) > MAX_CHANGES else []
        return ", ".join([*changes[:MAX_CHANGES], *more])

    def _classes(self, current: DataIdentity) -> Iterator[str]:
        before, now = set(self.classes), set(current.classes)  # labels may be 100,000
        removed = [name for name in self.classes if name not in now]
        added = [name for name in current.classes if name not in before]
        yield from (f"class '{name}' was removed" for name in removed)
        yield from (f"class '{name}' was added" for name in added)
        if not removed and not added and self.classes != current.classes:
            yield "the order of the classes differs"

    def _samples(self, current: DataIdentity) -> Iterator[str]:
        for name, count in self.samples.items():
            if name not in current.samples:
                yield f"domain '{name}' was removed"
            elif current.samples[name] != count:
                yield f"'{name}' has {current.samples[name]:,} samples instead of {count:,}"
        added = [name for name in current.samples if name not in self.samples]
        yield from (f"domain '{name}' was added" for name in added)

    def to_json(self) -> dict[str, Any]:
        """Identity as plain JSON values."""
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> DataIdentity:
        """Identity from the values of :meth:`to_json`; ``ValueError`` for others."""
        try:
            samples = {name: int(count) for name, count in values["samples"].items()}
            return cls(tuple(map(str, values["classes"])), samples, str(values["content"]))
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            schema = {"classes": Sequence[str], "samples": {str: int}, "content": str}
            check_json(values, schema, "data")  # raises an error that names the value
            raise
