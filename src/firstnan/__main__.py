"""``python -m firstnan``."""

from __future__ import annotations

import sys

from firstnan.cli import main

if __name__ == "__main__":
    sys.exit(main())
