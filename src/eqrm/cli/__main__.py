"""``python -m eqrm.cli``, which is what ``torchrun -m`` starts."""

from __future__ import annotations

from eqrm.cli import main

if __name__ == "__main__":
    main()
