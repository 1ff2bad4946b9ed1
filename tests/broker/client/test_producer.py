"""A producer against a broker that answers as scripted: each reaction, seen from its user."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.broker.client.fake_broker import (
    CLOSE,
    SILENCE,
    FakeBroker,
    Handler,
    ReceivedRequest,
    add_partitions_answer,
    end_answer,
    in_turn,
    init_answer,
    produce_answer,
)
from txnsim.client import errors, requests
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import (
    AbortableError,
    ClientError,
    FatalError,
    IllegalUseError,
    RetriableError,
    code_name,
)
from txnsim.client.isolation import ConsumedRecord
from txnsim.client.producer import Producer
from txnsim.client.tracing import TEXT_MAX, ClientTrace
from txnsim.client.versions import ClientApi
from txnsim.errors import ErrorCode
from txnsim.runtime.trace import Event, TraceLevel, Tracer
from txnsim.types import TopicPartition
from txnsim.wire.batch import BatchHeader, read_batch_header

QUICK = ClientSettings(
    retry_backoff_ms=1, retry_backoff_max_ms=5, api_timeout_ms=2_000, request_timeout_ms=500
)
SHORT = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=5, api_timeout_ms=60)
GOOD: dict[Any, Handler] = {
    ClientApi.INIT_PRODUCER_ID: init_answer(),
    ClientApi.ADD_PARTITIONS_TO_TXN: add_partitions_answer(),
    ClientApi.PRODUCE: produce_answer(),
    ClientApi.END_TXN: end_answer(),
}


def header(request: ReceivedRequest) -> BatchHeader:
    return read_batch_header(request.message.topic_data[0].partition_data[0].records)


class Scene:
    """A scripted broker with one transactional producer that has begun a transaction."""

    def __init__(
        self, transaction_version: int = 2, settings: ClientSettings = QUICK, **options: object
    ) -> None:
        self.broker = FakeBroker(dict(GOOD), transaction_version=transaction_version)
        self._settings = settings
        self._options = options

    async def __aenter__(self) -> Scene:
        await self.broker.__aenter__()
        self.cluster = await Cluster(self.broker.address, settings=self._settings).__aenter__()
        options = {"transactional_id": "x", **self._options}
        self.producer = Producer(self.cluster, **options)  # type: ignore[arg-type]
        await self.producer.init_transactions()
        self.producer.begin()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.producer.close()
        await self.cluster.close()
        await self.broker.__aexit__(None, None, None)


# The two protocols


async def test_old_protocol_asks_in_its_order_and_versions() -> None:
    async with Scene(transaction_version=1) as scene:
        await asyncio.gather(scene.producer.send("t", 0, b"a"), scene.producer.send("t", 1, b"b"))
        await scene.producer.commit()
        assert scene.broker.keys == [10, 22, 24, 0, 0, 26]
        assert scene.broker.of(ClientApi.ADD_PARTITIONS_TO_TXN)[0].version == 3
        assert scene.broker.of(ClientApi.PRODUCE)[0].version == 11
        assert scene.broker.of(ClientApi.END_TXN)[0].version == 4
        assert scene.producer.identity.producer_epoch == 0


async def test_transactions_v2_leave_the_adding_to_the_leader_and_take_the_new_identity() -> None:
    async with Scene(transaction_version=2) as scene:
        await scene.producer.send("t", 0, b"a")
        await scene.producer.commit()
        assert scene.broker.keys == [10, 22, 0, 26]
        assert scene.broker.of(ClientApi.PRODUCE)[0].version >= 12
        assert scene.broker.of(ClientApi.END_TXN)[0].version == 5
        assert scene.producer.identity.producer_epoch == 1
        scene.producer.begin()
        await scene.producer.send("t", 0, b"b")
        assert [
            header(request).base_sequence for request in scene.broker.of(ClientApi.PRODUCE)
        ] == [0, 0]
        assert [
            header(request).producer_epoch for request in scene.broker.of(ClientApi.PRODUCE)
        ] == [
            0,
            1,
        ]


async def test_old_protocol_continues_its_sequences() -> None:
    async with Scene(transaction_version=1) as scene:
        for _ in range(2):
            await scene.producer.send("t", 0, b"a")
            await scene.producer.commit()
            scene.producer.begin()
        assert [
            header(request).base_sequence for request in scene.broker.of(ClientApi.PRODUCE)
        ] == [0, 1]


async def test_a_level_raised_meanwhile_ends_old_then_bumps_with_its_identity() -> None:
    async with Scene(transaction_version=1) as scene:
        await scene.producer.send("t", 0, b"a")
        scene.broker.level, scene.broker.features_epoch = 2, 11
        scene.broker.handlers[ClientApi.INIT_PRODUCER_ID] = init_answer(epoch=1)
        await scene.cluster.refresh_features()
        await scene.producer.commit()
        assert scene.broker.keys[-2:] == [26, 22]
        assert scene.broker.of(ClientApi.END_TXN)[0].version == 4
        bump = scene.broker.of(ClientApi.INIT_PRODUCER_ID)[-1].message
        assert (bump.producer_id, bump.producer_epoch) == (7, 0)
        assert scene.producer.protocol.name == "V2"


async def test_a_level_lowered_meanwhile_ends_in_v2() -> None:
    async with Scene(transaction_version=2) as scene:
        await scene.producer.send("t", 0, b"a")
        scene.broker.level, scene.broker.features_epoch = 1, 11
        await scene.cluster.refresh_features()
        await scene.producer.commit()
        assert scene.broker.of(ClientApi.END_TXN)[0].version == 5
        assert scene.producer.protocol.name == "V1"


async def test_transactions_v2_on_a_broker_without_their_versions_are_fatal() -> None:
    async with Scene(transaction_version=2) as scene:
        scene.broker.ranges[26] = (0, 4)
        scene.broker.cut()
        await scene.producer.send("t", 0, b"a")
        with pytest.raises(FatalError, match="END_TXN with version"):
            await scene.producer.commit()


# Errors of the coordinator


@pytest.mark.parametrize("error", [14, 15, 16, 51])
async def test_passing_errors_of_the_coordinator_are_asked_again(error: int) -> None:
    async with Scene(transaction_version=1) as scene:
        handlers = scene.broker.handlers
        handlers[ClientApi.ADD_PARTITIONS_TO_TXN] = in_turn(
            add_partitions_answer(error), add_partitions_answer()
        )
        handlers[ClientApi.END_TXN] = in_turn(end_answer(error), end_answer())
        await scene.producer.send("t", 0, b"a")
        await scene.producer.commit()
        looked_up = 1 + (2 if error in (15, 16) else 0)
        assert len(scene.broker.of(ClientApi.FIND_COORDINATOR)) == looked_up
        assert len(scene.broker.of(ClientApi.END_TXN)) == 2


@pytest.mark.parametrize("lost_answer", [CLOSE, SILENCE], ids=["cut", "no answer"])
async def test_an_end_whose_answer_is_lost_is_asked_again_with_the_same_identity(
    lost_answer: object,
) -> None:
    settings = ClientSettings(retry_backoff_ms=1, request_timeout_ms=400)
    async with Scene(settings=settings) as scene:
        scene.broker.handlers[ClientApi.END_TXN] = in_turn(lambda _: lost_answer, end_answer())
        await scene.producer.send("t", 0, b"a")
        await scene.producer.commit()
        first_request, second_request = scene.broker.of(ClientApi.END_TXN)
        assert first_request.message == second_request.message


@pytest.mark.parametrize("transaction_version", [1, 2])
@pytest.mark.parametrize("last_error", [47, 90, 48, 49, 53])
@pytest.mark.parametrize("first_error", [CLOSE, 15, 16, 14, 51], ids=str)
async def test_a_refusal_says_no_only_where_no_attempt_before_may_have_been_taken(
    first_error: int | object, last_error: int, transaction_version: int
) -> None:
    """The epoch may have gone on, or the id been forgotten, after a commit that was taken. Only
    INVALID_TXN_STATE (48) says that this transaction was not committed.
    """
    async with Scene(transaction_version=transaction_version) as scene:
        make_lost_answer = (
            end_answer(first_error) if isinstance(first_error, int) else lambda _: first_error
        )
        scene.broker.handlers[ClientApi.END_TXN] = in_turn(make_lost_answer, end_answer(last_error))
        await scene.producer.send("t", 0, b"a")
        with pytest.raises(FatalError) as error_info:
            await scene.producer.commit()
        assert error_info.value.error == ErrorCode(last_error)
        may_be_taken = first_error in (CLOSE, 15, 16)
        assert error_info.value.in_doubt is (may_be_taken and last_error != 48)


async def test_what_is_refused_behind_an_end_says_nothing_of_the_end() -> None:
    """The cluster's level was raised meanwhile, so the commit is followed by an epoch bump."""
    async with Scene(transaction_version=1) as scene:
        await scene.producer.send("t", 0, b"a")
        scene.broker.level, scene.broker.features_epoch = 2, 11
        await scene.cluster.refresh_features()
        scene.broker.handlers[ClientApi.INIT_PRODUCER_ID] = init_answer(53)
        with pytest.raises(AbortableError) as error_info:
            await scene.producer.commit()
        assert error_info.value.in_doubt


