"""Suites of Go's Kafka clients."""

from __future__ import annotations

from typing import Final

from tests.peers import go_confluent, go_franz, go_kfake, go_sarama, go_segmentio
from tests.peers.suite import Suite

SUITES: Final[tuple[Suite, ...]] = (
    go_franz.SUITE,
    go_kfake.SUITE,
    go_kfake.TRANSACTIONS,
    go_sarama.SUITE,
    go_confluent.SUITE,
    go_segmentio.SUITE,
)
