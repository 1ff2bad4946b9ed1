"""Events that a stream reports to its caller."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from txnsim_spark.streaming._alerts import Alert
from txnsim_spark.streaming._checkpoint import Offsets


class BatchWritten(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of records has been written."""

    batch_id: int
    row_count: int
    offsets: Offsets
    """End offsets of the partitions after this batch, exclusive."""


class AlertChanged(msgspec.Struct, frozen=True, kw_only=True):
    """An alert began or ended. It is reported before it is stored, so after a crash
    perhaps twice.
    """

    alert: Alert
    connector_lag: int | None
    """What the connector itself reported last as ``maxOffsetsBehindLatest``."""


class NotProbed(msgspec.Struct, frozen=True, kw_only=True):
    """A partition, a topic or the cluster could not be probed."""

    place_text: str
    """``the cluster``, a topic or a partition, in words."""
    error: str


StreamEvent = BatchWritten | AlertChanged | NotProbed
OnEvent = Callable[[StreamEvent], None]
"""Called with each event, from threads of Spark."""
