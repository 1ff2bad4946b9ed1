"""Where the application runs: three simulated brokers, or a real Kafka, which nobody kills.

The simulated brokers have a control port, three replicas of everything, and miss a dead broker
soon. The real one is a single broker: what it shows is that the counts of the same application
are exact there, too, by the same judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer

BROKERS: Final = (1, 2, 3)
"""Of the simulated cluster."""
INTERNAL_PARTITIONS: Final = 6

_SIMULATED: Final = f"""\
settings:
  broker_heartbeat_interval_ms: 200
  broker_session_timeout_ms: 1500
  default_replication_factor: 3
  min_insync_replicas: 2
  group_initial_rebalance_delay_ms: 0
  group_min_session_timeout_ms: 1000
  group_streams_heartbeat_interval_ms: 300
  group_streams_min_heartbeat_interval_ms: 300
  group_streams_initial_rebalance_delay_ms: 0
  group_streams_session_timeout_ms: 2000
  group_streams_min_session_timeout_ms: 1000
  offsets_topic_num_partitions: {INTERNAL_PARTITIONS}
  transaction_state_log_num_partitions: {INTERNAL_PARTITIONS}
  transaction_abort_timed_out_cleanup_interval_ms: 500
"""
_REAL: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}

Cluster = TxnsimServer | ApacheKafka


def simulated_cluster(
    directory: Path, *, transaction_version: int, standby_count: int = 0
) -> TxnsimServer:
    """Three brokers with a control port; not yet started.

    Args:
        directory: Where its settings are kept.
        transaction_version: Of ``transaction.version``.
        standby_count: Of each task of a streams group.
    """
    config = directory / "cluster.yaml"
    config.write_text(f"{_SIMULATED}  group_streams_num_standby_replicas: {standby_count}\n")
    return TxnsimServer(
        transaction_version=transaction_version,
        brokers=len(BROKERS),
        arguments=("--http", "0", "--config", str(config)),
    )


def real_cluster(*, transaction_version: int) -> ApacheKafka:
    """A real broker; not yet started."""
    return ApacheKafka(
        transaction_version=transaction_version, properties=_REAL, jvm_options=("-Xmx512m",)
    )
