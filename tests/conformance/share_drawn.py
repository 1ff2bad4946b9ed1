"""Drawn plays about share groups (KIP-932): the same seed asks two brokers the same.

``python -m tests.conformance.share_drawn REAL OURS --seeds 100-120`` asks both and tells where
their answers part. ``--write`` keeps what the first one answered.
"""

from __future__ import annotations

import random  # noqa: TID251 - a seed, and a broker on the real machine
import sys
import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from tests.conformance.drawn import compare_play
from tests.conformance.streams_plays import ANSWER_TIMEOUT_S, Plays, plain
from txnsim.client.raw.connection import RawConnection
from txnsim.runtime.blocking_world import world
from txnsim.types import uuid_text
from txnsim.wire.apis import APIS
from txnsim.wire.batch import Record, build_batch, iter_batches

TRANSCRIPT: Final = Path(__file__).with_suffix(".jsonl")
SETTINGS: Final = {
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "auto.create.topics.enable": "false",
}
_MOVES: Final = 30
_MEMBERS: Final = ("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "not-a-uuid")
_UNKNOWN: Final = uuid.UUID(int=77)
_KEYS: Final = {name: key for key, (name, _) in APIS.items()}


class Sharer:
    """A member with a connection of its own, as a client has one."""

    def __init__(self, address: str, member_id: str) -> None:
        self.member_id = member_id
        self.epoch = 0
        """Of its share session: that of its next request."""
        self.member_epoch = 0
        self.held: dict[tuple[str, int], list[tuple[int, int]]] = {}
        """By topic and partition, what it acquired and has not acknowledged."""
        self._address = address
        self._connect()

    def _connect(self) -> None:
        self._connection = RawConnection(self._address, answer_timeout_s=ANSWER_TIMEOUT_S)
        self._connection.__enter__()

    def ask(self, api: str, version: int, **request_fields: Any) -> Any:
        """Send a request on the member's own connection."""
        return self._connection.ask(_KEYS[api], version, **request_fields)

    def close(self) -> None:
        """Close the member's connection."""
        self._connection.__exit__(None, None, None)

    def reconnect(self) -> None:
        """Lose the connection; its session ends."""
        self.close()
        self._connect()
        self.epoch, self.held = 0, {}


class DrawnShares:
    """One seed's play.

    Args:
        plays: The broker.
        seed: Of the draws, and part of each name.
    """

    def __init__(self, plays: Plays, seed: int) -> None:
        self._p = plays
        self._chance = random.Random(f"shares/{seed}")
        self._name = f"s{seed}"
        self._group = f"{self._name}-g"
        self._ids: dict[str, uuid.UUID] = {}
        self._partitions: dict[str, int] = {}
        self._sharers = [Sharer(plays.address, member_id) for member_id in _MEMBERS[:2]]
        self._open: dict[str, Any] | None = None
        """Whose transaction goes on."""
        self._written = 0

    def play(self) -> None:
        """Draw and send all requests of the play."""
        plays, random_source = self._p, self._chance
        plays.play, plays.own_names = self._name, self._group
        if not plays.rows:
            self._warm_up()
        self._clean_topics()
        # Which of several partitions are loaded at a first fetch is chance on a real broker.
        self._topic("t", 1)
        reset = random_source.choice(("earliest", "earliest", "earliest", "latest", None))
        isolation = random_source.choice(("read_committed", "read_committed", None))
        group_configs = {"share.auto.offset.reset": reset, "share.isolation.level": isolation}
        plays.configure(self._group, group_configs, is_quiet=True)
        if random_source.random() < 0.3:
            self._configure()
        self._append()
        self._join(self._sharers[0])
        self._beat_until_settled()
        moves: Mapping[Callable[[], None], float] = {
            self._append: 3,
            self._transact: 2.5,
            self._fetch: 9,
            self._acknowledge: 6,
            self._session: 3,
            self._send_heartbeat: 2,
            self._describe: 2,
            self._offsets: 3,
            self._configure: 1.5,
            self._delete_records: 1,
            self._ask_other_types: 1.5,
            self._coordinators: 1,
            self._disconnect: 1,
            self._leave: 1,
            self._delete: 0.7,
        }
        for _ in range(_MOVES):
            (move_leader,) = random_source.choices(tuple(moves), tuple(moves.values()))
            move_leader()
        self._share_fetch(self._sharers[0])
        self._describe_groups()
        self._end()
        self._clean_topics()
        for sharer in self._sharers:
            sharer.close()

    # Before and after

    def _warm_up(self) -> None:
        """Have the topic of share states created, because the first reads fail until then."""
        sharer = self._sharers[0]
        for _ in range(100):
            values = {"group_id": "warm-shares", "member_id": sharer.member_id, "rack_id": None}
            names = {"subscribed_topic_names": ["src"], "member_epoch": 0}
            answer = self._p.ask("ShareGroupHeartbeat", 1, is_quiet=True, **values, **names)
            if answer.assignment is not None and answer.assignment.topic_partitions:
                break
            world().sleep(0.1)
        world().sleep(self._p.pause_s)

    def _clean_topics(self) -> None:
        plays, group = self._p, self._group
        for sharer in self._sharers:
            self._heartbeat(sharer, -1, is_quiet=True)
        for _ in range(40):
            answer = plays.ask("DeleteGroups", 2, is_quiet=True, groups_names=[group])
            if answer.results[0].error_code.name in ("none", "group_id_not_found"):
                break
            world().sleep(0.1)
        names = [name for name, _ in _CONFIGS]
        plays.configure(group, dict.fromkeys(names), is_quiet=True)
        topic_names = [f"{self._name}-{letter}" for letter in "tu"]
        plays.ask("DeleteTopics", 5, is_quiet=True, topic_names=topic_names, timeout=30_000)
        plays.settle_topics()

    def _topic(self, name: str, partitions: int) -> None:
        full_name = f"{self._name}-{name}"
        self._p.topic(full_name, partitions)
        topics = [{"topic_id": uuid.UUID(int=0), "name": full_name}]
        for _ in range(100):
            (topic_description,) = self._p.ask(
                "Metadata",
                12,
                is_quiet=True,
                topics=topics,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            ).topics
            if not topic_description.error_code and len(topic_description.partitions) == partitions:
                break
            world().sleep(0.05)
        self._ids[full_name] = topic_description.topic_id
        self._partitions[full_name] = partitions

    def _choose_partition(self) -> tuple[str, int]:
        random_source = self._chance
        partition_name = random_source.choice(sorted(self._ids))
        return partition_name, random_source.randrange(self._partitions[partition_name])

    # Members

    def _heartbeat(
        self,
        sharer: Sharer,
        epoch: int | None = None,
        *,
        is_quiet: bool = False,
        **request_fields: Any,
    ) -> Any:
        values = {
            "group_id": self._group,
            "member_id": sharer.member_id,
            "member_epoch": sharer.member_epoch if epoch is None else epoch,
            "rack_id": None,
            "subscribed_topic_names": None,
            **request_fields,
        }
        answer = self._p.ask("ShareGroupHeartbeat", 1, is_quiet=is_quiet, **values)
        if not is_quiet:
            _count_assigned(self._p.rows[-1][3])
        if not answer.error_code:
            sharer.member_epoch = max(0, answer.member_epoch)
        return answer

    def _join(self, sharer: Sharer) -> None:
        topics = self._chance.sample(sorted(self._ids), self._chance.choice((1, len(self._ids))))
        self._heartbeat(sharer, 0, subscribed_topic_names=topics)

    def _beat_until_settled(self) -> None:
        """Heartbeats until the share partitions are initialised and nothing changes."""
        equal_round_count = 0
        for _ in range(60):
            epochs_before = [sharer.member_epoch for sharer in self._sharers]
            for sharer in self._sharers:
                if sharer.member_epoch:
                    self._heartbeat(sharer, is_quiet=True)
            equal_round_count = (
                equal_round_count + 1
                if epochs_before == [sharer.member_epoch for sharer in self._sharers]
                else 0
            )
            if equal_round_count == 4:
                return
            world().sleep(self._p.pause_s / 2)

    def _choose_sharer(self) -> Sharer:
        return self._chance.choice(self._sharers)

    def _send_heartbeat(self) -> None:
        random_source, sharer = self._chance, self._choose_sharer()
        match random_source.choice(("join", "stay", "epoch", "names", "odd", "stranger")):
            case "join":
                self._join(sharer)
                self._beat_until_settled()
            case "stay":
                self._heartbeat(sharer)
            case "epoch":
                self._heartbeat(sharer, sharer.member_epoch + random_source.choice((-2, -1, 1, 5)))
            case "names":
                names = random_source.choice(
                    ([f"{self._name}-t"], [f"{self._name}-none"], [*self._ids])
                )
                self._heartbeat(sharer, subscribed_topic_names=names)
                self._beat_until_settled()
            case "odd":
                odd_fields: dict[str, Any] = random_source.choice(
                    (
                        {"member_id": ""},
                        {"member_id": " "},
                        {"group_id": ""},
                        {"group_id": " "},
                        {"rack_id": ""},
                        {"rack_id": "r"},
                        {"member_epoch": -2},
                        {"member_epoch": 0},
                        {"member_epoch": 0, "subscribed_topic_names": []},
                        {"subscribed_topic_names": []},
                    )
                )
                self._heartbeat(sharer, odd_fields.pop("member_epoch", None), **odd_fields)
            case _:
                stranger: dict[str, Any] = {"member_id": random_source.choice((_MEMBERS[2], "x"))}
                self._heartbeat(sharer, random_source.choice((1, 3, -1)), **stranger)

    def _leave(self) -> None:
        sharer = self._choose_sharer()
        self._heartbeat(sharer, -1)
        sharer.member_epoch = 0
        self._beat_until_settled()

    def _disconnect(self) -> None:
        """Close a member's connection, which releases the records that it acquired."""
        self._choose_sharer().reconnect()
        world().sleep(self._p.pause_s)

    # Records

    def _build_batch(self, count: int, **producer: Any) -> bytes:
        self._written += 1
        records = [
            Record(key=b"k", value=b"v" * self._written + str(record_number).encode())
            for record_number in range(count)
        ]
        return build_batch(records, timestamp_ms=1_700_000_000_000, **producer)

    def _produce_batch(
        self, topic_partition: tuple[str, int], records: bytes, transactional_id: str | None
    ) -> None:
        topic, partition = topic_partition
        topic_data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        answer = self._p.ask(
            "Produce",
            9,
            is_quiet=True,
            transactional_id=transactional_id,
            acks=-1,
            timeout=30_000,
            topic_data=topic_data,
        )
        (partition_answer,) = answer.responses[0].partition_responses
        self._p.rows.append(
            [self._name, "appended", partition_answer.error_code.name, partition_answer.base_offset]
        )

    def _append(self) -> None:
        topic_partition = self._choose_partition()
        for _ in range(self._chance.choice((1, 1, 2, 3))):
            self._produce_batch(
                topic_partition, self._build_batch(self._chance.choice((1, 2, 3, 5))), None
            )

    def _transact(self) -> None:
        """Begin a transaction with records, or end the open one."""
        if self._open is not None:
            self._end()
            return
        plays, random_source = self._p, self._chance
        name = {"transactional_id": f"{self._name}-txn"}
        own_fields = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        while (
            init_answer := plays.ask("InitProducerId", 4, is_quiet=True, **name, **own_fields)
        ).error_code:
            world().sleep(0.05)
        producer_fields = {
            **name,
            "producer_id": init_answer.producer_id,
            "producer_epoch": init_answer.producer_epoch,
        }
        topic_partition = self._choose_partition()
        old_fields = {
            f"v3_and_below_{key}": producer_field_value
            for key, producer_field_value in producer_fields.items()
        }
        old_fields["v3_and_below_topics"] = [
            {"name": topic_partition[0], "partitions": [topic_partition[1]]}
        ]
        while self._refuses(plays.ask("AddPartitionsToTxn", 3, is_quiet=True, **old_fields)):
            world().sleep(0.05)
        batch = self._build_batch(
            random_source.choice((1, 2, 4)),
            producer_id=init_answer.producer_id,
            producer_epoch=init_answer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        self._produce_batch(topic_partition, batch, f"{self._name}-txn")
        self._open = producer_fields
        if random_source.random() < 0.5:
            self._end()

    @staticmethod
    def _refuses(add_answer: Any) -> bool:
        (topic,) = add_answer.results_by_topic_v3_and_below
        return bool(topic.results_by_partition[0].partition_error_code)

    def _end(self) -> None:
        producer_fields, self._open = self._open, None
        if producer_fields is None:
            return
        committed = self._chance.random() < 0.5
        while self._p.ask(
            "EndTxn", 3, is_quiet=True, **producer_fields, committed=committed
        ).error_code:
            world().sleep(0.05)
        world().sleep(self._p.pause_s)
        self._p.rows.append([self._name, "ended", committed])

    def _delete_records(self) -> None:
        topic, partition = self._choose_partition()
        offset = self._chance.choice((1, 2, 3, 5, 8, -1))
        partitions = [{"partition_index": partition, "offset": offset}]
        topics = [{"name": topic, "partitions": partitions}]
        self._p.ask("DeleteRecords", 2, topics=topics, timeout=30_000)

    # Share sessions

    def _share_fetch(self, sharer: Sharer, epoch: int | None = None, **request_fields: Any) -> Any:
        """A ShareFetch of the member, with ``fields`` in place of the right values."""
        session = sharer.epoch if epoch is None else epoch
        topics = request_fields.pop("topics", None)
        if topics is None:
            topics = [
                {
                    "topic_id": self._ids[partition_name],
                    "partitions": [
                        {"partition_index": partition_index, "acknowledgement_batches": []}
                        for partition_index in range(self._partitions[partition_name])
                    ],
                }
                for partition_name in (sorted(self._ids) if session == 0 else ())
            ]
        values = {
            "group_id": self._group,
            "member_id": sharer.member_id,
            "share_session_epoch": session,
            "max_wait": timedelta(seconds=2 * self._p.pause_s),
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "share_acquire_mode": 0,
            "is_renew_ack": False,
            "topics": topics,
            "forgotten_topics_data": [],
            **request_fields,
        }
        answer = sharer.ask("ShareFetch", 2, **values)
        self._keep_answer("ShareFetch", values, answer)
        self._follow(sharer, answer, session)
        for topic in answer.responses:
            partition_name = self._name_of(topic.topic_id)
            for part in topic.partitions:
                held_spans = sharer.held.setdefault((partition_name, part.partition_index), [])
                held_spans += [
                    (acquired_record.first_offset, acquired_record.last_offset)
                    for acquired_record in part.acquired_records
                ]
        return answer

    def _follow(self, sharer: Sharer, answer: Any, session: int) -> None:
        if answer.error_code:
            return
        sharer.epoch = 0 if session == -1 else session + 1
        if session == -1:
            sharer.held = {}

    def _keep_answer(self, api: str, values: dict[str, Any], answer: Any) -> None:
        """A request and its answer; records by their batches, as producers' ids differ."""
        topics = [
            {**topic, "topic_id": self._name_of(topic["topic_id"])} for topic in values["topics"]
        ]
        forgotten = len(values.get("forgotten_topics_data", ()))
        own_fields = {"max_wait": None, "topics": topics, "forgotten_topics_data": forgotten}
        plain_answer = plain(answer)
        for topic, raw_topic in zip(plain_answer["responses"], answer.responses, strict=True):
            topic["topic_id"] = self._name_of(raw_topic.topic_id)
            for part, raw_partition in zip(topic["partitions"], raw_topic.partitions, strict=True):
                if "records" in part:
                    part["records"] = [
                        [header.base_offset, header.last_offset, header.records_count]
                        for _, header in iter_batches(bytes(raw_partition.records or b""))
                    ]
            topic["partitions"].sort(key=lambda partition: partition["partition_index"])
        plain_answer["responses"].sort(key=lambda topic: topic["topic_id"])
        plain_answer.pop("node_endpoints", None)
        self._p.rows.append([self._name, api, 2, plain_answer, {**values, **own_fields}])

    def _name_of(self, topic_id: uuid.UUID | None) -> str:
        return next((name for name, known_id in self._ids.items() if known_id == topic_id), "?")

    def _fetch(self) -> None:
        random_source, sharer = self._chance, self._choose_sharer()
        fields: dict[str, Any] = {}
        if random_source.random() < 0.4:
            fields["max_records"] = random_source.choice((1, 2, 3))
        if random_source.random() < 0.3:
            fields["batch_size"] = random_source.choice((1, 2, 10))
        if random_source.random() < 0.25:
            fields["share_acquire_mode"] = random_source.choice((1, 1, 1, 2))
        if random_source.random() < 0.35 and sharer.epoch > 0:
            fields["topics"] = self._acks(sharer)
        if random_source.random() < 0.05:
            fields["max_wait"] = timedelta(milliseconds=0)
        if random_source.random() < 0.05:
            fields["max_records"] = random_source.choice((0, -1))
        if random_source.random() < 0.04:
            fields["batch_size"] = -1
        if random_source.random() < 0.05:
            fields["is_renew_ack"] = True
        if random_source.random() < 0.05 and sharer.epoch > 0:
            name = random_source.choice(sorted(self._ids))
            fields["forgotten_topics_data"] = [{"topic_id": self._ids[name], "partitions": [0]}]
        self._share_fetch(sharer, **fields)

    def _acks(self, sharer: Sharer) -> list[dict[str, Any]]:
        """Acknowledgements of records that the member has acquired, or of others."""
        random_source = self._chance
        held_spans = [
            (topic_partition, span)
            for topic_partition, spans in sorted(sharer.held.items())
            for span in spans
        ]
        if held_spans and random_source.random() < 0.8:
            topic_partition, (first_offset, last_offset) = random_source.choice(held_spans)
            sharer.held[topic_partition].remove((first_offset, last_offset))
            if random_source.random() < 0.3 and first_offset < last_offset:
                last_offset = random_source.randint(first_offset, last_offset)
        else:
            topic_partition, first_offset = (
                self._choose_partition(),
                random_source.choice((0, 1, 4, 90)),
            )
            last_offset = first_offset + random_source.choice((0, 1, 3, -1))
        kinds = (1, 1, 1, 2, 2, 3, 4, 0, 5)
        count = max(0, last_offset - first_offset + 1)
        types = random_source.choice(
            (
                [random_source.choice(kinds)],
                [random_source.choice(kinds)],
                [random_source.choice(kinds) for _ in range(count)],
                [
                    random_source.choice(kinds[:6])
                    for _ in range(count + random_source.choice((0, 0, 1)))
                ],
            )
        )
        name, partition_index = topic_partition
        topic_id = self._ids[name] if random_source.random() < 0.95 else _UNKNOWN
        span = {
            "first_offset": first_offset,
            "last_offset": last_offset,
            "acknowledge_types": types,
        }
        partition = {"partition_index": partition_index, "acknowledgement_batches": [span]}
        return [{"topic_id": topic_id, "partitions": [partition]}]

    def _acknowledge(self) -> None:
        sharer = self._choose_sharer()
        self._send_acknowledgement(sharer, topics=self._acks(sharer))

    def _send_acknowledgement(
        self, sharer: Sharer, epoch: int | None = None, **request_fields: Any
    ) -> None:
        session = sharer.epoch if epoch is None else epoch
        values = {
            "group_id": self._group,
            "member_id": sharer.member_id,
            "share_session_epoch": session,
            "is_renew_ack": self._chance.random() < 0.1,
            **request_fields,
        }
        answer = sharer.ask("ShareAcknowledge", 2, **values)
        self._keep_answer("ShareAcknowledge", values, answer)
        self._follow(sharer, answer, session)

    def _session(self) -> None:
        """A ShareFetch with a wrong session epoch, member, topic or partition."""
        random_source, sharer = self._chance, self._choose_sharer()
        match random_source.choice(
            ("epoch", "acks", "close", "begin", "topic", "member", "group", "part")
        ):
            case "epoch":
                self._share_fetch(
                    sharer, sharer.epoch + random_source.choice((1, 2, -1)), topics=[]
                )
            case "acks":
                epoch = random_source.choice((0, sharer.epoch + 1, -1))
                self._send_acknowledgement(sharer, epoch, topics=self._acks(sharer))
            case "close":
                if random_source.random() < 0.5:
                    self._share_fetch(
                        sharer, -1, topics=random_source.choice(([], self._acks(sharer)))
                    )
                else:
                    self._send_acknowledgement(
                        sharer, -1, topics=random_source.choice(([], self._acks(sharer)))
                    )
            case "begin":
                self._share_fetch(sharer, 0)
            case "topic":
                partition_fields = {"partition_index": 0, "acknowledgement_batches": []}
                self._share_fetch(
                    sharer, topics=[{"topic_id": _UNKNOWN, "partitions": [partition_fields]}]
                )
            case "part":
                partition_fields = {"partition_index": 9, "acknowledgement_batches": []}
                name = random_source.choice(sorted(self._ids))
                self._share_fetch(
                    sharer, topics=[{"topic_id": self._ids[name], "partitions": [partition_fields]}]
                )
            case "member":
                member = random_source.choice((None, "", _MEMBERS[2]))
                self._share_fetch(sharer, random_source.choice((0, 1)), member_id=member)
            case _:
                self._share_fetch(
                    sharer,
                    random_source.choice((0, 1)),
                    group_id=random_source.choice((None, "", f"{self._group}-no")),
                )

    # Looking, changing, deleting

    def _describe(self) -> None:
        random_source, plays = self._chance, self._p
        match random_source.choice(("one", "other", "list", "states", "types", "configs")):
            case "one":
                self._describe_groups()
            case "other":
                groups = random_source.choice(([f"{self._group}-no"], [""], [self._group] * 2))
                self._describe_groups(*groups, include_authorized_operations=True)
            case "list":
                plays.listed()
            case "states":
                states = ("Empty", "Stable", "Dead", "Assigning", "none")
                plays.listed(states_filter=random_source.sample(states, 2))
            case "types":
                types = ("streams", "share", "Share", "consumer", "classic", "none")
                plays.listed(types_filter=random_source.sample(types, 2))
            case _:
                plays.configs_of(self._group, "share.")

    def _describe_groups(self, *groups: str, **request_fields: Any) -> None:
        values = {"group_ids": groups or [self._group], "include_authorized_operations": False}
        self._p.ask("ShareGroupDescribe", 1, **{**values, **request_fields})
        for group in self._p.rows[-1][3]["groups"]:
            for member in group["members"]:
                _count_assigned(member)

    def _offsets(self) -> None:
        random_source, plays, group = self._chance, self._p, self._group
        topic_name = random_source.choice((*sorted(self._ids), f"{self._name}-none"))
        match random_source.choice(("all", "all", "named", "alter", "alter", "delete", "other")):
            case "all":
                self._offsets_of({"group_id": group, "topics": None})
            case "named":
                topics = [
                    {
                        "topic_name": topic_name,
                        "partitions": random_source.choice(([0], [0, 1], [7], [])),
                    }
                ]
                self._offsets_of({"group_id": group, "topics": topics})
            case "other":
                self._offsets_of({"group_id": f"{group}-no", "topics": None})
            case "alter":
                offset = random_source.choice((0, 1, 3, 99, -1, -5))
                partitions = [
                    {"partition_index": random_source.choice((0, 0, 1, 7)), "start_offset": offset}
                ]
                topics = [{"topic_name": topic_name, "partitions": partitions}]
                chosen_group = random_source.choice((group, group, group, f"{group}-no", ""))
                plays.ask("AlterShareGroupOffsets", 0, group_id=chosen_group, topics=topics)
            case _:
                chosen_group = random_source.choice((group, group, f"{group}-no", ""))
                topics = [{"topic_name": topic_name}]
                plays.ask("DeleteShareGroupOffsets", 0, group_id=chosen_group, topics=topics)

    def _offsets_of(self, group: dict[str, Any]) -> None:
        self._p.ask("DescribeShareGroupOffsets", 1, groups=[group])

    def _coordinators(self) -> None:
        """FindCoordinator requests with keys of share partitions."""
        random_source = self._chance
        topic_id = uuid_text(next(iter(self._ids.values())))
        key = random_source.choice(
            (
                f"{self._group}:{topic_id}:0",
                f"{self._group}:{topic_id}:x",
                f"{self._group}:{topic_id}",
                f"{self._group}:no:0",
                f":{topic_id}:0",
                f"{self._group}:{topic_id}:-1",
                f"{self._group}:{topic_id}:0:1",
                "",
            )
        )
        version = random_source.choice((5, 6, 6, 6))
        answer = self._p.ask(
            "FindCoordinator", version, is_quiet=True, key_type=2, coordinator_keys=[key]
        )
        rows = [
            [
                coordinator.error_code.name,
                (coordinator.error_message or "").replace(topic_id, "ID"),
                coordinator.node_id,
            ]
            for coordinator in answer.coordinators
        ]
        self._p.rows.append([self._name, "FindCoordinator", version, rows])

    def _ask_other_types(self) -> None:
        """Send a request that is meant for groups of another type."""
        random_source, plays, group = self._chance, self._p, self._group
        match random_source.choice(
            ("consumer", "classic", "described", "consumers", "commit", "fetch")
        ):
            case "consumer":
                plays.consume(
                    group, random_source.choice(("a", _MEMBERS[0])), random_source.choice((0, 2))
                )
            case "classic":
                plays.joinc(group)
            case "described":
                plays.ask("DescribeGroups", 6, groups=[group], include_authorized_operations=False)
            case "consumers":
                plays.ask(
                    "ConsumerGroupDescribe",
                    1,
                    group_ids=[group],
                    include_authorized_operations=False,
                )
            case "commit":
                epoch = random_source.choice((-1, 1))
                plays.commit(
                    group, random_source.choice(("", _MEMBERS[0])), epoch, 0, t=f"{self._name}-t"
                )
            case _:
                plays.fetch(
                    group, random_source.choice((None, _MEMBERS[0])), random_source.choice((-1, 1))
                )

    def _configure(self) -> None:
        name, values = self._chance.choice(_CONFIGS)
        self._p.configure(self._group, {name: self._chance.choice(values)})

    def _delete(self) -> None:
        random_source = self._chance
        if random_source.random() < 0.5:
            for sharer in self._sharers:
                self._heartbeat(sharer, -1)
                sharer.member_epoch = 0
        self._p.gone(self._group, *random_source.choice(((), (f"{self._group}-no",))))


def _count_assigned(member: dict[str, Any]) -> None:
    """Of an assignment the numbers of partitions: which ones a member gets, hashes of random ids
    say.
    """
    for topic in (member.get("assignment") or {}).get("topic_partitions", ()):
        topic["partitions"] = len(topic["partitions"])


_CONFIGS: Final = (
    ("share.isolation.level", ("read_committed", "read_uncommitted", "none", None)),
    ("share.auto.offset.reset", ("earliest", "latest", "by_duration:PT1H", "by_duration:", None)),
    ("share.delivery.count.limit", ("2", "3", "5", "1", "11", None)),
    ("share.partition.max.record.locks", ("100", "2000", "99", "10001", None)),
    ("share.record.lock.duration.ms", ("30000", "15000", "60000", "1", None)),
    ("share.renew.acknowledge.enable", ("true", "false", "maybe", None)),
    ("share.heartbeat.interval.ms", ("5000", "10000", "1", None)),
    ("share.session.timeout.ms", ("45000", "60000", "1", None)),
    ("share.nothing", ("1", None)),
)


def play(plays: Plays, seed: int) -> None:
    DrawnShares(plays, seed).play()


def main(argv: list[str] | None = None) -> int:
    """Play drawn requests on a real broker and on ours, and compare the answers."""
    return compare_play("share_drawn", play, TRANSCRIPT, argv)


if __name__ == "__main__":
    sys.exit(main())
