"""From the words after ``riskmatch train`` to a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from riskmatch.cli.errors import BadInput, check_name
from riskmatch.cli.options import Option, options_of, range_of
from riskmatch.cli.parser import Parser
from riskmatch.cli.toml import words_of
from riskmatch.defaults import PRESETS, method_class, resolve, run_config, search_space
from riskmatch.runs.config import RunConfig

TEXT = """\
Train one model with one method, on every domain of DATA but the test domains.

The options of a method: riskmatch train --method NAME --help

example
  riskmatch train colored-digits --method rdm --test-domain 0.1"""


@dataclass(frozen=True)
class What:
    """What to train; on these options the others depend."""

    method: str | None = None
    """What to train with; riskmatch methods lists them."""
    frozen: bool = False
    """Train the head alone, on the features of a fixed backbone."""
    preset: str | None = None
    """A named, complete set of choices; options that are given win."""
    config: Path | None = None
    """A TOML file with any of these options; the command line wins."""


@dataclass(frozen=True)
class Machine:
    """Where a run runs, what it shows and what it leaves behind."""

    out: Path = Path("runs")
    """The folder of all runs."""
    data_dir: Path | None = None
    """A folder in which to look for the files of DATA first."""
    device: str = "auto"
    """Where to train: cpu, cuda:1, …; auto takes a GPU if there is one."""
    resume: bool = False
    """Go on with this run from its last checkpoint."""
    tensorboard: bool = False
    """Write TensorBoard events to the folder of the run."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the last evaluation as JSON."""


@dataclass(frozen=True)
class Request(Machine):
    """What the command line asks for."""

    config: RunConfig = field(kw_only=True)
    command: str = field(kw_only=True)
    """The command line itself, to copy."""

    @property
    def folder(self) -> Path:
        """Where the run keeps its files."""
        return self.out / self.config.id

    @property
    def onward(self) -> str:
        """The command that goes on with the run."""
        return self.command if self.resume else f"{self.command} --resume"


def read(words: Sequence[str]) -> Request:
    """The request; where help is asked for, it is printed and the process ends."""
    glance = Parser("riskmatch train", "", options_of(What)).glance
    said = glance(words)
    written = words_of(said["config"]) if "config" in said else []
    what = What(**{**(glance(written) if written else {}), **said})
    _check(what)
    parser = _parser(what)
    asked = [word for word in words if word not in ("-h", "--help")]
    given = parser.parse(asked)
    if written:
        try:
            given = {**parser.parse(written), **given}
        except BadInput as error:
            raise BadInput(f"{what.config}: {error}") from error
    if len(asked) < len(words):
        _parser(what, given.get("data")).parse(["--help"])
    return _request(what, given, shlex.join(["riskmatch", "train", *words]))


def _check(what: What) -> None:
    if what.method is not None:
        from riskmatch.objectives import methods

        check_name("method", what.method, sorted(methods()))
        if what.preset is not None:
            check_name(f"preset of {what.method}", what.preset, PRESETS.get(what.method, ()))


def _parser(what: What, data: str | None = None) -> Parser:
    """The parser for a method; its help shows what holds on the data set ``data``."""
    values = resolve(what.method, data, preset=what.preset, frozen=what.frozen)
    space = search_space(what.method, data, preset=what.preset, frozen=what.frozen)

    def told(cls: type) -> Iterator[Option]:
        for option in options_of(cls):
            tuned = space.get(option.name)
            yield replace(
                option,
                default=values.get(option.name),
                searched=range_of(tuned.on(data)) if tuned else "",
                pair=option.kind is bool,
                aliases=("--backbone",) if option.name == "model" else (),
            )

    thing = Option("data", str, "The name of a data set, or a path", thing=True, required=True)
    parser = Parser("riskmatch train", TEXT, [thing, *options_of(What)])
    if what.method:
        parser.add(what.method, told(method_class(what.method)))
    run = [option for option in told(RunConfig) if option.name not in ("data", "method", "hparams")]
    parser.add("run", run)
    parser.add("machine", options_of(Machine))
    parser.elsewhere = _elsewhere(what.method) if what.method else {}
    return parser


def _elsewhere(method: str) -> dict[str, str]:
    """What to say of the options of other methods, by their flag."""
    from riskmatch.objectives import methods

    owners: dict[str, list[str]] = {}
    for name, cls in methods().items():
        for item in fields(cls):
            owners.setdefault("--" + item.name.replace("_", "-"), []).append(name)
    return {
        flag: f"Method {method} has no {flag}; it belongs to {', '.join(names)}."
        for flag, names in owners.items()
    }


def _request(what: What, given: dict[str, Any], command: str) -> Request:
    data, method = given.get("data"), what.method
    if data is None:
        raise BadInput("Name a data set, such as colored-digits. See riskmatch train --help.")
    if method is None:
        raise BadInput("Which method? Give --method NAME; riskmatch methods lists them.")
    tests = given.get("test_domains")
    if not tests:
        raise BadInput(f"Which domain to test on? Give --test-domain, {_domains(data, given)}.")
    machine = {item.name: given[item.name] for item in fields(Machine) if item.name in given}
    others = {"data", "test_domains", *machine, *(item.name for item in fields(What))}
    values = {name: value for name, value in given.items() if name not in others}
    try:
        config = run_config(
            method, data, tests, preset=what.preset, frozen=what.frozen, given=values
        )
    except ValueError as error:
        raise BadInput(str(error)) from error
    return Request(config=config, command=command, **machine)


def _domains(data: str, given: dict[str, Any]) -> str:
    from riskmatch.data.catalogue import known_domains, load

    try:
        names = known_domains(data)
        if names is None:
            names = load(data, given.get("data_options"), given.get("data_dir")).names
        return f"one of {', '.join(names)}"
    except (ValueError, OSError, ImportError) as error:
        raise BadInput(str(error)) from error
