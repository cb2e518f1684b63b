"""``python -m relet`` is the command ``relet``."""

import sys

from relet.cli import main

if __name__ == "__main__":
    sys.exit(main())
