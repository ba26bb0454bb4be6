"""Commands of commands: ``riskmatch data get`` and the like."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

from riskmatch.cli.errors import check_name

Run = Callable[[Sequence[str]], int]


def call(command: str, verbs: Mapping[str, Run], words: Sequence[str], example: str) -> int:
    """Run the verb that comes first; without one, say what there is.

    A verb is a function from the words after it to an exit code; its docstring is its line in the
    help.
    """
    if words and words[0] not in ("-h", "--help"):
        check_name(f"command of riskmatch {command}", words[0], verbs)
        return verbs[words[0]](words[1:])
    width = max(map(len, verbs))
    print(f"usage: riskmatch {command} {'|'.join(verbs)} [options]\n")
    for name, run in verbs.items():
        print(f"  {name:<{width}}   {inspect.getdoc(run)}")
    print(f"\nThe options of each: riskmatch {command} {next(iter(verbs))} --help")
    print(f"\nexample\n  {example}")
    return 0
