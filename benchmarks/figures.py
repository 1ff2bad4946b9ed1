"""Every figure once: its key, what it means, which way is better, and its target.

A ratio always says how many times better than Apache Kafka a server is, so 2.0 is good news for
transactions per second and for memory alike. Absolute figures belong to the machine they were
taken on and are shown for orientation only.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

PRODUCERS: Final = (1, 8, 32)
TXN_FLOWS: Final = ("old", "v2")


class Preference(enum.Enum):
    """Whether more or less of a figure is better."""

    MORE = "more"
    LESS = "less"


class FigureTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds that a figure of the simulator must meet."""

    ratio_min: float
    """Minimum factor by which the figure is better than Apache Kafka's."""
    value_below: float | None = None
    """A bound on the figure itself, in its unit."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of the table: its key, its unit, and its target."""

    key: str
    title: str
    unit: str
    better: Preference
    target: FigureTarget | None = None


def per_second_key(txn_flow: str, producer_count: int) -> str:
    """Return the key of the transactions per second of ``producer_count`` producers."""
    return f"txn.{txn_flow}.{producer_count}.per_second"


def p50_key(txn_flow: str, producer_count: int) -> str:
    """Return the key of the median latency of a transaction."""
    return f"txn.{txn_flow}.{producer_count}.p50"


def cpu_key(txn_flow: str, producer_count: int) -> str:
    """Return the key of the server's CPU time per transaction."""
    return f"txn.{txn_flow}.{producer_count}.cpu"


def retries_key(txn_flow: str, producer_count: int) -> str:
    """Return the key of the answers per transaction that made the load generator try again."""
    return f"txn.{txn_flow}.{producer_count}.retries"


def _cell_title(txn_flow: str, producer_count: int) -> str:
    return f"{txn_flow} flow, {producer_count} producer{'s' if producer_count > 1 else ''}"


def _transaction_figures() -> list[Figure]:
    flows_and_counts = [
        (txn_flow, producer_count) for txn_flow in TXN_FLOWS for producer_count in PRODUCERS
    ]
    target_by_producer_count = {1: FigureTarget(ratio_min=2.0), 32: FigureTarget(ratio_min=2.0)}
    rate_figures = [
        Figure(
            key=per_second_key(txn_flow, producer_count),
            title=f"transactions, {_cell_title(txn_flow, producer_count)}",
            unit="1/s",
            better=Preference.MORE,
            target=target_by_producer_count.get(producer_count),
        )
        for txn_flow, producer_count in flows_and_counts
    ]
    latency_figures = [
        Figure(
            key=p50_key(txn_flow, producer_count),
            title=f"latency p50, {_cell_title(txn_flow, producer_count)}",
            unit="ms",
            better=Preference.LESS,
        )
        for txn_flow, producer_count in flows_and_counts
    ]
    cpu_figures = [
        Figure(
            key=cpu_key(txn_flow, producer_count),
            title=f"server CPU per transaction, {_cell_title(txn_flow, producer_count)}",
            unit="ms",
            better=Preference.LESS,
            target=FigureTarget(ratio_min=1.0),
        )
        for txn_flow, producer_count in flows_and_counts
    ]
    retry_figures = [
        Figure(
            key=retries_key(txn_flow, producer_count),
            title=f"retries per transaction, {_cell_title(txn_flow, producer_count)}",
            unit="",
            better=Preference.LESS,
        )
        for txn_flow, producer_count in flows_and_counts
    ]
    return [*rate_figures, *latency_figures, *cpu_figures, *retry_figures]


START_KEY: Final = "start.first_commit"
IDLE_MEMORY_KEY: Final = "memory.idle"
LIBRDKAFKA_KEY: Final = "librdkafka.per_second"
OPEN_KEY: Final = "open.open"
COMMIT_KEY: Final = "open.commit"
OPEN_CPU_KEY: Final = "open.cpu"
PRODUCE_KEY: Final = "bulk.produce"
PRODUCE_CPU_KEY: Final = "bulk.produce.cpu"
FETCH_KEY: Final = "bulk.fetch"
FETCH_CPU_KEY: Final = "bulk.fetch.cpu"

FIGURES: Final = (
    Figure(
        key=START_KEY,
        title="process start to first committed transaction",
        unit="ms",
        better=Preference.LESS,
        target=FigureTarget(ratio_min=8.0, value_below=300.0),
    ),
    Figure(
        key=IDLE_MEMORY_KEY,
        title="idle memory (RSS after the first commit)",
        unit="MB",
        better=Preference.LESS,
        target=FigureTarget(ratio_min=6.0),
    ),
    *_transaction_figures(),
    Figure(
        key=LIBRDKAFKA_KEY,
        title="transactions through librdkafka, one after the other",
        unit="1/s",
        better=Preference.MORE,
    ),
    Figure(
        key=OPEN_KEY, title="5,000 transactions: open them all", unit="s", better=Preference.LESS
    ),
    Figure(
        key=COMMIT_KEY,
        title="5,000 transactions: commit them all",
        unit="s",
        better=Preference.LESS,
    ),
    Figure(
        key=OPEN_CPU_KEY,
        title="5,000 transactions: server CPU per transaction",
        unit="ms",
        better=Preference.LESS,
    ),
    Figure(key=PRODUCE_KEY, title="produce, 1 kB records", unit="MB/s", better=Preference.MORE),
    Figure(key=PRODUCE_CPU_KEY, title="produce, server CPU", unit="s/GB", better=Preference.LESS),
    Figure(key=FETCH_KEY, title="fetch, 1 kB records", unit="MB/s", better=Preference.MORE),
    Figure(key=FETCH_CPU_KEY, title="fetch, server CPU", unit="s/GB", better=Preference.LESS),
)
