"""Small requests for large answers: one large resource, named many times or once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any, Final

from tests.attacks.patterns import make_ids
from tests.attacks.sending import read_answers, request
from tests.attacks.target import Attack, AttackTarget
from txnsim.wire.batch import Record, build_batch

WIDE: Final = "wide"
PARTITIONS: Final = 9_990
SERVE: Final = ("--brokers", "1", "--topic", f"{WIDE}:{PARTITIONS}")
CONFIG_BYTES: Final = 8_500_000
PRODUCERS: Final = 5_000


def positions(target: AttackTarget) -> int:
    """OffsetFetch of one group of 9,990 positions, named 1,000 times in 9 kB."""
    return _with_positions(target) + _send_and_read(target, _offset_fetch(1_000))


def positions_most(target: AttackTarget) -> int:
    """OffsetFetch of one group of 9,990 positions, named 9,990 times."""
    return _with_positions(target) + _send_and_read(target, _offset_fetch(9_990))


def positions_64(target: AttackTarget) -> int:
    """OffsetFetch of one group of 9,990 positions, named 64 times: as many have had no pace."""
    return _with_positions(target) + _send_and_read(target, _offset_fetch(64))


def answer_to_nobody(target: AttackTarget) -> int:
    """Twenty clients ask for the positions of one group 1,000 times and hang up at once."""
    sent_bytes = _with_positions(target)
    frame = _offset_fetch(1_000)
    for _ in range(20):
        with target.socket() as connection:
            connection.sendall(frame)
    time.sleep(3.0)
    return sent_bytes + 20 * len(frame)


def configs(target: AttackTarget) -> int:
    """DescribeConfigs of a value of 8.5 MB, named 1,000 times in 6 kB."""
    resource = {"resource_type": 2, "resource_name": WIDE, "configuration_keys": None}
    frame = request(32, 4, resources=[resource] * 1_000, include_synonyms=True)
    return _with_config(target) + _send_and_read(target, frame)


def configs_appends(target: AttackTarget) -> int:
    """DescribeConfigs of one value of 8.5 MB, to which two requests have appended a letter each."""
    sent_bytes = _with_config(target)
    for config_value in ("a", "b"):
        change = {"name": "leader.replication.throttled.replicas", "config_operation": 2}
        resource = {"resource_type": 2, "resource_name": WIDE}
        resource["configs"] = [{**change, "value": config_value}]
        sent_bytes += _send_and_read(
            target, request(44, 1, resources=[resource], validate_only=False)
        )
    resource = {"resource_type": 2, "resource_name": WIDE, "configuration_keys": None}
    return sent_bytes + _send_and_read(
        target, request(32, 4, resources=[resource], include_synonyms=True)
    )


def producers(target: AttackTarget) -> int:
    """DescribeProducers of a partition with 5,000 producers, named 19,980 times."""
    return with_producers(target) + _send_and_read(target, _describe_producers([0] * 19_980))


def producers_64(target: AttackTarget) -> int:
    """DescribeProducers of a partition with 5,000 producers, named 64 times."""
    return with_producers(target) + _send_and_read(target, _describe_producers([0] * 64))


def consumer_group(target: AttackTarget) -> int:
    """ConsumerGroupDescribe of a group of 9,990 partitions, named 2,000 times."""
    sent_bytes = _consumer_group(target)
    return sent_bytes + _send_and_read(target, request(69, 1, group_ids=["consumers"] * 2_000))


def transactions_64(target: AttackTarget) -> int:
    """DescribeTransactions of an id with 9,990 partitions, named 64 times."""
    _, sent_bytes = with_transaction(target)
    return sent_bytes + _send_and_read(target, request(65, 0, transactional_ids=["t"] * 64))


def fetch_sessions(target: AttackTarget) -> int:
    """60 fetch sessions of 9,990 partitions each."""
    partitions = [
        {"partition": partition_index, "partition_max_bytes": 1}
        for partition_index in range(PARTITIONS)
    ]
    opening_request = request(
        *(1, 11),
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        max_bytes=1,
        session_id=0,
        session_epoch=0,
        topics=[{"topic": WIDE, "partitions": partitions}],
    )
    with target.socket() as connection:
        connection.settimeout(60.0)
        for _ in range(60):
            connection.sendall(opening_request)
            read_answers(connection, 1)
    return len(opening_request)  # what one of them carries: an answered request is gone


def _offset_fetch(repeat_count: int) -> bytes:
    group = {"group_id": "g", "member_id": None, "member_epoch": -1, "topics": None}
    return request(9, 9, groups=[group] * repeat_count)


def _describe_producers(indexes: Sequence[int]) -> bytes:
    return request(61, 0, topics=[{"name": WIDE, "partition_indexes": indexes}])


def _with_positions(target: AttackTarget) -> int:
    partitions = [
        {"partition_index": partition_index, "committed_offset": 1}
        for partition_index in range(PARTITIONS)
    ]
    values: dict[str, Any] = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": WIDE, "partitions": partitions}],
    }
    with target.connect() as connection:
        connection.ask(10, 4, key_type=0, coordinator_keys=["g"])
        while connection.ask(8, 9, **values).topics[0].partitions[0].error_code:
            time.sleep(0.05)
    return len(request(8, 9, **values))


def _with_config(target: AttackTarget) -> int:
    config_value = ",".join(["0:1"] * (CONFIG_BYTES // 4))
    change = {"name": "leader.replication.throttled.replicas", "config_operation": 0}
    resource = {"resource_type": 2, "resource_name": WIDE}
    resource["configs"] = [{**change, "value": config_value}]
    return _send_and_read(target, request(44, 1, resources=[resource], validate_only=False))


def with_transaction(target: AttackTarget) -> tuple[Any, int]:
    """Begin one of all partitions; its id as DescribeTransactions has it, and bytes sent."""
    make_ids(target, ["t"])
    with target.connect() as connection:
        description = connection.ask(65, 0, transactional_ids=["t"]).transaction_states[0]
        added_partitions = {
            "v3_and_below_transactional_id": "t",
            "v3_and_below_producer_id": description.producer_id,
            "v3_and_below_producer_epoch": description.producer_epoch,
            "v3_and_below_topics": [{"name": WIDE, "partitions": range(PARTITIONS)}],
        }
        connection.ask(24, 3, **added_partitions)
    return description, len(request(24, 3, **added_partitions))


def with_producers(target: AttackTarget) -> int:
    """Have 5,000 producers at one partition; bytes sent."""
    sent_bytes = 0
    with target.socket() as connection:
        for producer_number in range(PRODUCERS):
            records = build_batch(
                [Record(key=None, value=b"v")],
                timestamp_ms=1_700_000_000_000,
                producer_id=10_000 + producer_number,
                producer_epoch=0,
                base_sequence=0,
            )
            topic = {"name": WIDE, "partition_data": [{"index": 0, "records": records}]}
            frame = request(0, 9, acks=1, timeout=30_000, topic_data=[topic])
            connection.sendall(frame)
            read_answers(connection, 1)
            sent_bytes += len(frame)
    return sent_bytes


def _consumer_group(target: AttackTarget) -> int:
    beat: dict[str, Any] = {
        "group_id": "consumers",
        "member_id": "m",
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": [WIDE],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    with target.connect() as connection:
        connection.ask(10, 4, key_type=0, coordinator_keys=["consumers"])
        while connection.ask(68, 1, member_epoch=0, **beat).error_code:
            time.sleep(0.05)
        answer = connection.ask(68, 1, member_epoch=0, **beat)
        assert answer.assignment is None or answer.assignment.topic_partitions
    return len(request(68, 1, member_epoch=0, **beat))


def _send_and_read(target: AttackTarget, frame: bytes) -> int:
    """Send and take what comes; a closed connection is an answer."""
    with target.socket() as connection:
        connection.settimeout(60.0)
        connection.sendall(frame)
        with contextlib.suppress(ConnectionError):
            read_answers(connection, 1)
    return len(frame)


ATTACKS: Final = (
    Attack("answer-positions", positions, serve=SERVE),
    Attack("answer-positions-most", positions_most, serve=SERVE),
    Attack("answer-positions-64", positions_64, serve=SERVE),
    Attack("answer-to-nobody", answer_to_nobody, serve=SERVE),
    Attack("answer-configs", configs, serve=SERVE),
    Attack("answer-config-appends", configs_appends, serve=SERVE),
    Attack("answer-producers", producers, serve=SERVE),
    Attack("answer-producers-64", producers_64, serve=SERVE),
    Attack("answer-consumer-group", consumer_group, serve=SERVE),
    Attack("answer-transactions-64", transactions_64, serve=SERVE),
    Attack("fetch-sessions-heavy", fetch_sessions, serve=SERVE),
)