@pytest.mark.parametrize(
    ("first_error", "is_in_doubt"), [(CLOSE, True), (6, True), (20, True), (19, False)]
)
async def test_a_record_is_in_doubt_behind_an_attempt_that_may_have_been_written(
    first_error: int | object, is_in_doubt: bool
) -> None:
    async with Scene() as scene:
        make_lost_answer = (
            produce_answer(first_error) if isinstance(first_error, int) else lambda _: first_error
        )
        scene.broker.handlers[ClientApi.PRODUCE] = in_turn(make_lost_answer, produce_answer(47))
        with pytest.raises(AbortableError) as error_info:
            await scene.producer.send("t", 0, b"a")
        assert error_info.value.in_doubt is is_in_doubt
        with pytest.raises(AbortableError) as second_raised:
            await scene.producer.commit()
        assert not second_raised.value.in_doubt, "the commit was not even sent"


@pytest.mark.parametrize("error", [47, 90, 48, 49, 53, 42, -1])
async def test_errors_of_the_end_that_finish_the_producer(error: int) -> None:
    async with Scene() as scene:
        scene.broker.handlers[ClientApi.END_TXN] = end_answer(error)
        await scene.producer.send("t", 0, b"a")
        with pytest.raises(FatalError) as error_info:
            await scene.producer.commit()
        assert error_info.value.error == ErrorCode(error)
        for call in (scene.producer.begin, lambda: scene.producer.send("t", 0, b"b")):
            with pytest.raises(FatalError):
                call()
        with pytest.raises(FatalError):
            await scene.producer.abort()


