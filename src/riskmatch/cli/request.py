"""From the words after ``riskmatch train`` to a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from riskmatch.cli.errors import BadInput, check_name
from riskmatch.cli.options import Option, options_of
from riskmatch.cli.parser import Parser
from riskmatch.cli.toml import words_of
from riskmatch.config import RunConfig
from riskmatch.recipes import PRESETS, configure, recipe, space_of

WHAT = [
    Option("method", str, "What to train with; riskmatch methods lists them"),
    Option("preset", str, "A named, complete set of choices; options that are given win"),
    Option("config", Path, "A TOML file with any of these options; the command line wins"),
]
REST = [
    Option("out", Path, "The folder of all runs", Path("runs")),
    Option("data_dir", Path, "A folder in which to look for the files of DATA first"),
    Option(
        "device", str, "where to train: cpu, cuda:1, …; auto takes a GPU if there is one", "auto"
    ),
    Option("resume", bool, "Go on with this run from its last checkpoint"),
    Option("tensorboard", bool, "Write TensorBoard events to the folder of the run"),
    Option("quiet", bool, "Print nothing but errors"),
    Option("json", bool, "Print the last evaluation as JSON"),
    Option("help", bool, "This text; after --method, with the options of that method"),
]


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    config: RunConfig
    command: str
    """The command line itself, to copy."""
    out: Path = Path("runs")
    data_dir: Path | None = None
    device: str = "auto"
    resume: bool = False
    tensorboard: bool = False
    quiet: bool = False
    json: bool = False

    @property
    def folder(self) -> Path:
        """Where the run keeps its files."""
        return self.out / self.config.id

    @property
    def onward(self) -> str:
        """The command that goes on with the run."""
        return self.command if self.resume else f"{self.command} --resume"


def read(argv: Sequence[str]) -> Request | str:
    """The request, or the help that was asked for."""
    what = _what(argv)
    written = words_of(what["config"]) if "config" in what else []
    what = {**_what(written), **what}
    method, preset = what.get("method"), what.get("preset")
    _check(method, preset)
    things, given = _parser(method).parse(argv)
    if "help" in given:
        data = things[0] if things else None
        return _parser(method, data, preset).format_help()
    try:
        named, said = _parser(method).parse(written)
    except BadInput as error:
        raise BadInput(f"{what['config']}: {error}") from error
    return _request(things or named, {**said, **given}, shlex.join(["riskmatch", "train", *argv]))


def _what(words: Sequence[str]) -> dict[str, Any]:
    """The options on which the others depend."""
    parser = Parser("train", "", "")
    parser.add("", WHAT)
    return vars(parser.parse_known_args(list(words))[0])


def _check(method: str | None, preset: str | None) -> None:
    if method is not None:
        from riskmatch.objectives import methods

        check_name("method", method, sorted(methods()))
        if preset is not None:
            check_name(f"preset of {method}", preset, PRESETS.get(method, ()))


def _parser(method: str | None, data: str | None = None, preset: str | None = None) -> Parser:
    """The parser for a method; its help shows what holds on the data set ``data``."""
    values, space = recipe(method, data, preset), space_of(method, data)
    parser = Parser(
        "train",
        f"DATA --method {method or 'NAME'} --test-domain D [options]",
        "Train one model with one method, on every domain of DATA but the test domains.\n"
        "DATA is the name of a data set or a path.",
        "example\n  riskmatch train colored-digits --method rdm --test-domain 0.1",
    )
    run = [
        option
        for option in options_of(RunConfig, values, space, data)
        if option.name not in ("data", "method", "hparams")
    ]
    parser.add("what to train", WHAT)
    if method:
        own = options_of(_cls(method), values, space, data)
        parser.add(f"options of {method}", own)
        parser.elsewhere = _elsewhere({option.flag for option in [*run, *own]}, method)
    else:
        note = "shown by riskmatch train --method NAME --help"
        parser.add("options of the method", [], note)
    parser.add("options of the run", run)
    parser.add("records and machine", REST)
    return parser


def _cls(method: str) -> type:
    from riskmatch.objectives import methods

    return methods()[method]


def _elsewhere(known: set[str], method: str) -> dict[str, str]:
    """For each option that only other methods have, what to say of it."""
    from riskmatch.objectives import methods

    owners: dict[str, list[str]] = {}
    for name, cls in methods().items():
        for field in fields(cls):
            owners.setdefault("--" + field.name.replace("_", "-"), []).append(name)
    return {
        flag: f"Method {method} has no {flag}; it belongs to {', '.join(names)}."
        for flag, names in owners.items()
        if flag not in known
    }


def _request(things: list[str], given: dict[str, Any], command: str) -> Request:
    method, preset = given.pop("method", None), given.pop("preset", None)
    given.pop("config", None)
    if len(things) != 1:
        named = f"not {len(things)}: {' '.join(things)}" if things else "such as colored-digits"
        raise BadInput(f"Name one data set, {named}. See riskmatch train --help.")
    if method is None:
        raise BadInput("Which method? Give --method NAME; riskmatch methods lists them.")
    (data,) = things
    tests = given.pop("test_domains", ())
    if not tests:
        raise BadInput(f"Which domain to test on? Give --test-domain, {_domains(data, given)}.")
    machine = {option.name: given.pop(option.name) for option in REST if option.name in given}
    try:
        config = configure(method, data, tests, {**recipe(method, data, preset), **given})
    except ValueError as error:
        raise BadInput(str(error)) from error
    return Request(config, command, **machine)


def _domains(data: str, given: dict[str, Any]) -> str:
    from riskmatch.data import load

    try:
        names = load(data, given.get("data_options"), given.get("data_dir")).names
        return f"one of {', '.join(names)}"
    except (ValueError, OSError, ImportError) as error:
        raise BadInput(str(error)) from error
