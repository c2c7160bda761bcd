"""Run `overtone` from this checkout under whichever Python calls it: a virtual environment's or a rule's conda one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from overtone.cli import main

sys.exit(main())
