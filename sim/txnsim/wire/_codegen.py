"""Generates functions per message class, instead of looping over its fields at every message.

A decoder, an encoder and a constructor are compiled for each class on first use, as ``dataclasses``
and ``namedtuple`` do; Kafka's ``MessageDataGenerator`` does the same at build time.

Frozen classes are slow to fill, because each field goes through ``object.__setattr__``. So an
instance is made as its *twin*, a mutable class with the same slots, and then turned into the
message class by assigning ``__class__``, which Python allows between classes of the same layout.
"""

from __future__ import annotations

from typing import Any


class CodeSource:
    """The source of a function under construction: its lines, and the objects that its names stand
    for.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0

    def add_line(self, code_line: str) -> None:
        """Add a line at the current depth."""
        self._lines.append("    " * self._depth + code_line)

    def enter_block(self, block_opening: str) -> None:
        """Add a line that opens a block."""
        self.add_line(block_opening)
        self._depth += 1

    def leave_blocks(self, level_count: int = 1) -> None:
        """Closes blocks."""
        self._depth -= level_count

    def bind(self, bound_object: object, name_hint: str) -> str:
        """Add an object to the function's globals; returns its name there."""
        name = f"{name_hint}_{len(self.names)}"
        self.names[name] = bound_object
        return name

    def compile_function(self, name: str, *, code_name: str) -> Any:
        """Compile the source and return the function called ``name``."""
        exec(compile("\n".join(self._lines), f"<{code_name}>", "exec"), self.names)
        return self.names[name]


_twin_classes: dict[Any, Any] = {}


def twin_of(cls: Any) -> Any:
    """The mutable class with the same layout as a message class."""
    twin_class = _twin_classes.get(cls)
    if twin_class is None:
        twin_class = _twin_classes[cls] = type(
            f"{cls.__name__}Twin", (), {"__slots__": cls.__slots__}
        )
    return twin_class
