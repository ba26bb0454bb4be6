"""Run the command line with ``python -m riskmatch.cli``."""

import sys

from riskmatch.cli.app import main

sys.exit(main())
