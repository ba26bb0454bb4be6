"""The command line: one module per command, which parses, calls the library and prints.

| command | Python call |
| --- | --- |
| ``advise`` | :func:`riskmatch.advise` |
| ``data list`` | :func:`riskmatch.describe_data` |
| ``data get`` | :func:`riskmatch.download_data` |
| ``data doctor`` | :func:`riskmatch.examine_data` |
| ``demo`` | :func:`riskmatch.demo` |
| ``embed`` | :func:`riskmatch.embed_to_file` |
| ``evaluate`` | :func:`riskmatch.evaluate` |
| ``export`` | :func:`riskmatch.export` |
| ``figure`` | :func:`riskmatch.draw_figure` |
| ``import domainbed`` | :func:`riskmatch.import_domainbed` |
| ``methods`` | :func:`riskmatch.describe_methods` |
| ``monitor`` | :func:`riskmatch.monitor` |
| ``predict`` | :func:`riskmatch.predict` |
| ``report`` | :func:`riskmatch.write_report` |
| ``reproduce`` | :func:`riskmatch.reproduce` |
| ``show`` | :func:`riskmatch.summarise` |
| ``sweep plan`` | :func:`riskmatch.plan_sweep` |
| ``sweep run`` | :func:`riskmatch.run_sweep` |
| ``sweep retry`` | :func:`riskmatch.run_sweep` with ``retry=True`` |
| ``sweep status`` | :func:`riskmatch.sweep_status` |
| ``sweep table`` | :func:`riskmatch.tables_of` |
| ``train`` | :func:`riskmatch.train` |

A command's module is imported when the command is called, and torch only where it is needed, so
that ``--help`` is fast.

A new command is a module here with a dataclass of the capitalised name of the command, derived from
:class:`~riskmatch.cli.parser.Command`, and an entry in :data:`riskmatch.cli.app.COMMANDS`. The
docstring of the dataclass is the help; a field is an option, its docstring the help of the option.
A field marked :data:`~riskmatch.cli.options.Positional` is a positional argument; one without a
default must be given. ``execute`` calls the library and prints; wrong values, missing files and
missing packages become one line in :func:`riskmatch.cli.app.main`. The module of a command with
verbs, such as ``data get``, has one such class per verb in ``VERBS``, and an ``EXAMPLE``.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Everything is imported here, so that an interrupt meanwhile is reported like any other.
    """
    try:
        from riskmatch.cli.app import main as run

        return run(argv)
    except KeyboardInterrupt:
        import sys

        print("riskmatch: Interrupted.", file=sys.stderr)
        return 3
