"""The filters of requests that list something, each declared once: for command line, client and
broker.

A filter is a field of a struct here, whose default lets everything pass, and its row in ``NAMES``:
its name in the message and on the command line, and its first version. Command line options, our
client and the broker use these rows. Kafka's counterparts: ListTransactionsOptions,
ListGroupsOptions, and the builders of their requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

import msgspec


class Name(msgspec.Struct, frozen=True):
    """A filter's names, and the version from which it exists."""

    field: str
    since: int = 0
    """First version of the request that has the filter."""
    refusal: str = ""
    """Error text of Java's client if a broker's version does not have the filter."""
    option: str = ""
    """Option of the command line; empty if Kafka's own tool has none."""
    metavar: str | None = None
    help: str = ""
    bits: int = 64
    """Size of a number in the message, in bits."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of one API. A negative number or an empty value filters nothing."""

    NAMES: ClassVar[Mapping[str, Name]]

    @classmethod
    def of(cls, message: Any, **instead: Any) -> Self:
        """The filters of a request; those that its version does not have filter nothing.

        Args:
            message: The request.
            instead: Values of fields that the request does not decide.
        """
        values = {
            name: getattr(message, row.field)
            for name, row in cls.NAMES.items()
            if name not in instead and hasattr(message, row.field)
        }
        return cls(**values, **instead)

    def fields(self) -> dict[str, Any]:
        """The values for the message, by the names of its fields.

        Raises:
            ValueError: A number is too large for its field.
        """
        fields = {}
        for name, row in self.NAMES.items():
            value = getattr(self, name)
            if isinstance(value, int) and not fits(value, row.bits):
                raise ValueError(f"{name}: {value} does not fit in {row.bits} bits")
            fields[row.field] = _filter_value(value)
        return fields

    def refusal(self, version: int) -> str | None:
        """The error text if that version of the request lacks a filter that is set; else None."""
        for name, row in self.NAMES.items():
            value = getattr(self, name)
            is_set = value >= 0 if isinstance(value, int) else bool(value)
            if is_set and version < row.since:
                return row.refusal
        return None


def fits(number: int, bits: int) -> bool:
    """Whether a signed field with that many bits can hold a number."""
    return -1 << bits - 1 <= number < 1 << bits - 1


def _filter_value(value: Any) -> Any:
    if isinstance(value, str | int):
        return None if value == "" else value
    return value if value is None else tuple(value)


class TransactionFilters(Filters, frozen=True, kw_only=True):
    """The filters of ListTransactions."""

    NAMES = MappingProxyType(
        {
            "states": Name("state_filters"),
            "producer_ids": Name("producer_id_filters"),
            "duration_ms": Name(
                "duration_filter",
                1,
                "Duration filter can be set only when using API version 1 or higher. If client is "
                "connected to an older broker, do not specify duration filter or set duration "
                "filter to -1.",
                option="--duration-filter",
                metavar="MS",
                help="only transactions running longer than this; below 0: all",
            ),
            "pattern": Name(
                "transactional_id_pattern",
                2,
                "Transactional ID pattern filter can be set only when using API version 2 or "
                "higher. If client is connected to an older broker, do not specify the pattern "
                "filter.",
                option="--transactional-id-pattern",
                metavar="REGEX",
                help="only transactional ids that match this RE2/J expression as a whole",
            ),
        }
    )

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    """Only transactions that started longer ago than this (KIP-994)."""
    pattern: str | None = None
    """RE2/J expression that the whole transactional id must match (KIP-1152)."""


class GroupFilters(Filters, frozen=True, kw_only=True):
    """The filters of ListGroups, which ignore case."""

    NAMES = MappingProxyType({"states": Name("states_filter", 4), "types": Name("types_filter", 5)})

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
