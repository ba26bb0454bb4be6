"""Options of ``riskmatch train``, parsed into the configuration of a run."""

from __future__ import annotations

import inspect
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Literal

from riskmatch import trust
from riskmatch.advice.advice import read_advice
from riskmatch.cli.errors import BadInput
from riskmatch.cli.options import Option, metavar, options_of
from riskmatch.cli.parser import Parser, TableColumns, run_options, with_columns
from riskmatch.defaults import (
    domainbed_options,
    factory,
    method_class,
    range_of,
    resolve,
    search_space,
    values_of,
)
from riskmatch.defaults.describe import argument_docs
from riskmatch.files import read_file
from riskmatch.registry import built_in
from riskmatch.runs.config import RunConfig
from riskmatch.validation import format_value, listed, type_hints

if TYPE_CHECKING:
    from riskmatch.training import PreparedRun

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXT = """\
Train one model with one method, on every domain of DATA but the test domains; or, with
--all-domains, on every domain, and write a folder with the model to ship.

Options of DATA and of its network: riskmatch train DATA --help, or with --model NAME.
Options of a method: riskmatch train DATA --method NAME --help

Parts of your own are named package.module:Name, found from the current folder.

examples
  riskmatch train colored-digits --method rdm --test-domain 0.1
  riskmatch train visits.csv --label late --domain airport --method rdm --test-domain JFK"""


@dataclass
class Setup:
    """Options that decide which further options there are, and their defaults."""

    method: str | None = None
    """Method: a name that riskmatch methods lists, or package.module:Name."""
    frozen: bool = False
    """Train the head alone, on the features of a frozen backbone; unless --steps or --patience are
    given, it stops when the validation risk is flat, as on a file of features."""
    preset: str | None = None
    """paper, authors-code for what its released code does, or domainbed; options that are given
    win."""
    advice: Path | None = None
    """File that riskmatch advise wrote: method, options and what to expect; options that are given
    win."""
    domainbed_hparams: Path | None = None
    """JSON file of DomainBed's hyper-parameters of the method; those that are no options here are
    listed, and options that are given win."""
    config: Path | None = None
    """TOML file with any of these options; the command line wins."""


@dataclass
class ExecutionOptions:
    """Options that do not change the result of a run."""

    settings: bool = False
    """Print the value of every setting and where it comes from, and train nothing."""
    cost: bool = False
    """Estimate time and memory from a few steps, print them, and train nothing."""
    memory: float | None = None
    """With --cost: memory in GB that --accumulate has to fit in."""
    all_domains: bool = False
    """Train on all domains, and write the model folder."""
    save: Path | None = None
    """The model folder of --all-domains; by default model in the folder of the run. Another model
    that is there is replaced only with --overwrite."""
    no_left_out: bool = False
    """Do not train --all-domains again without each domain in turn, at most ten runs. What these
    models say on the domains left out is stored with the model: monitor and estimate compare new
    sites with it."""
    leave_out_together: tuple[str, ...] = ()
    """Domains that count as one site for these runs, as in site-c+site-d; by default those that
    --advice left out together."""
    after_warmup: bool = False
    """Choose the step of --all-domains among those at which the method acts."""
    licence: str | None = None
    """Licence of the model, such as MIT, for its card."""
    overwrite: bool = False
    """Replace another model in the model folder; files of your own stay there."""
    out: Path = Path("runs")
    """Folder of all runs."""
    data_dir: Path | None = None
    """Folder searched first for the files of DATA."""
    device: str = "auto"
    """Device to train on: cpu, cuda:1, …; auto takes a GPU if there is one."""
    resume: bool = False
    """Continue this run from its last checkpoint."""
    restart: bool = False
    """Start this run again where it was interrupted or failed; its evaluations are removed."""
    force: bool = False
    """Train this run again, even if it is finished."""
    log_every: int | None = None
    """Steps after which the terms are read from the device and checked; by default 1 on a CPU and
    10 on a GPU, which would wait."""
    keep: Literal["best", "all"] = "best"
    """Checkpoints to keep: the last two and those of the best steps by train-val, or all."""
    log: tuple[str, ...] = ()
    """Also write every evaluation as csv, tensorboard (both to the folder of the run), mlflow, or
    with package.module:Name."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the last evaluation as JSON."""


