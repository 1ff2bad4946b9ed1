"""Commands between brokers as Kafka's bytes, and a cluster whose links carry only those."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clusters import client_of, options, until_state, values
from tests.support.images import B1, B2, TOPIC_ID
from tests.support.logs import batch
from tests.support.peer_codec.codec import KafkaPeerCodec
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode, MalformedFrameError, UnsupportedRequestError
from txnsim.interbroker.dead_letters import DeadLettersCommand, DeadLettersReply
from txnsim.interbroker.lifecycle import (
    BrokerHeartbeatCommand,
    BrokerHeartbeatReply,
    BrokerRegistrationCommand,
    BrokerRegistrationReply,
)
from txnsim.interbroker.replication import (
    AlteredPartition,
    AlterPartitionCommand,
    AlterPartitionReply,
    IsrChange,
    ReplicaFetchCommand,
    ReplicaFetchedPartition,
    ReplicaFetchPartition,
    ReplicaFetchReply,
    ReplicaOffsetCommand,
    ReplicaOffsetReply,
)
from txnsim.interbroker.share_state import (
    DeleteShareState,
    InitializeShareState,
    ReadShareState,
    ShareKey,
    ShareState,
    ShareStateError,
    ShareStateSummary,
    StateBatch,
    WriteShareState,
)
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AddPartitionsToTxnReply,
    AllocateProducerIdsCommand,
    AllocateProducerIdsReply,
    TxnMarker,
    TxnPartitions,
    WriteTxnMarkersCommand,
    WriteTxnMarkersReply,
)
from txnsim.log.replicated import describe_batch
from txnsim.node.peers import (
    ALTER_PARTITION,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
)
from txnsim.releases import REFERENCE
from txnsim.releases.interbroker_versions import FOLLOWER_FETCH, FOLLOWER_LIST_OFFSETS
from txnsim.runtime.environment import Network
from txnsim.runtime.peer_call import PeerHandler
from txnsim.runtime.tasks import Pending
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server.cluster import SimCluster
from txnsim.types import (
    BrokerId,
    CoordinatorEpoch,
    IsolationLevel,
    LeaderEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    uuid_text,
)
from txnsim.wire import codec
from txnsim.wire.batch import assign
from txnsim.wire.records import Record, build_batch

# Commands between brokers as Kafka's bytes, and a whole cluster whose links carry only those.


CODEC = KafkaPeerCodec()
ADD, MARKERS, ALLOCATE = 24, 27, 67
A_0, A_1, B_0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def there_and_back(api_key: int, version: int, command: object) -> object:
    return CODEC.decode_request(api_key, version, CODEC.encode_request(api_key, version, command))


def reply_and_back(api_key: int, version: int, reply: object) -> object:
    return CODEC.decode_response(api_key, version, CODEC.encode_response(api_key, version, reply))


# Bytes


def test_add_partitions_to_txn_has_kafkas_bytes() -> None:
    command = AddPartitionsToTxnCommand(
        transactions=(
            TxnPartitions(
                transactional_id=TransactionalId("tx"),
                producer_id=ProducerId(7),
                producer_epoch=ProducerEpoch(2),
                verify_only=True,
                partitions=(A_0, A_1),
            ),
        )
    )
    expected = (
        b"\x02"  # one transaction
        b"\x03tx" + (7).to_bytes(8, "big") + b"\x00\x02\x01"  # id, producer, epoch, verify only
        b"\x02\x02a\x03" + bytes(4) + b"\x00\x00\x00\x01"  # one topic, two partitions
        b"\x00\x00\x00"  # no tags
    )
    for version in (4, 5):
        assert CODEC.encode_request(ADD, version, command) == expected


@pytest.mark.parametrize(("version", "tail"), [(1, b""), (2, b"\x02")])
def test_write_txn_markers_carries_the_transaction_version_from_v2_on(
    version: int, tail: bytes
) -> None:
    command = WriteTxnMarkersCommand(markers=(marker(transaction_version=2),))
    request_body = CODEC.encode_request(MARKERS, version, command)
    assert (
        request_body
        == (
            b"\x02"
            + (7).to_bytes(8, "big")
            + b"\x00\x02\x01"  # one marker: producer, epoch, commit
            b"\x02\x02a\x02"
            + bytes(4)
            + b"\x00"  # one topic, one partition
            + (5).to_bytes(4, "big")
            + tail
            + b"\x00\x00"  # coordinator epoch, version, no tags
        )
    )
    transaction_version = 2 if version == 2 else 0
    assert CODEC.decode_request(MARKERS, version, request_body) == WriteTxnMarkersCommand(
        markers=(marker(transaction_version=transaction_version),)
    )


def marker(*, transaction_version: int) -> TxnMarker:
    return TxnMarker(
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(2),
        committed=True,
        coordinator_epoch=CoordinatorEpoch(5),
        transaction_version=transaction_version,
        partitions=(A_0,),
    )


def test_partitions_come_back_grouped_by_topic() -> None:
    command = WriteTxnMarkersCommand(
        markers=(
            TxnMarker(
                producer_id=ProducerId(7),
                producer_epoch=ProducerEpoch(2),
                committed=False,
                coordinator_epoch=CoordinatorEpoch(5),
                transaction_version=0,
                partitions=(A_0, B_0, A_1),
            ),
        )
    )
    back = there_and_back(MARKERS, 2, command)
    assert isinstance(back, WriteTxnMarkersCommand)
    assert back.markers[0].partitions == (A_0, A_1, B_0)


@pytest.mark.parametrize(("api_key", "version"), [(ADD, 3), (ADD, 6), (MARKERS, 0), (0, 11)])
def test_what_brokers_do_not_send_is_refused(api_key: int, version: int) -> None:
    for work in (
        lambda: CODEC.encode_request(api_key, version, None),
        lambda: CODEC.decode_request(api_key, version, b""),
        lambda: CODEC.encode_response(api_key, version, None),
        lambda: CODEC.decode_response(api_key, version, b""),
    ):
        with pytest.raises(UnsupportedRequestError, match=f"v{version}"):
            work()


def test_torn_bodies_are_refused() -> None:
    command = AllocateProducerIdsCommand(broker_id=BrokerId(1), broker_epoch=9)
    request_body = CODEC.encode_request(ALLOCATE, 0, command)
    with pytest.raises(MalformedFrameError):
        CODEC.decode_request(ALLOCATE, 0, request_body[:-2])
    answer = CODEC.encode_response(
        ALLOCATE, 0, AllocateProducerIdsReply(first_producer_id=1, producer_id_count=2)
    )
    with pytest.raises(MalformedFrameError):
        CODEC.decode_response(ALLOCATE, 0, answer[:-2])


# Round trips

names = st.text(
    st.characters(codec="ascii", categories=("Ll", "Nd"), include_characters="._-"),
    min_size=1,
    max_size=20,
)
producer_ids = st.integers(-1, 2**63 - 1).map(ProducerId)
epochs = st.integers(-1, 32767).map(ProducerEpoch)
errors = st.sampled_from(sorted(int(code) for code in ErrorCode))


def sort_partitions(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(partitions))


partitions = st.sets(st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)), max_size=6).map(
    sort_partitions
)
results = st.dictionaries(
    st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)), errors, max_size=6
).map(lambda errors_by_partition: tuple(sorted(errors_by_partition.items())))
transactions = st.builds(
    TxnPartitions,
    transactional_id=st.text(max_size=20).map(TransactionalId),
    producer_id=producer_ids,
    producer_epoch=epochs,
    verify_only=st.booleans(),
    partitions=partitions,
)
markers = st.builds(
    TxnMarker,
    producer_id=producer_ids,
    producer_epoch=epochs,
    committed=st.booleans(),
    coordinator_epoch=st.integers(-1, 2**31 - 1).map(CoordinatorEpoch),
    transaction_version=st.integers(0, 2),
    partitions=partitions,
)


@given(st.lists(transactions, max_size=4), st.sampled_from((4, 5)))
def test_any_verification_survives_the_wire(asked: list[TxnPartitions], version: int) -> None:
    command = AddPartitionsToTxnCommand(transactions=tuple(asked))
    assert there_and_back(ADD, version, command) == command


@pytest.mark.slow
@given(
    errors,
    st.lists(st.tuples(st.text(max_size=20).map(TransactionalId), results), max_size=4),
    st.sampled_from((4, 5)),
)
def test_any_answer_to_it_survives(
    error: int,
    results: list[tuple[TransactionalId, tuple[tuple[TopicPartition, int], ...]]],
    version: int,
) -> None:
    reply = AddPartitionsToTxnReply(error=error, results=tuple(results))
    assert reply_and_back(ADD, version, reply) == reply


@pytest.mark.slow
@given(st.lists(markers, max_size=4))
def test_any_markers_survive(markers: list[TxnMarker]) -> None:
    command = WriteTxnMarkersCommand(markers=tuple(markers))
    assert there_and_back(MARKERS, 2, command) == command


@given(st.lists(st.tuples(producer_ids, results), max_size=4), st.sampled_from((1, 2)))
def test_any_answer_to_markers_survives(
    results: list[tuple[ProducerId, tuple[tuple[TopicPartition, int], ...]]], version: int
) -> None:
    reply = WriteTxnMarkersReply(results=tuple(results))
    assert reply_and_back(MARKERS, version, reply) == reply


@given(st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1), errors, st.integers(0, 2**31 - 1))
def test_any_block_of_producer_ids_survives(
    broker: int, number: int, error: int, length: int
) -> None:
    command = AllocateProducerIdsCommand(broker_id=BrokerId(broker), broker_epoch=number)
    assert there_and_back(ALLOCATE, 0, command) == command
    reply = AllocateProducerIdsReply(
        error=error, first_producer_id=number, producer_id_count=length
    )
    assert reply_and_back(ALLOCATE, 0, reply) == reply


# A cluster on bytes


def on_bytes(network: Network) -> set[tuple[int, int]]:
    """Send each command and reply through its bytes; returns what APIs and versions crossed."""
    crossed: set[tuple[int, int]] = set()
    register = network.register

    def register_on_bytes(broker: BrokerId, handler: PeerHandler) -> None:
        async def handle(
            api_key: int, version: int, command: object, source_broker_id: BrokerId
        ) -> object:
            crossed.add((api_key, version))
            reply = await handler(
                api_key, version, there_and_back(api_key, version, command), source_broker_id
            )
            return reply_and_back(api_key, version, reply)

        register(broker, handle)

    network.register = register_on_bytes
    return crossed


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_a_cluster_commits_and_aborts_over_links_of_bytes(transaction_version: int) -> None:
    async def main(env: VirtualEnvironment) -> set[tuple[int, int]]:
        crossed = on_bytes(env.network)
        sim = SimCluster(env, options(level=transaction_version))
        await sim.start()
        async with client_of(env, sim) as client:
            async with Producer(client, transactional_id="tx") as producer:
                await producer.init_transactions()
                for end in ("commit", "abort"):
                    producer.begin()
                    await asyncio.gather(
                        *(producer.send("orders", index, end.encode()) for index in range(3))
                    )
                    await (producer.commit() if end == "commit" else producer.abort())
            await until_state(client, "tx", "CompleteAbort")
            assert await values(client, "orders") == [b"commit"] * 3
            uncommitted = await values(client, "orders", isolation=IsolationLevel.READ_UNCOMMITTED)
            assert uncommitted == [b"commit", b"abort"] * 3
        await sim.stop()
        return crossed

    assert run_virtual(main, seed=1) >= {(ADD, 5), (MARKERS, 2), (ALLOCATE, 0), (1, 18)}


# What replicas say to each other goes to Kafka's bytes and back; names of topics do not travel.


FETCH_VERSION = FOLLOWER_FETCH.levels[-1][1]
LIST_OFFSETS_VERSION = FOLLOWER_LIST_OFFSETS.levels[-1][1]
ALTER_PARTITION_VERSION = REFERENCE.highest_version(ALTER_PARTITION)
OTHER_ID = uuid.UUID(int=0x99)
NAMED = TopicPartition("orders", 1)


def nameless_partition(partition_index: int) -> TopicPartition:
    return TopicPartition("", partition_index)


def position(index: int, **changes: Any) -> ReplicaFetchPartition:
    values: dict[str, Any] = {
        "topic_id": TOPIC_ID,
        "topic_partition": nameless_partition(index),
        "current_leader_epoch": 4,
        "fetch_offset": 12,
        "last_fetched_epoch": 3,
        "log_start_offset": 2,
        "high_watermark": 11,
        **changes,
    }
    return ReplicaFetchPartition(**values)


FETCH_COMMAND = ReplicaFetchCommand(
    replica_id=B2,
    replica_epoch=7,
    max_wait_ms=500,
    min_bytes=1,
    max_bytes=1_000,
    session_id=5,
    session_epoch=2,
    partitions=(position(0), position(1, max_bytes=7), position(0, topic_id=OTHER_ID)),
    forgotten_partitions=((TOPIC_ID, nameless_partition(3)),),
)
FETCH_REPLY = ReplicaFetchReply(
    session_id=5,
    partitions=(
        ReplicaFetchedPartition(
            topic_id=TOPIC_ID,
            topic_partition=nameless_partition(0),
            high_watermark=12,
            log_start_offset=1,
            batches=tuple(
                describe_batch(
                    assign(
                        batch(batch_index, is_transactional=True),
                        base_offset=batch_index,
                        leader_epoch=3,
                    )
                )
                for batch_index in range(3)
            ),
        ),
        ReplicaFetchedPartition(
            topic_id=TOPIC_ID,
            topic_partition=nameless_partition(1),
            high_watermark=1,
            diverging_epoch=(3, 9),
        ),
        ReplicaFetchedPartition(
            topic_id=OTHER_ID,
            topic_partition=nameless_partition(0),
            error=ErrorCode.not_leader_or_follower,
            current_leader=(2, 8),
        ),
    ),
)
LETTER = build_batch([Record(value=b"v")], timestamp_ms=7)
OFFSET_COMMAND = ReplicaOffsetCommand(
    replica_id=B2, topic_partition=NAMED, current_leader_epoch=4, timestamp_ms=-2
)
ALTER_COMMAND = AlterPartitionCommand(
    broker_id=B1,
    broker_epoch=6,
    partitions=(
        IsrChange(
            topic_id=TOPIC_ID,
            topic_partition=nameless_partition(2),
            leader_epoch=LeaderEpoch(4),
            new_isr=((B1, -1), (B2, 7)),
            partition_epoch=9,
        ),
    ),
)
ALTER_REPLY = AlterPartitionReply(
    partitions=(
        AlteredPartition(
            topic_id=TOPIC_ID,
            topic_partition=nameless_partition(2),
            leader=B1,
            leader_epoch=LeaderEpoch(4),
            isr=(B1, BrokerId(3)),
            partition_epoch=10,
        ),
        AlteredPartition(
            topic_id=TOPIC_ID,
            topic_partition=nameless_partition(3),
            error=ErrorCode.ineligible_replica,
        ),
    ),
)


@pytest.mark.parametrize(
    ("api_key", "version", "command"),
    [
        (FETCH, FETCH_VERSION, FETCH_COMMAND),
        (FETCH, FETCH_VERSION, msgspec.structs.replace(FETCH_COMMAND, partitions=())),
        (LIST_OFFSETS, LIST_OFFSETS_VERSION, OFFSET_COMMAND),
        (
            PRODUCE,
            13,
            DeadLettersCommand(
                topic_id=TOPIC_ID,
                topic_partition=nameless_partition(1),
                batch=LETTER,
            ),
        ),
        (ALTER_PARTITION, ALTER_PARTITION_VERSION, ALTER_COMMAND),
    ],
)
def test_commands_come_back_as_they_were(api_key: int, version: int, command: Any) -> None:
    request_body = CODEC.encode_request(api_key, version, command)
    assert CODEC.decode_request(api_key, version, request_body) == command


@pytest.mark.parametrize(
    ("api_key", "version", "reply"),
    [
        (FETCH, FETCH_VERSION, FETCH_REPLY),
        (
            FETCH,
            FETCH_VERSION,
            ReplicaFetchReply(error=ErrorCode.fetch_session_id_not_found),
        ),
        (LIST_OFFSETS, LIST_OFFSETS_VERSION, ReplicaOffsetReply(topic_partition=NAMED, offset=8)),
        (
            PRODUCE,
            13,
            DeadLettersReply(
                topic_id=TOPIC_ID,
                topic_partition=nameless_partition(1),
                error=ErrorCode.message_too_large,
            ),
        ),
        (
            LIST_OFFSETS,
            LIST_OFFSETS_VERSION,
            ReplicaOffsetReply(topic_partition=NAMED, error=ErrorCode.fenced_leader_epoch),
        ),
        (ALTER_PARTITION, ALTER_PARTITION_VERSION, ALTER_REPLY),
        (
            ALTER_PARTITION,
            ALTER_PARTITION_VERSION,
            AlterPartitionReply(error=ErrorCode.stale_broker_epoch),
        ),
    ],
)
def test_replies_come_back_as_they_were(api_key: int, version: int, reply: Any) -> None:
    response_body = CODEC.encode_response(api_key, version, reply)
    assert CODEC.decode_response(api_key, version, response_body) == reply


# BrokerRegistration and BrokerHeartbeat go to Kafka's bytes and back unchanged.


BROKER_HEARTBEAT_VERSION = REFERENCE.highest_version(BROKER_HEARTBEAT)
BROKER_REGISTRATION_VERSION = REFERENCE.highest_version(BROKER_REGISTRATION)
REGISTRATION = BrokerRegistrationCommand(
    broker_id=B1,
    cluster_id="c",
    incarnation_id=uuid.UUID(int=7),
    host="h",
    port=9092,
    addresses={"KIP_TEXT": ("h", 9192)},
    rack="r",
    previous_broker_epoch=12,
)


@pytest.mark.parametrize(
    ("api_key", "version", "command"),
    [
        (BROKER_REGISTRATION, BROKER_REGISTRATION_VERSION, REGISTRATION),
        (
            BROKER_REGISTRATION,
            BROKER_REGISTRATION_VERSION,
            BrokerRegistrationCommand(
                broker_id=B1, cluster_id="c", incarnation_id=uuid.UUID(int=7), host="h", port=1
            ),
        ),
        (
            BROKER_HEARTBEAT,
            BROKER_HEARTBEAT_VERSION,
            BrokerHeartbeatCommand(broker_id=B1, broker_epoch=3, metadata_offset=5),
        ),
        (
            BROKER_HEARTBEAT,
            BROKER_HEARTBEAT_VERSION,
            BrokerHeartbeatCommand(
                broker_id=B1,
                broker_epoch=3,
                metadata_offset=5,
                want_fence=True,
                want_shut_down=True,
                has_failed_directory=True,
            ),
        ),
    ],
)
def test_peer_codec_life_commands_come_back_as_they_were(
    api_key: int, version: int, command: Any
) -> None:
    request_body = CODEC.encode_request(api_key, version, command)
    assert CODEC.decode_request(api_key, version, request_body) == command


@pytest.mark.parametrize(
    ("api_key", "version", "reply"),
    [
        (BROKER_REGISTRATION, 4, BrokerRegistrationReply(broker_epoch=9)),
        (
            BROKER_REGISTRATION,
            4,
            BrokerRegistrationReply(error=ErrorCode.duplicate_broker_registration),
        ),
        (
            BROKER_HEARTBEAT,
            BROKER_HEARTBEAT_VERSION,
            BrokerHeartbeatReply(error=ErrorCode.stale_broker_epoch),
        ),
        (
            BROKER_HEARTBEAT,
            BROKER_HEARTBEAT_VERSION,
            BrokerHeartbeatReply(is_caught_up=True, is_fenced=False),
        ),
        (
            BROKER_HEARTBEAT,
            BROKER_HEARTBEAT_VERSION,
            BrokerHeartbeatReply(is_caught_up=True, should_shut_down=True),
        ),
    ],
)
def test_peer_codec_life_replies_come_back_as_they_were(
    api_key: int, version: int, reply: Any
) -> None:
    response_body = CODEC.encode_response(api_key, version, reply)
    assert CODEC.decode_response(api_key, version, response_body) == reply


def test_a_registration_tells_what_a_real_controller_demands() -> None:
    request_body = CODEC.encode_request(
        BROKER_REGISTRATION, BROKER_REGISTRATION_VERSION, REGISTRATION
    )
    header = codec.RequestHeader(BROKER_REGISTRATION, BROKER_REGISTRATION_VERSION, 0, None, 0)
    message = codec.decode_request(header, request_body)
    assert "metadata.version" in {feature.name for feature in message.features}
    assert len(message.log_dirs) == 1
    assert [listener.name for listener in message.listeners] == ["PLAINTEXT", "KIP_TEXT"]


# Share partitions


def test_states_of_share_partitions_are_kept_over_links_of_bytes() -> None:
    async def main(env: VirtualEnvironment) -> set[tuple[int, int]]:
        crossed = on_bytes(env.network)
        sim = SimCluster(env, options())
        await sim.start()
        asking_persister = sim.brokers[B1].share_persister
        topic_id = uuid_text(sim.brokers[B1].image.topics["orders"].topic_id)
        keys = [ShareKey("g", topic_id, partition) for partition in range(3)]

        async def await_answers(answers: Iterable[Pending[Any]]) -> list[Any]:
            return [await answer_future for answer_future in answers]

        await await_answers(
            asking_persister.initialize(
                InitializeShareState(key=key, state_epoch=2) for key in keys
            )
        )
        state_write = WriteShareState(
            key=keys[0],
            state_epoch=2,
            leader_epoch=3,
            start_offset=4,
            delivery_complete_count=1,
            batches=(StateBatch(5, 6, 2, 1),),
        )
        assert await await_answers(asking_persister.write([state_write])) == [
            ShareStateError(key=keys[0])
        ]
        assert await await_answers(
            asking_persister.read([ReadShareState(key=keys[0], leader_epoch=3)])
        ) == [ShareState(key=keys[0], state_epoch=2, start_offset=4, batches=state_write.batches)]
        await await_answers(asking_persister.delete([DeleteShareState(key=keys[1])]))
        summaries = await await_answers(
            asking_persister.summarize(ReadShareState(key=key) for key in keys)
        )
        assert summaries == [
            ShareStateSummary(
                key=keys[0],
                state_epoch=2,
                leader_epoch=3,
                start_offset=4,
                delivery_complete_count=1,
            ),
            ShareStateSummary(key=keys[1]),
            ShareStateSummary(key=keys[2], state_epoch=2),
        ]
        await sim.stop()
        return crossed

    assert run_virtual(main, seed=1) >= {(83, 0), (84, 0), (85, 1), (86, 0), (87, 1)}