async def test_transaction_abortable_on_commit_asks_for_an_abort_and_on_abort_is_fatal() -> None:
    async with Scene() as scene:
        scene.broker.handlers[ClientApi.END_TXN] = end_answer(120)
        await scene.producer.send("t", 0, b"a")
        with pytest.raises(AbortableError):
            await scene.producer.commit()
        with pytest.raises(FatalError):
            await scene.producer.abort()


async def test_an_end_not_decided_in_time_can_be_called_again() -> None:
    async with Scene(settings=SHORT) as scene:
        await scene.producer.send("t", 0, b"a")
        scene.broker.handlers[ClientApi.END_TXN] = end_answer(51)
        with pytest.raises(RetriableError, match="END_TXN not achieved within 60 ms: CONCURRENT"):
            await scene.producer.commit()
        scene.broker.handlers[ClientApi.END_TXN] = end_answer()
        await scene.producer.commit()


@pytest.mark.parametrize(
    ("error", "error_class"),
    [(90, FatalError), (49, FatalError), (29, AbortableError), (59, AbortableError)],
)
async def test_errors_of_adding_reach_the_record_and_the_transaction(
    error: int, error_class: type[ClientError]
) -> None:
    async with Scene(transaction_version=1) as scene:
        scene.broker.handlers[ClientApi.ADD_PARTITIONS_TO_TXN] = add_partitions_answer(error)
        with pytest.raises(error_class):
            await scene.producer.send("t", 0, b"a")
        with pytest.raises(error_class):
            await scene.producer.commit()
        assert scene.broker.of(ClientApi.PRODUCE) == []


