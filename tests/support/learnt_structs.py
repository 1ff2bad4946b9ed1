"""Whether msgspec has built its tables for a struct before its first use, checked in a
new process.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

_PROGRAM: Final = """
import gc
from {0} import {1}
print("StructInfo" in {{type(referent).__name__ for referent in gc.get_referents({1})}})
"""
"""If so, the class refers to a ``StructInfo``."""


def is_learnt(kind: type) -> bool:
    """Whether msgspec knows the struct once its module is imported, in a new process."""
    program = _PROGRAM.format(kind.__module__, kind.__name__)
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return process.stdout == b"True\n"
