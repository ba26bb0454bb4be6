"""The advice of ``riskmatch advise``: what to train, and what to expect of it on a new domain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from riskmatch.defaults import field_names
from riskmatch.deployment.folder import Expected, check_format
from riskmatch.files import read_file, to_json, write_whole
from riskmatch.runs.config import RunConfig
from riskmatch.trust import admit
from riskmatch.validation import check_json, check_option

FORMAT = "riskmatch advice 1"
_SCHEMA = {
    "data": str,
    "method": str,
    "hparams": Mapping[str, Any],
    "options": Mapping[str, Any],
    "expected": Mapping[str, Any] | None,
}


@dataclass(frozen=True)
class Advice:
    """A method with its hyper-parameters and the options of a run, for a data set.

    Example:
        >>> advice = Advice("pacs", "rdm", {"weight": 5.0}, {"steps": 900}, Expected(0.8, 0.6, 0.9))
        >>> advice.given
        {'steps': 900, 'weight': 5.0}
        >>> str(Advice.from_json(advice.to_json()).expected)
        '0.800 [0.600, 0.900] (90%)'
    """

    data: str
    """Data set that the advice was computed on."""
    method: str
    hparams: Mapping[str, Any] = field(default_factory=dict)
    """Hyper-parameters of the method by name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of :class:`~riskmatch.runs.config.RunConfig` by name."""
    expected: Expected | None = None
    left_out: Sequence[Sequence[str]] = ()
    """Sets of domains that were left out in turn, each one domain or siblings."""

    @property
    def given(self) -> dict[str, Any]:
        """Options and hyper-parameters, as :func:`riskmatch.train` takes them."""
        return {**self.options, **self.hparams}

    def to_json(self) -> dict[str, Any]:
        """Advice as plain JSON values; a file may hold further ones."""
        expected = None if self.expected is None else self.expected.to_json()
        groups = [list(group) for group in self.left_out]
        return {"format": FORMAT, **asdict(self), "expected": expected, "left_out": groups}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Advice:
        """Advice from the values of :meth:`to_json`; further values are ignored.

        Raises:
            ValueError: the format is another, or a value is missing or wrong.
        """
        check_format(values, FORMAT)
        check_json(values, _SCHEMA)
        for name in values["options"]:
            check_option("option in the advice", name, field_names())
        check_json(groups := values.get("left_out", []), [[str]], "left_out")
        known = {name: values[name] for name in _SCHEMA} | {"left_out": tuple(map(tuple, groups))}
        return cls(**known | {"expected": Expected.from_json(values["expected"])})


def read_advice(path: Path | str, *, trust: bool = False) -> Advice:
    """Read the file that ``riskmatch advise`` wrote.

    Args:
        path: the file.
        trust: allow the parts ``package.module:Name`` that it names to be imported.

    Raises:
        UntrustedError: it names a part that is not trusted.
        OSError: the file cannot be read.
        ValueError: it is no advice, or that of another version.
    """
    try:
        advice = Advice.from_json(json.loads(read_file(Path(path))))
    except (ValueError, TypeError, RecursionError) as error:
        cause = str(error).rstrip(".")
        raise ValueError(
            f"{path} is no advice that this version reads: {cause}. Write it again with riskmatch "
            "advise."
        ) from error
    texts = (text for text in advice.given.values() if isinstance(text, str))
    admit([advice.method, *texts], Path(path), trust)
    return advice


def with_advice(advice: Advice, method: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Values to give to a run: those of the advice, with ``given`` over them.

    The hyper-parameters of the advice apply to its own method alone.

    Example:
        >>> advice = Advice("pacs", "rdm", {"weight": 5.0}, {"steps": 900, "lr": 0.1})
        >>> with_advice(advice, "rdm", {"lr": 0.2}), with_advice(advice, "erm", {})
        ({'steps': 900, 'lr': 0.2, 'weight': 5.0}, {'steps': 900, 'lr': 0.1})
    """
    values = {**(advice.given if method == advice.method else advice.options)}
    for name, value in given.items():
        both = isinstance(value, Mapping) and isinstance(values.get(name), Mapping)
        values[name] = {**values[name], **value} if both else value
    return values


def departure(advice: Advice, config: RunConfig, given: Mapping[str, Any]) -> str | None:
    """How a run with ``given`` departs from the advice; None where it follows it.

    What the advice expects is that of a run that follows it.

    Example:
        >>> advice = Advice("pacs", "erm", {}, {"lr": 0.1})
        >>> departure(advice, RunConfig("pacs", (), "erm", {}), {"lr": 0.2})
        'lr is given'
    """
    if config.data != advice.data:
        return f"the run trains on {config.data}"
    if config.method != advice.method:
        return f"the run trains with {config.method}"
    values = with_advice(advice, config.method, given)
    for name, value in advice.given.items():
        if values[name] != value:
            return f"{name} is given"
    return None


def write_advice(advice: Advice, path: Path | str) -> None:
    """Write advice to a file, whole or not at all."""
    write_whole(Path(path), (to_json(advice.to_json(), indent=2) + "\n").encode())
