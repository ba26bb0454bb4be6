"""Run a command and turn its outcome into an exit code."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from keyword import iskeyword
from typing import Any, TextIO, cast

from riskmatch import trust
from riskmatch.files import CACHE, CONTROL, printable

COMMANDS = {
    "advise": "advise what to train for a new domain, and what to expect there",
    "data": "list data sets, download one, examine one",
    "demo": "compare ERM and RDM on coloured digits in a minute",
    "embed": "write features of images under a frozen backbone to a file",
    "estimate": "estimate the accuracy of a model at a site without labels",
    "evaluate": "evaluate a model on every domain of labelled data",
    "export": "write a model as ONNX or torch.export",
    "figure": "draw a figure of runs as PNG, SVG or PDF",
    "import": "convert sweeps of DomainBed to records",
    "methods": "list methods, their hyper-parameters and search ranges",
    "monitor": "test whether a new site is like the domains of training",
    "predict": "predict the classes of images or of rows of a table",
    "report": "write one HTML file about runs or a sweep",
    "reproduce": "reproduce the paper's tables and figures",
    "show": "summarise a run or a sweep in the terminal",
    "soup": "average the weights of runs of a sweep",
    "sweep": "plan, run and tabulate many runs",
    "train": "train one model with one method",
}
"""Summary of each command; its module has its name."""

READING = ("show", "report", "figure", "import", ["sweep", "status"], ["sweep", "table"])
"""Commands that import no part that a file names."""

COMPUTING = ("embed", "estimate", "evaluate", "predict", "soup", "train")
"""Commands that keep freed memory for the next batch."""

HELP = """\
riskmatch trains classifiers that generalise to unseen domains by matching the distributions of
risks across the training domains, and compares the method with others.

usage: riskmatch COMMAND [NAME] [--options]

commands
{commands}

options
  -h, --help   print this text; after a command, the options of that command
  --version    print the version
  --debug      with any command: print the traceback of an error
  --trust      import parts that files name, which runs their code (see below)
  --cache WHERE  folder of the caches; off: decode images at every use; auto (default): keep
               decoded images where the disk has room for them

examples
  riskmatch demo
  riskmatch methods rdm
  riskmatch train colored-digits --method rdm --test-domain 0.1

Methods, data sets, networks, divergences, selection rules, launchers, loggers and estimators of
your own are named package.module:Name; modules in the current folder are found. A name that you
did not type, but that a file from elsewhere holds, is imported with --trust only; show, report,
figure, import, sweep status and sweep table import none.

exit codes
  0  done
  1  faults were found (data doctor), or a new site is unlike training (monitor)
  2  bad input; the error states cause and cure
  3  a run failed or was interrupted; the error states how to continue
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        with inert_output(), _stoppable():
            code = _run([word for word in words if word != "--debug"])
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as error:
        return _fail(error, "Interrupted.", 3, debug)
    except BrokenPipeError:  # the reader, such as `head`, has stopped reading
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from riskmatch.cli.errors import CommandError

        if isinstance(error, CommandError):
            return _fail(error, str(error), error.code, debug)
        cause = f"{type(error).__name__}: {error} (--debug shows the traceback)"
        return _fail(error, cause, 3, debug)


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(HELP.format(commands=_listed(COMMANDS)), end="")
        return 0
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"riskmatch {version('riskmatch')}")
        return 0
    from riskmatch.cli.errors import BadInput, RunFailed, bad_input, unknown

    command = words[0]
    if command not in COMMANDS:
        noun = "option" if command.startswith("-") else "command"
        raise unknown(noun, command, ["--help", "--version"] if noun == "option" else COMMANDS)
    rest = [word for word in words[1:] if word != "--trust"]
    trusted = len(rest) < len(words) - 1
    rest = _without_cache(rest)
    if trusted and (command in READING or [command, *rest[:1]] in READING):
        raise BadInput(f"riskmatch {command} imports no part that a file names: leave out --trust.")
    if command in COMPUTING:
        from riskmatch.device import keep_freed_memory

        keep_freed_memory()
    try:
        with _plain_warnings("--quiet" in rest), trust.command(rest, trusted), bad_input():
            return _execute(command, rest)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich ends so where a pipe is closed
            raise end.__context__ from None
        raise RunFailed(
            f"A part ended the program with SystemExit({end.code!r}); it should raise an error."
        ) from end


