"""Many small pieces of work in one step."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.attacks.answers import PARTITIONS, SERVE, WIDE, with_producers, with_transaction
from tests.attacks.patterns import INIT_PRODUCER_ID, LIST_TRANSACTIONS, make_ids
from tests.attacks.sending import exchange, read_answers, request
from tests.attacks.target import Attack, AttackTarget
from txnsim.wire.batch import Record, build_batch

IDS: Final = 100_000
GROUPS: Final = 50_000
MOVED_GROUPS: Final = 100_000
OFFSETS: Final = "__consumer_offsets"
OPEN: Final = 10_000
BATCHES: Final = 50_000
ADD_PARTITIONS: Final = 24
ONE_BROKER: Final = ("--brokers", "1")
LIMIT_S: Final = 600.0
"""The limit includes the preparation, which takes a while."""
_DAY_MS: Final = 86_400_000


def transactional_ids(target: AttackTarget) -> int:
    """ListTransactions, /api/v1/transactions and /metrics over 100,000 transactional ids."""
    _ids(target, IDS)
    target.reset_memory_peak()
    filters = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
    with target.connect() as connection:
        assert len(connection.ask(LIST_TRANSACTIONS, 1, **filters).transaction_states) == IDS + 1
    get_pages(target, "/api/v1/transactions?state=Ongoing", "/metrics", "/api/v1/transactions")
    get_pages(target, "/api/v1/open-transactions", "/api/v1/report", "/api/v1/transactions/id-7")
    return 0


def expiries(target: AttackTarget) -> int:
    """100,000 transactional ids of one coordinator partition expire at once."""
    _ids(target, IDS)
    target.reset_memory_peak()
    target.measure_gaps_anew()
    sent_bytes = sum(_advance(target, advance_ms) for advance_ms in (8 * _DAY_MS, _DAY_MS // 24))
    with urllib.request.urlopen(f"{target.http}/api/v1/transactions", timeout=60) as answer:
        assert json.load(answer) == [], "all are forgotten"
    return sent_bytes


def control_port(target: AttackTarget) -> int:
    """Lists of the control port: 9,990 partitions, a transaction open on each, 5,000 producers."""
    description, _ = with_transaction(target)
    records = build_batch(
        [Record(key=None, value=b"v")],
        timestamp_ms=1_700_000_000_000,
        producer_id=description.producer_id,
        producer_epoch=description.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    partition_data = [
        {"index": partition_index, "records": records} for partition_index in range(PARTITIONS)
    ]
    topic = {"name": WIDE, "partition_data": partition_data}
    values = {"transactional_id": "t", "acks": 1, "timeout": 30_000, "topic_data": [topic]}
    with target.connect() as connection:
        answers = connection.ask(0, 9, **values).responses[0].partition_responses
        assert not any(answer.error_code for answer in answers)
    with_producers(target)
    target.reset_memory_peak()
    for name in ("cluster", "topics", f"topics/{WIDE}", "transactions", "transactions/t"):
        get_pages(target, f"/api/v1/{name}")
    get_pages(target, "/api/v1/producers", "/api/v1/open-transactions")
    get_pages(target, "/metrics", "/api/v1/report", "/api/v1/verdict")
    return 0


def groups(target: AttackTarget) -> int:
    """ListGroups over 50,000 groups, and the retention of their positions."""
    with target.connect() as connection:
        connection.ask(10, 4, key_type=0, coordinator_keys=["any"])
    time.sleep(1.0)
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    commit: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": ""}
    commit["topics"] = [{"name": "neighbour", "partitions": partitions}]
    frame_bytes = b"".join(
        request(8, 9, group_id=f"g-{coverage_number}", **commit)
        for coverage_number in range(GROUPS)
    )
    with target.socket() as connection:
        exchange(connection, frame_bytes, answer_count=GROUPS)
        target.reset_memory_peak()
        connection.sendall(request(16, 4, states_filter=[]))
        read_answers(connection, 1)
    return _advance(target, 8 * _DAY_MS)


def moved_groups(target: AttackTarget) -> int:
    """100,000 groups in one partition, whose coordinator moves four times."""
    frames = b"".join(
        request(
            8,
            9,
            group_id=f"g-{number}",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                {
                    "name": "neighbour",
                    "partitions": [{"partition_index": 0, "committed_offset": 1}],
                }
            ],
        )
        for number in range(MOVED_GROUPS)
    )
    _post(target, "/api/v1/leaders", {"topic": OFFSETS, "partition": 0, "leader": 1})
    time.sleep(2.0)
    with target.socket() as connection:
        exchange(connection, frames, answer_count=MOVED_GROUPS)
    target.reset_memory_peak()
    target.measure_gaps_anew()
    for move_number in range(4):
        place = {"topic": OFFSETS, "partition": 0, "leader": 2 - move_number % 2}
        _post(target, "/api/v1/leaders", place)
        time.sleep(4.0)
    return 0


def timeouts(target: AttackTarget) -> int:
    """10,000 transactions that time out in one advance of the clock."""
    make_ids(target, [])
    frames = list(_init(OPEN, "open-"))
    with target.socket() as connection:
        exchange(connection, b"".join(frames), answer_count=OPEN)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: _begin_transactions(target, part), range(4)))
    target.reset_memory_peak()
    return _advance(target, 120_000)


def truncation(target: AttackTarget) -> int:
    """A log of 50,000 batches, each of another producer, that parts from its new leader's."""
    leader, ends = _replicas(target)
    old_leader_id, (new_leader_id,) = leader, ends.keys() - {leader}
    _produce(target, old_leader_id, range(BATCHES), acks=-1)
    _post(target, f"/api/v1/brokers/{old_leader_id}/isolate", {})
    _produce(target, old_leader_id, range(BATCHES, BATCHES + 1), acks=1)
    _post(target, "/api/v1/leaders", {"topic": "other", "partition": 0, "leader": new_leader_id})
    _produce(target, new_leader_id, range(BATCHES + 1, BATCHES + 3), acks=1)
    target.reset_memory_peak()
    _post(target, f"/api/v1/brokers/{old_leader_id}/heal", {})
    for _ in range(100):
        _, ends = _replicas(target)
        if ends[old_leader_id] == ends[new_leader_id]:
            return 0
        time.sleep(0.3)
    raise AssertionError(f"the old leader's log still is another one: {ends}")