async def test_the_telling_error_of_several_partitions_counts() -> None:
    async with Scene(transaction_version=1) as scene:
        # 55: not attempted, because another partition has the reason.
        scene.broker.handlers[ClientApi.ADD_PARTITIONS_TO_TXN] = add_partitions_answer(55, 29)
        record_futures = [scene.producer.send("t", 0, b"a"), scene.producer.send("t", 1, b"b")]
        results = await asyncio.gather(*record_futures, return_exceptions=True)
        assert all(isinstance(result, AbortableError) for result in results)
        assert "TOPIC_AUTHORIZATION_FAILED" in str(results[0])


async def test_an_abortable_error_of_the_old_protocol_bumps_behind_the_abort() -> None:
    async with Scene(transaction_version=1) as scene:
        scene.broker.handlers[ClientApi.PRODUCE] = in_turn(produce_answer(87), produce_answer())
        with pytest.raises(AbortableError):
            await scene.producer.send("t", 0, b"a")
        scene.broker.handlers[ClientApi.INIT_PRODUCER_ID] = init_answer(epoch=1)
        await scene.producer.abort()
        assert scene.broker.keys[-2:] == [26, 22]
        scene.producer.begin()
        await scene.producer.send("t", 0, b"b")
        last_header = header(scene.broker.of(ClientApi.PRODUCE)[-1])
        assert (last_header.producer_epoch, last_header.base_sequence) == (1, 0)


# initTransactions


@pytest.mark.parametrize(
    ("error", "error_class"), [(90, FatalError), (50, FatalError), (53, AbortableError)]
)
async def test_errors_of_init(error: int, error_class: type[ClientError]) -> None:
    broker = FakeBroker({ClientApi.INIT_PRODUCER_ID: in_turn(init_answer(error), init_answer())})
    async with broker, Cluster(broker.address, settings=QUICK) as cluster:
        producer = Producer(cluster, transactional_id="x")
        with pytest.raises(error_class):
            await producer.init_transactions()
        if error_class is AbortableError:  # nothing is open yet: it may simply be called again
            await producer.init_transactions()
            with pytest.raises(IllegalUseError):
                await producer.init_transactions()
        else:
            with pytest.raises(FatalError):
                await producer.init_transactions()


# Produce


@pytest.mark.parametrize("error", [6, 3, 19, 51, 7])
async def test_passing_errors_of_produce_are_sent_again_as_they_were(error: int) -> None:
    async with Scene() as scene:
        scene.broker.handlers[ClientApi.PRODUCE] = in_turn(
            produce_answer(error), produce_answer(offset=4)
        )
        assert (await scene.producer.send("t", 0, b"a")).offset == 4
        first_request, second_request = scene.broker.of(ClientApi.PRODUCE)
        assert first_request.message == second_request.message


