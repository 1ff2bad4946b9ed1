"""The ambient clocks and chance of the process, lent to a virtual run.

Client libraries read ``time.monotonic``, ``time.time`` and ``random`` directly. Inside a run these
answer from the run's loop and seed, but only in the thread of the run: a web server or a test
runner beside it keeps real time. Everything is put back afterwards.

Not covered: functions that a module took by ``from time import time`` before, C extensions that ask
the system's clock themselves, ``datetime.now``, ``os.urandom``. ``random`` is one generator for all
threads; while a run lasts it is the run's.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from txnsim.errors import NotSimulatedError, SimulationError

_active: Final = threading.Lock()


@contextmanager
def ambient_virtual(
    *, monotonic_ns: Callable[[], int], wall_ns: Callable[[], int], seed: int
) -> Iterator[None]:
    """Let ``time`` and ``random`` follow a virtual run in this thread.

    Raises:
        SimulationError: Another virtual run is under way in this process.
    """
    if not _active.acquire(blocking=False):
        raise SimulationError("another virtual run is under way in this process")
    replaced: dict[str, Callable[..., Any]] = {
        "monotonic": lambda: monotonic_ns() / 1e9,
        "monotonic_ns": monotonic_ns,
        "perf_counter": lambda: monotonic_ns() / 1e9,
        "perf_counter_ns": monotonic_ns,
        "time": lambda: wall_ns() / 1e9,
        "time_ns": wall_ns,
        "sleep": _no_sleep,
    }
    originals = {name: getattr(time, name) for name in replaced}
    chance = random.getstate()
    owner = threading.get_ident()
    try:
        random.seed(seed)
        for name, virtual in replaced.items():
            setattr(time, name, _in_thread(owner, virtual, originals[name]))
        yield
    finally:
        for name, original in originals.items():
            setattr(time, name, original)
        random.setstate(chance)
        _active.release()


def _in_thread(
    owner: int, virtual: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    def either(*args: Any) -> Any:
        return virtual(*args) if threading.get_ident() == owner else original(*args)

    return either


def _no_sleep(_seconds: float) -> NoReturn:
    raise NotSimulatedError("time.sleep would stop a virtual run; await asyncio.sleep")
