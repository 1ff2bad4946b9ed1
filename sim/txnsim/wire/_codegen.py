"""Small functions written out per message class, instead of loops over its fields at every message.

A decoder, an encoder and a constructor are compiled for each class on first use, as ``dataclasses``
and ``namedtuple`` do; Kafka's ``MessageDataGenerator`` does the same at build time.

Frozen classes are slow to fill, because each field goes through ``object.__setattr__``. So an
instance is filled as its *twin*, a mutable class of the same slots, and then made what it is by
assigning ``__class__``, which Python allows between classes of the same layout.
"""

from __future__ import annotations

from typing import Any


class Source:
    """A function under construction: lines, and the objects its names stand for."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str) -> None:
        """Add a line at the current depth."""
        self._lines.append("    " * self._depth + text)

    def enter(self, text: str) -> None:
        """Add a line that opens a block."""
        self.line(text)
        self._depth += 1

    def leave(self, levels: int = 1) -> None:
        """Close blocks."""
        self._depth -= levels

    def bind(self, value: object, hint: str) -> str:
        """A name for an object in the function's globals."""
        name = f"{hint}_{len(self.names)}"
        self.names[name] = value
        return name

    def function(self, name: str, *, origin: str) -> Any:
        """Compile and return the function called ``name``."""
        exec(compile("\n".join(self._lines), f"<{origin}>", "exec"), self.names)
        return self.names[name]


_twins: dict[Any, Any] = {}


def twin_of(cls: Any) -> Any:
    """The mutable class with the layout of a message class."""
    twin = _twins.get(cls)
    if twin is None:
        twin = _twins[cls] = type(f"{cls.__name__}Twin", (), {"__slots__": cls.__slots__})
    return twin