async def test_a_duplicate_is_success() -> None:
    async with Scene() as scene:
        scene.broker.handlers[ClientApi.PRODUCE] = produce_answer(46)
        await scene.producer.send("t", 0, b"a")
        await scene.producer.commit()


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (47, AbortableError),
        (48, AbortableError),
        (45, AbortableError),
        (120, AbortableError),
        (49, FatalError),
        (53, FatalError),
        (90, FatalError),
    ],
)
async def test_errors_of_produce(error: int, error_class: type[ClientError]) -> None:
    async with Scene() as scene:
        scene.broker.handlers[ClientApi.PRODUCE] = produce_answer(error)
        with pytest.raises(error_class) as error_info:
            await scene.producer.send("t", 0, b"a")
        assert error_info.value.error == ErrorCode(error)
        with pytest.raises(error_class):
            await scene.producer.commit()


async def test_a_held_produce_is_given_up_in_time_and_the_abort_goes_round_it() -> None:
    async with Scene(delivery_timeout_ms=80, request_timeout_ms=30) as scene:
        scene.broker.handlers[ClientApi.PRODUCE] = lambda _: SILENCE
        with pytest.raises(AbortableError, match="given up after 80 ms: REQUEST_TIMED_OUT"):
            await scene.producer.send("t", 0, b"a")
        await scene.producer.abort()
        assert scene.producer.identity.producer_epoch == 1
        assert (
            len({header(request).base_sequence for request in scene.broker.of(ClientApi.PRODUCE)})
            == 1
        )


async def test_abort_drops_what_was_not_sent_and_waits_for_what_was() -> None:
    async with Scene(request_timeout_ms=60, batch_bytes=1) as scene:
        scene.broker.handlers[ClientApi.PRODUCE] = lambda _: SILENCE
        record_futures = [scene.producer.send("t", 0, b"a") for _ in range(3)]
        await asyncio.sleep(0.02)
        await scene.producer.abort()
        assert [str(future.exception())[:10] for future in record_futures] == [
            "Produce to",
            "the transa",
            "the transa",
        ]


async def test_records_sent_together_travel_together() -> None:
    async with Scene() as scene:
        record_futures = [scene.producer.send("t", 0, str(i).encode()) for i in range(20)]
        assert [(await future).offset for future in record_futures] == list(range(20))
        assert [
            header(request).records_count for request in scene.broker.of(ClientApi.PRODUCE)
        ] == [20]


async def test_closing_fails_what_is_not_acknowledged() -> None:
    async with Scene(batch_bytes=1) as scene:
        scene.broker.handlers[ClientApi.PRODUCE] = lambda _: SILENCE
        record_futures = [scene.producer.send("t", 0, b"a") for _ in range(2)]
        await asyncio.sleep(0.02)
        await scene.producer.close()
        assert all(isinstance(future.exception(), IllegalUseError) for future in record_futures)


# Without transactions


async def test_an_idempotent_producer_restarts_after_a_gap() -> None:
    handler_by_api = {
        ClientApi.INIT_PRODUCER_ID: init_answer(),
        ClientApi.PRODUCE: in_turn(produce_answer(), produce_answer(45), produce_answer(offset=1)),
    }
    async with (
        FakeBroker(handler_by_api) as broker,
        Cluster(broker.address, settings=QUICK) as cluster,
    ):
        producer = Producer(cluster)
        await producer.send("t", 0, b"a")
        assert (await producer.send("t", 0, b"b")).offset == 1
        epochs_and_sequences = [
            (header(a).producer_epoch, header(a).base_sequence)
            for a in broker.of(ClientApi.PRODUCE)
        ]
        assert epochs_and_sequences == [(0, 0), (0, 1), (1, 0)]


async def test_a_lost_batch_costs_an_idempotent_producer_its_epoch_only() -> None:
    handler_by_api = {
        ClientApi.INIT_PRODUCER_ID: in_turn(init_answer(14), init_answer()),
        ClientApi.PRODUCE: in_turn(produce_answer(10), produce_answer()),
    }
    async with (
        FakeBroker(handler_by_api) as broker,
        Cluster(broker.address, settings=QUICK) as cluster,
    ):
        producer = Producer(cluster)
        with pytest.raises(ClientError) as error_info:
            await producer.send("t", 0, b"a")
        assert error_info.value.error == ErrorCode.message_too_large
        await producer.send("t", 0, b"b")
        assert header(broker.of(ClientApi.PRODUCE)[-1]).producer_epoch == 1