def parse_train(words: Sequence[str]) -> tuple[PreparedRun, dict[str, Any]]:
    """Parse the words after ``riskmatch train``: the run, and given ExecutionOptions."""
    parse_setup = Parser("riskmatch train", "", options_of(Setup), help=False).parse_known
    given = parse_setup(words)
    written = toml_words(given["config"]) if "config" in given else []
    setup = Setup(**{**parse_setup(written), **given})
    advice = None if setup.advice is None else read_advice(setup.advice)
    if advice is not None:
        setup.method = setup.method or advice.method
    parser = _parser(setup)
    without_help = [word for word in words if word not in ("-h", "--help")]
    given = parser.parse(without_help)
    try:
        _check_repeated(parser, written)
        given = {**parser.parse(written), **given}
    except BadInput as error:
        raise BadInput(f"{setup.config}: {error}") from error
    if len(without_help) < len(words):
        _parser(setup, given.get("data"), given.get("model")).parse(["--help"])
    _check_together(setup, given)
    if setup.domainbed_hparams is not None and setup.method is not None:
        given = {**domainbed_options(setup.method, setup.domainbed_hparams), **given}
    for name in ("drop_missing_labels", "skip_unreadable"):
        if given.pop(name, False):
            given["data_options"] = {**given.get("data_options", {}), name: True}
    execution = {
        item.name: given[item.name] for item in fields(ExecutionOptions) if item.name in given
    }
    used = {"data", "test_domains", *execution, *(item.name for item in fields(Setup))}
    from riskmatch.training import prepare

    prepared = prepare(
        given["data"],
        setup.method,
        given.get("test_domains", ()),
        preset=setup.preset,
        frozen=setup.frozen,
        advice=advice,
        **{name: value for name, value in given.items() if name not in used},
    )
    return prepared, execution


def _parser(setup: Setup, data: str | None = None, model: str | None = None) -> Parser:
    """Parser of the options of a method; its help shows the defaults on a data set."""
    values = values_of(
        resolve(setup.method, data, preset=setup.preset, frozen=setup.frozen, single=True)
    )
    space = search_space(setup.method, data, preset=setup.preset, frozen=setup.frozen)

    def with_defaults(options: Iterable[Option]) -> Iterator[Option]:
        for option in options:
            tuned = space.get(option.name)
            range = range_of(tuned.on(data)) if tuned else ""
            negatable = option.type_ is bool
            yield replace(option, default=values.get(option.name), range=range, negatable=negatable)

    positional = replace(options_of(RunConfig)[0], positional=True, required=True)
    text = "\n\n".join([TEXT, *_own_options(data, model, values["model"])])
    parser = Parser("riskmatch train", text, [positional, *options_of(Setup)])
    if setup.method:
        method_options = options_of(method_class(setup.method))
        parser.add(setup.method.rpartition(":")[2], with_defaults(method_options))
    parser.add("run", with_defaults(run_options()))
    parser.add("data", options_of(TableColumns))
    parser.add("execution", options_of(ExecutionOptions))
    parser.hints = _options_of_others(setup.method) if setup.method else {}
    return parser


def _own_options(data: str | None, model: str | None, usual: str) -> Iterator[str]:
    """Help on the options of the data set and of the network, by default that of the data set.

    Nothing without either, as it takes importing torch.
    """
    network = model or (usual if data else None)
    for flag, kind, name in (("--data-option", "data", data), ("--model-option", "model", network)):
        if name is None:
            continue
        lines = describe_keywords(factory(kind, name))  # type: ignore[arg-type]
        if lines:
            width = max(60, get_terminal_size().columns)
            wrapped = [
                textwrap.fill(line, width, initial_indent="  ", subsequent_indent="      ")
                for line in lines
            ]
            yield "\n".join([f"options of {name}, as in {flag} KEY=VALUE", *wrapped])


