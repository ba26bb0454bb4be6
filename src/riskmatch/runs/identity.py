"""What data a run was trained on, in a few values: enough to notice that they are others now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

TOLD = 4
"""Changes named in a line, at most."""


@dataclass(frozen=True)
class DataIdentity:
    """A data set as a run found it."""

    classes: tuple[str, ...]
    """The names of the classes by label; their labels where they have no names."""
    samples: Mapping[str, int]
    """How many there are, by domain."""
    content: str = ""
    """A hash of inputs and labels; empty where nobody looked into the samples."""

    def changes(self, now: DataIdentity) -> str:
        """What is otherwise ``now``, in a line; empty where nothing is.

        Example:
            >>> then = DataIdentity(("cat", "dog"), {"ink": 6}, "1f")
            >>> then.changes(DataIdentity(("dog", "owl"), {"ink": 5}))
            "class 'cat' is gone, class 'owl' is new, 'ink' has 5 samples, not 6"
            >>> then.changes(DataIdentity(("cat", "dog"), {"ink": 6}, "2e"))
            'the samples are others'
        """
        found = [*self._classes(now), *self._samples(now)]
        if not found and self.content and now.content and self.content != now.content:
            found = ["the samples are others"]
        more = [f"and {len(found) - TOLD} more"] if len(found) > TOLD else []
        return ", ".join([*found[:TOLD], *more])

    def _classes(self, now: DataIdentity) -> Iterator[str]:
        yield from (f"class '{name}' is gone" for name in self.classes if name not in now.classes)
        yield from (f"class '{name}' is new" for name in now.classes if name not in self.classes)
        if self.classes != now.classes and set(self.classes) == set(now.classes):
            yield "the classes are in another order"

    def _samples(self, now: DataIdentity) -> Iterator[str]:
        for name, count in self.samples.items():
            if name not in now.samples:
                yield f"domain '{name}' is gone"
            elif now.samples[name] != count:
                yield f"'{name}' has {now.samples[name]:,} samples, not {count:,}"
        yield from (f"domain '{name}' is new" for name in now.samples if name not in self.samples)

    def to_json(self) -> dict[str, Any]:
        """The identity as plain JSON values."""
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> DataIdentity:
        """The identity that :meth:`to_json` wrote."""
        return cls(tuple(values["classes"]), dict(values["samples"]), values["content"])
