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

    def __init__(self, file_property: Property, message: str) -> None:
        super().__init__(message)
        self.entry = file_property
        self.message = message


class PropertyLookup(msgspec.Struct, eq=False):
    """The properties of a file, as one listener or client sees them."""

    property_by_name: Mapping[str, Property]
    prefix: str = ""
    """Prefix of its own properties: ``listener.name.outside.``."""
    used_names: set[str] = set()
    """Full names of the existing properties that were looked up."""

    def own_entry(self, property_name: str) -> Property | None:
        """A property with the prefix in front, and only that."""
        return self._used_entry(self.prefix + property_name)

    def get(self, property_name: str) -> Property | None:
        """The property, with the prefix if it exists so, else the common one. Both count as
        used.
        """
        common_property = self._used_entry(property_name)
        return self.own_entry(property_name) or common_property

    def text(self, property_name: str) -> str | None:
        """The value; None for a missing or empty one."""
        file_property = self.get(property_name)
        return file_property.value.strip() or None if file_property is not None else None

    def names(self, property_name: str) -> tuple[str, ...]:
        """The values of a list."""
        return tuple(
            name_part.strip()
            for name_part in (self.text(property_name) or "").split(",")
            if name_part.strip()
        )

    def choice(self, property_name: str, value_by_word: Mapping[str, T], default: T) -> T:
        """One of some values, ignoring case.

        Raises:
            WrongPropertyError: The value is none of these words.
        """
        file_property = self.get(property_name)
        if file_property is None:
            return default
        value_word = file_property.value.strip().lower()
        for allowed_word, allowed_value in value_by_word.items():
            if allowed_word.lower() == value_word:
                return allowed_value
        raise WrongPropertyError(
            file_property, f"expected {', '.join(value_by_word)}, found {file_property.value!r}"
        )

    def number(self, property_name: str, default: int) -> int:
        """A whole number that is not negative.

        Raises:
            WrongPropertyError: The value is not such a number.
        """
        file_property = self.get(property_name)
        return default if file_property is None else number_of(file_property)

    def _used_entry(self, property_name: str) -> Property | None:
        file_property = self.property_by_name.get(property_name)
        if file_property is not None:
            self.used_names.add(property_name)
        return file_property


def number_of(file_property: Property) -> int:
    """The value of a property as a whole number.

    Raises:
        WrongPropertyError: The value is not a whole number, or negative.
    """
    number_text = file_property.value.strip()
    if not (number_text.isascii() and number_text.isdigit()):
        raise WrongPropertyError(
            file_property, f"expected a whole number from 0, found {file_property.value!r}"
        )
    return int(number_text)
