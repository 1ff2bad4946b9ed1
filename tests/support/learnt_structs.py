"""Whether msgspec knows a struct before anybody has used it: a process of its own says so."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

_PROGRAM: Final = """
import gc
from {0} import {1}
print("StructInfo" in {{type(referent).__name__ for referent in gc.get_referents({1})}})
"""
"""It keeps a ``StructInfo`` in the class then."""


def is_learnt(kind: type) -> bool:
    """Import the struct, and see."""
    program = _PROGRAM.format(kind.__module__, kind.__name__)
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return process.stdout == b"True\n"