def _replicas(target: AttackTarget) -> tuple[int, dict[int, int]]:
    """The leader, and where each broker's log ends."""
    with urllib.request.urlopen(f"{target.http}/api/v1/topics/other", timeout=120) as answer:
        (partition,) = json.load(answer)["partitions"]
    ends = {replica["broker"]: replica["log_end_offset"] for replica in partition["replicas"]}
    return partition["leader"], ends


def _produce(target: AttackTarget, broker: int, producers: range, *, acks: int) -> None:
    """Produce a batch of each producer."""
    host, port = target.ready["bootstrap"].split(",")[broker - 1].rsplit(":", 1)
    fields = {"transactional_id": None, "acks": acks, "timeout": 30_000}
    frames = []
    for producer in producers:
        records = build_batch(
            [Record(key=None, value=b"v")],
            timestamp_ms=1_700_000_000_000,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
        )
        partition_data = [{"index": 0, "records": records}]
        topics = [{"name": "other", "partition_data": partition_data}]
        frames.append(request(0, 9, topic_data=topics, **fields))
    with socket.create_connection((host, int(port)), timeout=60.0) as connection:
        exchange(connection, b"".join(frames), answer_count=len(frames))


def _begin_transactions(target: AttackTarget, part: int) -> None:
    with target.connect() as connection:
        for number in range(part, OPEN, 4):
            transactional_id = f"open-{number}"
            description = connection.ask(
                65, 0, transactional_ids=[transactional_id]
            ).transaction_states[0]
            connection.ask(
                *(ADD_PARTITIONS, 3),
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=description.producer_id,
                v3_and_below_producer_epoch=description.producer_epoch,
                v3_and_below_topics=[{"name": "other", "partitions": [0]}],
            )


def _ids(target: AttackTarget, count: int) -> None:
    make_ids(target, ["first"])
    frames = list(_init(count, "id-"))
    with target.socket() as connection:
        exchange(connection, b"".join(frames), answer_count=count)


def _init(count: int, prefix: str) -> Iterator[bytes]:
    fields = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    for number in range(count):
        yield request(INIT_PRODUCER_ID, 4, transactional_id=f"{prefix}{number}", **fields)


def get_pages(target: AttackTarget, *paths: str) -> None:
    for path in paths:
        with urllib.request.urlopen(target.http + path, timeout=120) as answer:
            answer.read()


def _post(target: AttackTarget, path: str, document: object) -> int:
    body = json.dumps(document).encode()
    post_request = urllib.request.Request(
        target.http + path, data=body, headers={"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(post_request, timeout=120) as answer:
        answer.read()
    return len(body)


def _advance(target: AttackTarget, ms: int) -> int:
    sent_bytes = _post(target, "/api/v1/clock", {"advance_ms": ms})
    time.sleep(3.0)
    return sent_bytes


def _one_offsets_partition(folder: Path) -> tuple[str, ...]:
    properties_file = folder / "offsets.properties"
    properties_file.write_text("offsets.topic.num.partitions=1\n")
    return "--config", str(properties_file)


ATTACKS: Final = (
    Attack("walk-ids", transactional_ids, serve=ONE_BROKER, limit_s=LIMIT_S),
    Attack("walk-groups", groups, serve=ONE_BROKER, limit_s=LIMIT_S),
    Attack(
        "walk-expiries",
        expiries,
        serve=(*ONE_BROKER, "--config", str(Path(__file__).with_name("one_partition.properties"))),
        limit_s=LIMIT_S,
    ),
    Attack(
        "walk-moved-groups",
        moved_groups,
        serve=("--brokers", "2", "--ready-coordinators"),
        prepare=_one_offsets_partition,
        limit_s=LIMIT_S,
    ),
    Attack("walk-timeouts", timeouts, serve=(*ONE_BROKER, "--topic", "other:1"), limit_s=LIMIT_S),
    Attack("walk-control-port", control_port, serve=SERVE, limit_s=LIMIT_S),
    Attack(
        "walk-truncation",
        truncation,
        serve=("--brokers", "2", "--topic", "other:1"),
        limit_s=LIMIT_S,
    ),
)
