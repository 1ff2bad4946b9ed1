"""The filters of requests that list something, each stated once: from the command line to the core.

A filter is a field of a struct here, whose default lets everything pass, and its row in ``NAMES``:
what the message and the command line call it, and since which version. Options, our client and the
broker take over what stands here. Kafka's counterparts: ListTransactionsOptions, ListGroupsOptions,
and the builders of their requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

import msgspec


class Name(msgspec.Struct, frozen=True):
    """What a message calls a filter."""

    field: str
    since: int = 0
    """First version of the request that has it."""
    refusal: str = ""
    """What Java's client says where a broker's version has it not."""
    option: str = ""
    """Of the command line; empty: there is none in Kafka's own tool."""
    metavar: str | None = None
    help: str = ""
    bits: int = 64
    """Width of a number on the wire."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of one API. A number below 0 filters nothing, and what is empty neither."""

    NAMES: ClassVar[Mapping[str, Name]]

    @classmethod
    def of(cls, message: Any, **instead: Any) -> Self:
        """The filters of a request; those that its version can't say are off.

        Args:
            message: The request.
            instead: Fields that the request does not decide.
        """
        values = {
            name: getattr(message, row.field)
            for name, row in cls.NAMES.items()
            if name not in instead and hasattr(message, row.field)
        }
        return cls(**values, **instead)

    def fields(self) -> dict[str, Any]:
        """The fields of the message, by their names there.

        Raises:
            ValueError: A number is wider than its field.
        """
        fields = {}
        for name, row in self.NAMES.items():
            value = getattr(self, name)
            if isinstance(value, int) and not fits(value, row.bits):
                raise ValueError(f"{name}: {value} does not fit in {row.bits} bits")
            fields[row.field] = _filter_value(value)
        return fields

    def refusal(self, version: int) -> str | None:
        """Why that version of the request can't say all of them; None where it can."""
        for name, row in self.NAMES.items():
            value = getattr(self, name)
            is_set = value >= 0 if isinstance(value, int) else bool(value)
            if is_set and version < row.since:
                return row.refusal
        return None


def fits(number: int, bits: int) -> bool:
    """Whether a signed field of that width can hold a number."""
    return -1 << bits - 1 <= number < 1 << bits - 1


def _filter_value(value: Any) -> Any:
    if isinstance(value, str | int):
        return None if value == "" else value
    return value if value is None else tuple(value)


class TransactionFilters(Filters, frozen=True, kw_only=True):
    """Which transactional ids ListTransactions lists."""

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
    """Which groups ListGroups lists, without regard to case."""

    NAMES = MappingProxyType({"states": Name("states_filter", 4), "types": Name("types_filter", 5)})

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