def _without_cache(words: list[str]) -> list[str]:
    """The words without ``--cache WHERE``, which worker processes have to see, too."""
    from riskmatch.cli.errors import BadInput

    rest, given = list[str](), iter(words)
    for word in given:
        name, equals, value = word.partition("=")
        if name != "--cache":
            rest.append(word)
        elif where := value if equals else next(given, ""):
            os.environ[CACHE] = where if where in ("off", "auto") else os.path.abspath(where)
        else:
            raise BadInput("--cache needs a folder, off or auto.")
    return rest


def _execute(command: str, words: list[str]) -> int:
    """Parse the words after a command, or after a verb of it, and run it."""
    from riskmatch.cli.errors import Ended
    from riskmatch.validation import check_option

    module = import_module(f"riskmatch.cli.{command}{'_' * iskeyword(command)}")
    if verbs := getattr(module, "VERBS", None):
        if not words or words[0] in ("-h", "--help"):
            print(f"usage: riskmatch {command} {'|'.join(verbs)} [options]\n")
            print(_listed({name: verb.execute.__doc__ for name, verb in verbs.items()}))
            print(f"\nOptions of each: riskmatch {command} {next(iter(verbs))} --help")
            print(f"\nexample\n  {module.EXAMPLE}")
            return 0
        check_option(f"command of riskmatch {command}", words[0], verbs)
        cls, command, words = verbs[words[0]], f"{command} {words[0]}", words[1:]
    else:
        cls = getattr(module, command.capitalize())
    try:
        return cls.parse(command, words).execute() or 0
    except Ended as end:
        return end.code


def _listed(summaries: Mapping[str, str]) -> str:
    width = max(map(len, summaries))
    return "\n".join(f"  {name:<{width}}   {text}" for name, text in summaries.items())


@contextmanager
def _stoppable() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP, which clusters send, like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {getattr(signal, name): signal.getsignal(getattr(signal, name)) for name in names}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as nohup ignores SIGHUP
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _plain_warnings(quiet: bool) -> Iterator[None]:
    """Print warnings as one line each, once, without their place in the code."""
    from riskmatch.runs.findings import RunWarning

    printed = set[str]()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        text = printable(message)
        if text not in printed:
            printed.add(text)
            print(f"riskmatch: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore" if quiet else "always", RunWarning)
        warnings.showwarning = show
        yield


def _fail(error: BaseException, message: str, code: int, debug: bool) -> int:
    from riskmatch.validation import shortened

    with inert_output():
        if debug:
            traceback.print_exception(error)
        print(shortened(f"riskmatch: {printable(message)}"), file=sys.stderr)
    return code


_COLOURS = r"\x1b\[[0-9;]*m"
_BARS = rf"{_COLOURS}|\x1b\[\?25[lh]|\x1b\[[0-9]*[AKG]|\r"
"""What rich writes on a terminal: colours and, on the error stream, progress bars."""


@contextmanager
def inert_output() -> Iterator[None]:
    """Escape control characters in all output: names in data and records may hold any.

    What rich writes on a terminal passes.
    """
    out, err = _Inert(sys.stdout, _COLOURS), _Inert(sys.stderr, _BARS)
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, err)):
        yield


class _Inert:
    """A stream that escapes control characters other than line ends and tabs."""

    def __init__(self, stream: TextIO, allowed: str) -> None:
        self._stream = stream
        passing = f"({allowed})|" if stream.isatty() else "()"
        self._unsafe = re.compile(rf"{passing}(?![\n\t])[{CONTROL}]")

    def write(self, text: str) -> int:
        self._stream.write(self._unsafe.sub(lambda m: m[1] or f"\\u{ord(m[0]):04x}", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
