"""``python -m riskmatch.cli``: the command line where no console script is installed."""

import sys

from riskmatch.cli.app import main

sys.exit(main())
