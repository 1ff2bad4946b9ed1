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


class FilterName(msgspec.Struct, frozen=True):
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

    NAMES: ClassVar[Mapping[str, FilterName]]

    @classmethod
    def of(cls, message: Any, **other_values: Any) -> Self:
        """The filters of a request; those that its version does not have filter nothing.

        Args:
            message: The request.
            other_values: Values of fields that the request does not decide.
        """
        filter_values = {
            filter_name: getattr(message, filter_names.field)
            for filter_name, filter_names in cls.NAMES.items()
            if filter_name not in other_values and hasattr(message, filter_names.field)
        }
        return cls(**filter_values, **other_values)

    def fields(self) -> dict[str, Any]:
        """The values for the message, by the names of its fields.

        Raises:
            ValueError: A number is too large for its field.
        """
        fields = {}
        for filter_name, filter_names in self.NAMES.items():
            value = getattr(self, filter_name)
            if isinstance(value, int) and not fits_in_bits(value, filter_names.bits):
                raise ValueError(f"{filter_name}: {value} does not fit in {filter_names.bits} bits")
            fields[filter_names.field] = _filter_value(value)
        return fields

    def refusal(self, version: int) -> str | None:
        """The error text if that version of the request lacks a filter that is set; else None."""
        for filter_name, filter_names in self.NAMES.items():
            value = getattr(self, filter_name)
            is_set = value >= 0 if isinstance(value, int) else bool(value)
            if is_set and version < filter_names.since:
                return filter_names.refusal
        return None


def fits_in_bits(number: int, bit_count: int) -> bool:
    """Whether a signed field with that many bits can hold a number."""
    return -1 << bit_count - 1 <= number < 1 << bit_count - 1


def _filter_value(value: Any) -> Any:
    if isinstance(value, str | int):
        return None if value == "" else value
    return value if value is None else tuple(value)


class TransactionFilters(Filters, frozen=True, kw_only=True):
    """The filters of ListTransactions."""

    NAMES = MappingProxyType(
        {
            "states": FilterName("state_filters"),
            "producer_ids": FilterName("producer_id_filters"),
            "duration_ms": FilterName(
                "duration_filter",
                1,
                "Duration filter can be set only when using API version 1 or higher. If client is "
                "connected to an older broker, do not specify duration filter or set duration "
                "filter to -1.",
                option="--duration-filter",
                metavar="MS",
                help="only transactions running longer than this; below 0: all",
            ),
            "pattern": FilterName(
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

    NAMES = MappingProxyType(
        {"states": FilterName("states_filter", 4), "types": FilterName("types_filter", 5)}
    )

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