def _options_of_others(method: str) -> dict[str, str]:
    """Errors for the options that only other methods have, by flag."""
    owners: dict[str, list[str]] = {}
    for name, cls in built_in("method").items():
        for item in fields(cls):
            owners.setdefault("--" + item.name.replace("_", "-"), []).append(name)
    return {
        flag: f"{method} has no option {flag}; it belongs to {', '.join(names)}."
        for flag, names in owners.items()
    }


def _check_together(setup: Setup, given: Mapping[str, Any]) -> None:
    """Raise for options that are missing, or that do not go together."""
    if "data" not in given:
        raise BadInput("Give a data set, such as colored-digits; riskmatch data list lists them.")
    if setup.method is None:
        raise BadInput("Give --method NAME; riskmatch methods lists them.")
    if given.get("all_domains") and given.get("test_domains"):
        raise BadInput("--all-domains leaves no test domain: leave out one of the two options.")
    if not given.keys() & {"test_domains", "all_domains", "settings"}:
        from riskmatch.data.catalogue import known_domains, load

        options, data_dir = with_columns(given)["data_options"], given.get("data_dir")
        names = known_domains(given["data"], options)
        names = names or load(given["data"], options, data_dir).names
        raise BadInput(f"Give --test-domain, one of {listed(names)}; or --all-domains.")
    if "memory" in given and not given.get("cost"):
        raise BadInput("--memory is an option of --cost; a run is divided with --accumulate.")
    if given.get("memory", 1) <= 0:
        raise BadInput(f"--memory must be a positive number of GB, got {given['memory']:g}.")
    shipping = "save", "licence", "after_warmup", "overwrite", "no_left_out", "leave_out_together"
    for name in shipping:
        if name in given and not given.get("all_domains"):
            flag = name.replace("_", "-")
            raise BadInput(f"--{flag} is an option of the model folder: add --all-domains.")


def toml_words(path: Path) -> list[str]:
    """Read a TOML file as words of the command line; ``data`` is the positional argument.

    Keys are spelt as on the command line, with ``-`` or ``_``; a repeatable option takes a list,
    one of the form KEY=VALUE a table.
    """
    try:
        values = tomllib.loads(read_file(path).decode())
        words = [str(values.pop("data"))] if "data" in values else []
        for key, value in values.items():
            words += _toml_option(key.replace("_", "-"), value)
    except OSError as error:
        raise BadInput(f"--config {path}: {error.strerror}.") from error
    except RecursionError as error:
        raise BadInput(f"--config {path} nests values too deeply. Write them flat.") from error
    except TypeError as error:  # a date, which JSON does not have
        raise BadInput(f"--config {path}: {error}. Write it as a text in quotes.") from error
    except ValueError as error:  # also numbers of thousands of digits
        raise BadInput(f"--config {path} is not TOML: {error}.") from error
    trust.type_names(words)  # the user typed the name of the file
    return words


def _toml_option(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, dict):
        return [f"--{name}={key}={json.dumps(entry)}" for key, entry in value.items()]
    return [f"--{name}={entry}" for entry in (value if isinstance(value, list) else [value])]


def describe_keywords(function: Callable[..., Any]) -> list[str]:
    """One line per keyword-only parameter: name, type, default and text from the docstring.

    Example:
        >>> def load(*, size: int = 224, augment: bool = True):
        ...     '''Images.
        ...
        ...     Args:
        ...         size: side of the images.
        ...     '''
        >>> describe_keywords(load)
        ['size=N  side of the images (default 224)', 'augment=true|false  (default true)']
    """
    types_, docs = type_hints(function), argument_docs(function)
    lines = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY:
            continue
        default = parameter.default
        none = default in (None, (), parameter.empty)
        shown = "" if none else f"(default {format_value(default)})"
        text = f"{docs.get(parameter.name, '').rstrip('.')} {shown}".strip()
        value = metavar(types_.get(parameter.name, str))
        lines.append(f"{parameter.name}={value}  {text}".rstrip())
    return lines


def _check_repeated(parser: Parser, words: Sequence[str]) -> None:
    """Raise for a list in a TOML file where an option takes one value."""
    flags = [word.partition("=")[0] for word in words]
    for option in parser.options:
        if not option.repeatable and flags.count(option.label) > 1:
            raise BadInput(f"{option.label} takes one value, not a list.")