async def test_an_exhausted_idempotent_epoch_asks_for_a_new_id() -> None:
    handler_by_api = {
        ClientApi.INIT_PRODUCER_ID: in_turn(init_answer(epoch=32767), init_answer(producer_id=8)),
        ClientApi.PRODUCE: in_turn(produce_answer(59), produce_answer()),
    }
    async with (
        FakeBroker(handler_by_api) as broker,
        Cluster(broker.address, settings=QUICK) as cluster,
    ):
        producer = Producer(cluster)
        await producer.send("t", 0, b"a")
        assert producer.identity.producer_id == 8


async def test_a_fatal_error_finishes_an_idempotent_producer() -> None:
    handler_by_api = {
        ClientApi.INIT_PRODUCER_ID: init_answer(31),
        ClientApi.PRODUCE: produce_answer(),
    }
    async with (
        FakeBroker(handler_by_api) as broker,
        Cluster(broker.address, settings=QUICK) as cluster,
    ):
        producer = Producer(cluster)
        with pytest.raises(FatalError):
            await producer.send("t", 0, b"a")
        with pytest.raises(FatalError):
            producer.send("t", 0, b"b")


async def test_a_plain_producer_has_no_identity_and_may_do_without_answers() -> None:
    async with (
        FakeBroker({ClientApi.PRODUCE: produce_answer()}) as broker,
        Cluster(broker.address, settings=QUICK) as cluster,
    ):
        producer = Producer(cluster, idempotent=False, acks=0)
        assert (await producer.send("t", 0, b"a")).offset == -1
        await cluster.ask(1, requests.metadata(()))  # behind it on the same connection
        assert header(broker.of(ClientApi.PRODUCE)[0]).producer_id == -1
        with pytest.raises(IllegalUseError):
            Producer(cluster, acks=1)
        with pytest.raises(IllegalUseError):
            await producer.commit()


# A client's calls in the trace: roots, with what they came to.


T_0 = TopicPartition("t", 0)
LINE = "('127.0.0.1', 4)"


def client_tracer(trace_level: TraceLevel = TraceLevel.FULL) -> tuple[Tracer, ClientTrace]:
    tracer = Tracer(lambda: 0, level=trace_level, is_strict=True)
    return tracer, ClientTrace(tracer, "app")


def data(event: Event) -> dict[str, Any]:
    return cast(dict[str, Any], event.d)


def record(record_value: bytes | None) -> ConsumedRecord:
    return ConsumedRecord(
        partition=T_0, offset=3, timestamp_ms=0, key=b"\xff", value=record_value, headers=(),
        producer_id=7, producer_epoch=0, transactional=True,
    )  # fmt: skip


def test_a_call_is_a_root_and_its_result_is_due_to_the_last_answer() -> None:
    tracer, trace = client_tracer()
    tracer.set_cause(tracer.emit("note", "x"))
    with trace.trace_call("commit", id="app", group=None) as call:
        assert call is ClientTrace.current_call()
        sent_event = trace.trace_sent(LINE, "broker/1", 26, 5, 9, 80)
        assert tracer.take((LINE, 9, False)) == sent_event
        answer = tracer.emit("msg.send", "broker/1")
        tracer.post((LINE, 9, True), answer)
        trace.trace_received(LINE, "broker/1", 26, 5, 9, 20, sent_event=sent_event, call=call)
        trace.trace_delivery(T_0, [record(b"v" * 200), record(None)])
    _, call_event, request, answer_event, receive_event, *delivery_events, result_event = (
        tracer.events()
    )
    assert (call_event.k, call_event.p, data(call_event)) == (
        "client.call", (), {"call": "commit", "args": {"id": "app"}}
    )  # fmt: skip
    assert (request.p, data(request)["api"], data(request)["bytes"]) == (
        (call_event.i,),
        "EndTxn",
        80,
    )
    assert receive_event.p == (answer_event.i, sent_event)
    assert [(event.k, event.p) for event in (*delivery_events, result_event)] == [
        ("client.deliver", (receive_event.i, call_event.i)),
        ("client.deliver", (receive_event.i, call_event.i)),
        ("client.result", (receive_event.i, call_event.i)),
    ]
    assert data(delivery_events[0])["value"] == "v" * TEXT_MAX
    assert (data(delivery_events[1])["value"], data(delivery_events[1])["key"]) == (None, "\\xff")
    assert {tracer.nodes[event.n] for event in (call_event, request, result_event)} == {
        "client/app"
    }
    assert ClientTrace.current_call() is None


