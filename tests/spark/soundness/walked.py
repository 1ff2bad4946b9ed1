"""What is known of a replica, for tests of one rule."""

from __future__ import annotations

from pathlib import Path

from txnsim_spark.scan.segments import Replica
from txnsim_spark.soundness._replica_facts import LogDirFacts, ReplicaFacts, replica_facts


def facts(log_dir: Path, *, topic: str = "orders") -> ReplicaFacts:
    """Return the facts of a broker that stopped in order and has noted nothing."""
    log_dir_facts = LogDirFacts(
        is_clean=True, high_watermarks={}, recovery_points=None, log_starts={}, cleaned_offsets={}
    )
    path = str(log_dir / f"{topic}-0")
    replica = Replica(log_dir=str(log_dir), broker=1, topic=topic, partition=0, path=path)
    return replica_facts(log_dir_facts, replica)
