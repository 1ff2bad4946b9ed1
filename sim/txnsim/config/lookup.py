"""Lookup of properties by name: those of one listener override the common ones.

It records which properties were looked up, so that the others can be reported as without effect.
Kafka's counterpart: AbstractConfig.valuesWithPrefixOverride.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from txnsim.config.properties import Property

T = TypeVar("T")


class WrongPropertyError(Exception):
    """A property is not supported."""

    def __init__(self, entry: Property, message: str) -> None:
        super().__init__(message)
        self.entry = entry
        self.message = message


class PropertyLookup(msgspec.Struct, eq=False):
    """The properties of a file, as one listener or client sees them."""

    entries: Mapping[str, Property]
    prefix: str = ""
    """Prefix of its own properties: ``listener.name.outside.``."""
    used: set[str] = set()
    """Full names of the existing properties that were looked up."""

    def own(self, name: str) -> Property | None:
        """A property with the prefix in front, and only that."""
        return self._used_entry(self.prefix + name)

    def get(self, name: str) -> Property | None:
        """The property, with the prefix if it exists so, else the common one. Both count as
        used.
        """
        everybodys = self._used_entry(name)
        return self.own(name) or everybodys

    def text(self, name: str) -> str | None:
        """The value; None for a missing or empty one."""
        entry = self.get(name)
        return entry.value.strip() or None if entry is not None else None

    def names(self, name: str) -> tuple[str, ...]:
        """The values of a list."""
        return tuple(part.strip() for part in (self.text(name) or "").split(",") if part.strip())

    def choice(self, name: str, value_by_word: Mapping[str, T], default: T) -> T:
        """One of some values, ignoring case.

        Raises:
            WrongPropertyError: The value is none of these words.
        """
        entry = self.get(name)
        if entry is None:
            return default
        word_given = entry.value.strip().lower()
        for word, value in value_by_word.items():
            if word.lower() == word_given:
                return value
        raise WrongPropertyError(
            entry, f"expected {', '.join(value_by_word)}, found {entry.value!r}"
        )

    def number(self, name: str, default: int) -> int:
        """A whole number that is not negative.

        Raises:
            WrongPropertyError: The value is not such a number.
        """
        entry = self.get(name)
        return default if entry is None else number_of(entry)

    def _used_entry(self, name: str) -> Property | None:
        entry = self.entries.get(name)
        if entry is not None:
            self.used.add(name)
        return entry


def number_of(entry: Property) -> int:
    """The value of a property as a whole number.

    Raises:
        WrongPropertyError: The value is not a whole number, or negative.
    """
    text = entry.value.strip()
    if not (text.isascii() and text.isdigit()):
        raise WrongPropertyError(entry, f"expected a whole number from 0, found {entry.value!r}")
    return int(text)