def test_at_brief_the_broker_stands_for_the_messages() -> None:
    tracer, trace = client_tracer(TraceLevel.BRIEF)
    with trace.trace_call("commit") as call:
        assert call is not None
        assert trace.trace_sent(LINE, "broker/1", 26, 5, 9, 80) == call.event
        trace.trace_received(LINE, "broker/1", 26, 5, 9, 20, sent_event=call.event, call=call)
    assert [event.k for event in tracer.events()] == ["client.call", "client.result"]


def test_a_call_within_a_call_is_part_of_it() -> None:
    tracer, trace = client_tracer()
    with trace.trace_call("outer"), trace.trace_call("inner") as inner_call:
        assert inner_call is None
    assert [data(event)["call"] for event in tracer.events()] == ["outer", "outer"]


@pytest.mark.parametrize(
    ("error", "expected_error"),
    [
        (ClientError("no", error=ErrorCode.invalid_txn_state), "INVALID_TXN_STATE"),
        (ClientError("no"), "ClientError"),
    ],
)
def test_a_failure_is_traced_by_its_name(error: ClientError, expected_error: str) -> None:
    tracer, trace = client_tracer()
    with pytest.raises(ClientError), trace.trace_call("commit"):
        raise error
    *_, result_event = tracer.events()
    assert data(result_event) == {"call": "commit", "error": expected_error}


def test_records_outside_of_a_call_are_due_to_what_happens_now() -> None:
    tracer, trace = client_tracer()
    note = tracer.emit("note", "x")
    tracer.set_cause(note)
    trace.trace_delivery(T_0, [record(b"a")])
    assert list(tracer.events())[-1].p == (note,)


@pytest.mark.parametrize("tracer", [None, Tracer(lambda: 0)])
def test_without_a_trace_no_event_is_made(tracer: Tracer | None) -> None:
    trace = ClientTrace(tracer, "app")
    with trace.trace_call("commit") as call:
        trace.trace_delivery(T_0, [record(b"a")])
    assert (call, trace.on, trace.node) == (None, False, "client/app")


def test_of_many_unread_messages_the_newest_are_kept() -> None:
    tracer, _ = client_tracer()
    for event_number in range(5_000):
        tracer.post((LINE, event_number, False), event_number)
    assert tracer.take((LINE, 0, False)) == -1
    assert tracer.take((LINE, 4_999, False)) == 4_999


@pytest.mark.parametrize(
    ("number", "name"), [(0, "NONE"), (48, "INVALID_TXN_STATE"), (999, "ERROR_999")]
)
def test_codes_are_spelled_as_kafka_does(number: int, name: str) -> None:
    assert code_name(number) == name


def test_every_error_is_a_client_error_with_the_brokers_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds_of_ours = [kind for kind in kinds if issubclass(kind, ClientError)]
    assert len(kinds_of_ours) == 10
    for kind in kinds_of_ours:
        assert kind("x", error=ErrorCode.producer_fenced).error == ErrorCode.producer_fenced
        assert kind("x").error is None
