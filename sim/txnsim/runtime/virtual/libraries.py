"""What single client libraries need so that they can follow a virtual run.

aiokafka stamps records in a C extension that asks the system for the time. It numbers its producers
per process, which would show in the names of the second run's clients. It asks brokers in the order
of a set of tuples with ``None`` in them, whose hash is an address before Python 3.12. Nothing here
is imported: a library that is not loaded is left alone.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

_BUILDERS: Final = (
    ("aiokafka.record._crecords.default_records", "DefaultRecordBatchBuilder"),
    ("aiokafka.record._crecords.legacy_records", "LegacyRecordBatchBuilder"),
)
_PRODUCER: Final = ("aiokafka.producer.producer", "AIOKafkaProducer")
_NUMBER: Final = "_PRODUCER_CLIENT_ID_SEQUENCE"
_BROKER: Final = ("aiokafka.structs", "BrokerMetadata")


class Libraries:
    """What one run has lent to libraries."""

    def __init__(self, stack: ExitStack, *, is_ours: Callable[[], bool]) -> None:
        """Nothing is lent yet.

        Args:
            stack: Takes what puts everything back.
            is_ours: Whether the thread that asks is the run's.
        """
        self._stack = stack
        self._is_ours = is_ours
        self._lent: set[type] = set()

    def lend(self) -> None:
        """Let what is loaded by now follow the run. To be called again when more may be: before a
        client connects.
        """
        for module, name in _BUILDERS:
            self._once(module, name, self._stamps)
        self._once(*_PRODUCER, self._numbers)
        self._once(*_BROKER, self._order)

    def _once(self, module: str, name: str, lend: Callable[[Any], None]) -> None:
        found = getattr(sys.modules.get(module), name, None)
        if isinstance(found, type) and found not in self._lent:
            self._lent.add(found)
            lend(found)

    def _stamps(self, builder: Any) -> None:
        """A record without a stamp gets the run's time."""
        real, is_ours = native_attribute(builder, "append"), self._is_ours

        def append(self: Any, offset: int, timestamp: int | None, *more: Any, **named: Any) -> Any:
            if timestamp is None and is_ours():
                timestamp = int(time.time() * 1_000)
            return real(self, offset, timestamp, *more, **named)

        if real is not None and put_native_attribute(builder, "append", append):
            self._stack.callback(put_native_attribute, builder, "append", real)

    def _numbers(self, producer: Any) -> None:
        """A run counts its producers from the start."""
        if hasattr(producer, _NUMBER):
            self._stack.callback(setattr, producer, _NUMBER, getattr(producer, _NUMBER))
            setattr(producer, _NUMBER, 0)

    def _order(self, broker: Any) -> None:
        """A broker hashes by what it says."""
        if "__hash__" in vars(broker):
            return
        is_ours = self._is_ours

        def by_content(self: tuple[Any, ...]) -> int:
            return zlib.crc32(repr(tuple(self)).encode()) if is_ours() else tuple.__hash__(self)

        broker.__hash__ = by_content
        self._stack.callback(delattr, broker, "__hash__")


_PYTHON_API: Final = getattr(ctypes, "pythonapi", None)


def native_attribute(owner: type, name: str) -> Any:
    """What stands in the namespace of ``owner``, not bound to anything; None if nothing does."""
    return vars(owner).get(name)


def put_native_attribute(owner: type, name: str, value: object) -> bool:
    """Put ``value`` in the place of the attribute of a compiled class.

    ``datetime.datetime`` and the classes of C extensions refuse ``setattr``, and another class in
    their place would meet ``type(x) is datetime`` and every name that was bound before. So it is
    put into the namespace of the class itself. CPython shows it to the collector; other
    implementations may not, and then nothing is replaced.

    Returns:
        Whether that is possible here.
    """
    namespaces = [
        found
        for found in gc.get_referents(vars(owner))
        if isinstance(found, dict) and name in found
    ]
    if _PYTHON_API is None or len(namespaces) != 1:
        return False
    namespaces[0][name] = value
    # Lookups of attributes are cached per class.
    _PYTHON_API.PyType_Modified(ctypes.py_object(owner))
    return True
