"""Which replica of a partition is read."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker_dirs import BrokerDir
from tests.support.position_logs import at, offsets_log, sent
from txnsim.pipeline.questions.leading import leading_states
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC


def test_the_longest_log_of_the_newest_epoch_is_read(tmp_path: Path) -> None:
    brokers = [BrokerDir(tmp_path / f"broker-{number}") for number in (1, 2)]
    offsets_log(brokers[0].path, sent(at(1)))
    longer = offsets_log(brokers[1].path, sent(at(1)), sent(at(2)))
    paths = [one.stop() for one in brokers]
    problems: list[str] = []
    found = list(leading_states(paths, CONSUMER_OFFSETS_TOPIC, problems.append))
    assert [(one.replica.path, one.ends.end_offset) for one in found] == [(str(longer), 2)]
    assert not list(leading_states(paths, TRANSACTION_STATE_TOPIC, problems.append))
    assert problems == []
