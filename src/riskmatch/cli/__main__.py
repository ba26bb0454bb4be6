"""Run the command line with ``python -m riskmatch.cli``."""

import sys

from riskmatch.cli import main

code = main()
# After an interrupt inside exec(), as of dataclasses, python -m ends with the signal's own code,
# whatever sys.exit says, unless another exec() follows.
exec("")
sys.exit(code)
