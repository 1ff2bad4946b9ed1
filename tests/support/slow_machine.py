"""How long a test waits where only a slow machine can make it wait.

Standard library only, as client programs of CI read it too.
"""

from __future__ import annotations

from typing import Final

SLOW_S: Final = 120.0
"""On a quiet machine it is milliseconds: nothing is proved by less."""
