"""``python -m eqrm``, the same as the command ``eqrm``."""

from __future__ import annotations

from eqrm.cli import main

if __name__ == "__main__":
    main()
