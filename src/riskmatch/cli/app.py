"""From the words of the command line to a command, and from its end to an exit code."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from keyword import iskeyword

from riskmatch.cli.errors import CommandError, unknown

COMMANDS = {
    "data": "the data sets: what there is, how to get it, what is wrong with it",
    "demo": "ERM against RDM on coloured digits: a table and a picture, in a minute",
    "embed": "images as the features of a frozen backbone, in a file",
    "figure": "one figure of runs, as PNG, SVG or PDF",
    "import": "other people's sweeps, into records of ours",
    "methods": "the methods, their hyper-parameters and search ranges",
    "report": "runs or a sweep as one HTML file, to open in a browser",
    "reproduce": "the paper's tables and figures",
    "show": "how a run or a sweep went, in the terminal",
    "sweep": "many runs: plan, run, status, retry, table",
    "train": "train one model with one method: progress, records, checkpoint",
}
"""What each command does; its module is the one of its name."""

HELP = """\
riskmatch trains classifiers that hold on domains they have never seen, by matching the
distributions of risks across the training domains, and compares the method with others.

usage: riskmatch COMMAND [THING] [--options]

commands
{commands}

options
  -h, --help   this text; after a command, what that command can do
  --version    the version
  --debug      with any command: show the traceback of an error

examples
  riskmatch demo
  riskmatch methods rdm
  riskmatch train colored-digits --method rdm --test-domain 0.1

exit codes
  0  done
  1  the thing examined has faults
  2  bad input: the cause and the cure are on the error stream
  3  a run failed or was interrupted: the error stream says how to go on
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        with _plain_warnings():
            code = _run([word for word in words if word != "--debug"])
        sys.stdout.flush()
        return code
    except CommandError as error:
        return _fail(error, str(error), error.code, debug)
    except KeyboardInterrupt as error:
        return _fail(error, "Interrupted.", 3, debug)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        cause = f"{type(error).__name__}: {error} (--debug shows the traceback)"
        return _fail(error, cause, 3, debug)


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS))
        rows = (f"  {name:<{width}}   {summary}" for name, summary in COMMANDS.items())
        print(HELP.format(commands="\n".join(rows)), end="")
        return 0
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"riskmatch {version('riskmatch')}")
        return 0
    command, *rest = words
    if command not in COMMANDS:
        kind = "option" if command.startswith("-") else "command"
        known = ["--help", "--version"] if kind == "option" else COMMANDS
        raise unknown(kind, command, known)
    try:
        code: int = import_module(f"riskmatch.cli.{command}{'_' * iskeyword(command)}").run(rest)
    except SystemExit:  # the help was asked for and printed
        return 0
    return code


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as one line each, without the place in the code."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print(
            f"riskmatch: {message}", file=sys.stderr
        )
        yield


def _fail(error: BaseException, message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    print(f"riskmatch: {message}", file=sys.stderr)
    return code
