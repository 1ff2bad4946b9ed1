"""What ``txnsim stream`` is to do: a value, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS
from txnsim.pipeline.streaming.lag_options import CLIENT_PREFIX

INTERVAL_MS: Final = 1_000
PROBE_INTERVAL_MS: Final = 10_000


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A stream from topics to a sink."""

    client: Mapping[str, str]
    """Kafka's own properties, ``bootstrap.servers`` among them: given to Spark's connector, to the
    probe and to the writer of alerts."""
    topics: tuple[str, ...]
    sink: str
    checkpoint: str
    starting: str = "earliest"
    """Where a topic is begun: ``earliest``, ``latest``, or JSON as the connector takes it."""
    max_offsets: int | None = None
    """In one batch (maxOffsetsPerTrigger)."""
    interval_ms: int = INTERVAL_MS
    """Between two batches of records."""
    probe_interval_ms: int = PROBE_INTERVAL_MS
    older_than_ms: int = MAX_TRANSACTION_TIMEOUT_MS
    """Transactions without a write for longer are judged (KIP-664)."""
    once: bool = False
    """Take what is there, probe once, end."""
    alerts_topic: str | None = None
    """Where alerts are sent to as well."""
    program: str = "txnsim txns"
    """How to call the tool that repairs, for the commands that alerts tell."""

    @property
    def kafka_options(self) -> dict[str, str]:
        """Kafka's own properties, as Spark's connector and the probe are given them."""
        return {f"{CLIENT_PREFIX}{name}": text for name, text in self.client.items()}

    @property
    def lag_options(self) -> dict[str, str]:
        """What the source ``kafka_lso_lag`` is given."""
        return {
            **self.kafka_options,
            "subscribe": ",".join(self.topics),
            "olderThanMs": str(self.older_than_ms),
            "intervalMs": "0",  # the trigger is the clock
        }
