"""What makes the order of hashes differ between processes, and how to start one where it repeats.

A library that keeps its brokers in a set asks them in the order of their hashes. Hashes of strings
depend on a seed of the process (PYTHONHASHSEED). ``None`` hashes by its address before Python 3.12,
and the system gives a process other addresses at each start. Neither can be changed once Python
runs, so ``arrange_process`` starts the program again in the same process.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from typing import Final

from txnsim.environment_variables import ARRANGED

HASH_SEED: Final = "PYTHONHASHSEED"
STRINGS: Final = "strings hash by a seed of this process (PYTHONHASHSEED is not 0)"
ADDRESSES: Final = (
    "None hashes by its address before Python 3.12, and addresses are drawn at each start"
)

_ADDR_NO_RANDOMIZE: Final = 0x0040000
_ASK_PERSONALITY: Final = 0xFFFFFFFF
_NONE_HASHES_BY_NUMBER: Final = (3, 12)


def limits_of_process() -> tuple[str, ...]:
    """Reasons why a virtual run need not repeat in another process, if a library depends on hashes;
    none after ``arrange_process``.
    """
    limit_texts = []
    if sys.flags.hash_randomization:
        limit_texts.append(STRINGS)
    if sys.version_info < _NONE_HASHES_BY_NUMBER and not _addresses_are_fixed():
        limit_texts.append(ADDRESSES)
    return tuple(limit_texts)


def arrange_process() -> tuple[str, ...]:
    """Start this program again, with the same arguments, so that virtual runs repeat.

    Call it first, before files are opened or threads started: all of them are lost. The process
    keeps its number, its terminal and its directory.

    Returns:
        The limits that remain. There are some where the system refuses fixed addresses (some
            containers do; macOS has no such call), and with ``python -E`` and ``-I``, which read no
            variables.
    """
    limit_texts = limits_of_process()
    if not limit_texts or ARRANGED in os.environ:
        return limit_texts
    _fix_addresses()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], arrange_environment(os.environ))


def arrange_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Environment variables with which a process repeats its virtual runs."""
    return {**environ, HASH_SEED: "0", ARRANGED: "1"}


def _addresses_are_fixed() -> bool:
    flags = _personality(_ASK_PERSONALITY)
    return flags is not None and bool(flags & _ADDR_NO_RANDOMIZE)


def _fix_addresses() -> None:
    """Switch address randomization off for the next exec, also for children."""
    flags = _personality(_ASK_PERSONALITY)
    if flags is not None:
        _personality(flags | _ADDR_NO_RANDOMIZE)


def _personality(flags: int) -> int | None:
    """Call Linux' personality(2): returns the previous value; None if missing or refused."""
    personality_call = (
        getattr(ctypes.CDLL(None), "personality", None) if sys.platform == "linux" else None
    )
    if personality_call is None:
        return None
    personality_call.argtypes, personality_call.restype = [ctypes.c_ulong], ctypes.c_int
    old_flags: int = personality_call(flags)
    return None if old_flags < 0 else old_flags
