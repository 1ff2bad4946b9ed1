"""A leader asks the coordinator: queues, conflicts, and what becomes of each answer
(AddPartitionsToTxnManager).
"""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tests.support.coordinator import ManualClock
from tests.support.peer_network import RecordingNetwork, SentRequest
from txnsim.broker.verification import (
    Errors,
    TransactionOperation,
    VerificationQueues,
    answer_rule,
    produce_error,
)
from txnsim.errors import (
    ErrorCode,
    InvariantViolation,
    PeerAnsweredError,
    PeerDisconnectedError,
    PeerTimeoutError,
)
from txnsim.interbroker.transactions import AddPartitionsToTxnReply
from txnsim.node.peers import Peers
from txnsim.releases import Fleet
from txnsim.releases._kafka import RELEASE_2_8
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.runtime.environment import Network
from txnsim.runtime.tasks import LoopTasks, Pending
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    BrokerId,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
)

OLD = TransactionOperation.DEFAULT_ERROR
NEW = TransactionOperation.GENERIC_ERROR_SUPPORTED
ADD = TransactionOperation.ADD_PARTITION
E = ErrorCode
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
HOME, OTHER = BrokerId(2), BrokerId(3)


class Leader:
    """The verification queues of one broker; the test says where the coordinators are."""

    def __init__(self, *, rules: Rules = LATEST_RULES, fleet: Fleet | None = None) -> None:
        self.network = RecordingNetwork()
        self.clock = ManualClock()
        self.tracer = Tracer(lambda: 0, is_strict=True)
        self.coordinators: dict[str, BrokerId | None] = {}
        self.verification = VerificationQueues(
            peers=Peers(
                network=cast(Network, self.network),
                broker_id=BrokerId(1),
                request_timeout_ms=9,
                fleet=fleet,
            ),
            coordinator_of=lambda name: self.coordinators.get(name, HOME),
            clock=self.clock,
            tasks=LoopTasks(asyncio.get_running_loop()),
            tracer=self.tracer,
            node="broker/1",
            rules=rules,
        )

    def ask(
        self,
        name: str = "tx",
        *,
        epoch: int = 0,
        partitions: tuple[TopicPartition, ...] = (P0,),
        operation: TransactionOperation = OLD,
    ) -> Pending[Errors]:
        return self.verification.ask(
            transactional_id=TransactionalId(name),
            producer_id=ProducerId(7),
            producer_epoch=ProducerEpoch(epoch),
            partitions=partitions,
            operation=operation,
        )

    @property
    def sent(self) -> list[SentRequest]:
        return self.network.sent

    def names(self, index: int) -> list[str]:
        """Transactional ids of the request with that index."""
        return [
            transaction.transactional_id for transaction in self.sent[index].command.transactions
        ]


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def reply(request: SentRequest, **errors: ErrorCode) -> None:
    """Answer: the error by transactional id for all its partitions, NONE where none is given."""
    request.answer.resolve(
        AddPartitionsToTxnReply(
            results=tuple(
                (
                    transaction.transactional_id,
                    tuple(
                        (part, errors.get(transaction.transactional_id, E.none))
                        for part in transaction.partitions
                    ),
                )
                for transaction in request.command.transactions
            )
        )
    )


@pytest.fixture
async def leader() -> Leader:
    return Leader()


# Queues


@pytest.mark.parametrize(("operation", "verify_only"), [(OLD, True), (NEW, True), (ADD, False)])
async def test_the_operation_says_whether_partitions_are_only_verified(
    leader: Leader, operation: TransactionOperation, verify_only: bool
) -> None:
    verification_future = leader.ask(partitions=(P0, P1), operation=operation)
    (transaction,) = leader.sent[0].command.transactions
    assert transaction.verify_only is verify_only
    assert transaction.partitions == (P0, P1)
    reply(leader.sent[0])
    assert await verification_future == {}
    assert leader.verification.verified == 2


async def test_one_request_is_on_its_way_and_the_rest_goes_together(leader: Leader) -> None:
    answers = [leader.ask(name) for name in ("a", "b", "c")]
    assert [leader.names(index) for index in range(len(leader.sent))] == [["a"]]
    reply(leader.sent[0])
    await settle()
    assert [leader.names(index) for index in range(len(leader.sent))] == [["a"], ["b", "c"]]
    reply(leader.sent[1])
    assert [await answer_future for answer_future in answers] == [{}, {}, {}]
    await settle()
    leader.ask("d")
    assert leader.names(2) == ["d"]


async def test_questions_are_timed_with_the_wait_for_their_turn(leader: Leader) -> None:
    for name in ("a", "b"):
        leader.ask(name)
    leader.clock.pass_ms(3)
    reply(leader.sent[0])
    await settle()
    leader.clock.pass_ms(4)
    reply(leader.sent[1], b=E.transaction_abortable)
    queues = leader.verification
    assert (queues.answered, queues.waited_us) == (2, 3_000 + 7_000)


async def test_each_coordinator_has_its_own_queue(leader: Leader) -> None:
    leader.coordinators["b"] = OTHER
    leader.ask("a")
    leader.ask("b")
    assert [sent_request.target for sent_request in leader.sent] == [HOME, OTHER]


async def test_without_a_coordinator_nothing_is_sent(leader: Leader) -> None:
    leader.coordinators["tx"] = None
    error_by_partition = await leader.ask(partitions=(P0, P1))
    assert error_by_partition == {P0: E.coordinator_not_available, P1: E.coordinator_not_available}
    assert leader.sent == []


@pytest.mark.parametrize(
    ("waiting_epoch", "coming", "error_of_waiting", "error_of_coming"),
    [
        (0, 1, E.invalid_producer_epoch, None),
        (1, 1, E.network_exception, None),
        (1, 0, None, E.invalid_producer_epoch),
    ],
)
async def test_of_two_that_wait_for_one_transaction_one_gives_way(
    leader: Leader,
    waiting_epoch: int,
    coming: int,
    error_of_waiting: ErrorCode | None,
    error_of_coming: ErrorCode | None,
) -> None:
    blocker_future = leader.ask("blocker")
    first_question_future = leader.ask(epoch=waiting_epoch, partitions=(P0,))
    second_question_future = leader.ask(epoch=coming, partitions=(P1,))
    assert (first_question_future.result() if first_question_future.done() else None) == (
        {P0: error_of_waiting} if error_of_waiting is not None else None
    )
    assert (second_question_future.result() if second_question_future.done() else None) == (
        {P1: error_of_coming} if error_of_coming is not None else None
    )
    reply(leader.sent[0])
    assert await blocker_future == {}
    await settle()
    (transaction,) = leader.sent[1].command.transactions
    assert transaction.producer_epoch == max(waiting_epoch, coming)
    reply(leader.sent[1])
    await settle()
    assert first_question_future.done()
    assert second_question_future.done()
    assert leader.verification.failed == 1


async def test_one_that_is_on_its_way_is_left_alone(leader: Leader) -> None:
    first_question_future, second_question_future = leader.ask(epoch=0), leader.ask(epoch=1)
    assert not first_question_future.done()
    reply(leader.sent[0])
    assert await first_question_future == {}
    reply(leader.sent[1])
    assert await second_question_future == {}


# Which row of docs/rules.md explains the answer

POSITIONS = TopicPartition(CONSUMER_OFFSETS_TOPIC, 3)


@pytest.mark.parametrize(
    ("error", "topic_partition", "rules"),
    [
        (None, P0, ("verify.added.v10", "verify.added.v11", "verify.added.v12")),
        (
            E.invalid_producer_epoch,
            P0,
            ("verify.other-epoch.v10", "verify.other-epoch.v11", "verify.other-epoch.v12"),
        ),
        (E.invalid_txn_state, P0, ("verify.not-added.v10",)),
        (E.network_exception, P0, ("verify.connection-lost",) * 3),
        (E.unknown_server_error, P0, ("verify.later-error",) * 3),
        (None, POSITIONS, ("txn-commit.verified", "txn-commit.verified", "txn-offset.added.v5")),
        (E.network_exception, POSITIONS, ("txn-offset.network",) * 3),
        (E.invalid_producer_epoch, POSITIONS, ("txn-offset.as-is",) * 3),
    ],
)
def test_an_answer_is_explained_by_a_rule(
    error: ErrorCode | None, topic_partition: TopicPartition, rules: tuple[str, ...]
) -> None:
    for operation, rule in zip((OLD, NEW, ADD), rules, strict=False):
        assert answer_rule(error, operation, topic_partition) == rule


async def test_what_the_trace_tells_of_an_answer(leader: Leader) -> None:
    leader.tracer.level = TraceLevel.FULL
    first_question_future = leader.ask("a", epoch=1)
    second_question_future = leader.ask("b", epoch=1)
    leader.ask("b", epoch=0)  # gives way to the one that waits
    reply(leader.sent[0], a=E.transaction_abortable)
    await first_question_future
    leader.sent[1].answer.resolve(AddPartitionsToTxnReply(error=E.cluster_authorization_failed))
    await second_question_future
    leader.coordinators["c"] = None
    await leader.ask("c")
    answers = [event.d for event in leader.tracer.events() if event.k == "verify.answer"]
    assert [
        (answer["error"], answer["rule"]) for answer in answers if isinstance(answer, dict)
    ] == [
        ("INVALID_PRODUCER_EPOCH", "verify.queue-replaced"),
        ("INVALID_TXN_STATE", "verify.not-added.v10"),
        ("INVALID_TXN_STATE", "verify.unauthorized"),
        ("COORDINATOR_NOT_AVAILABLE", "verify.no-coordinator.v10"),
    ]


# Answers

MAPPED = [
    # coordinator's word              <= v10                   v11                        >= v12
    (E.none, None, None, None),
    (
        E.transaction_abortable,
        E.invalid_txn_state,
        E.transaction_abortable,
        E.transaction_abortable,
    ),
    (E.producer_fenced, *[E.invalid_producer_epoch] * 3),
    (E.invalid_producer_id_mapping, *[E.invalid_producer_id_mapping] * 3),
    (E.invalid_txn_state, *[E.invalid_txn_state] * 3),
    (
        E.concurrent_transactions,
        E.not_enough_replicas,
        E.not_enough_replicas,
        E.concurrent_transactions,
    ),
    (E.network_exception, *[E.not_enough_replicas] * 3),
    (E.coordinator_load_in_progress, *[E.not_enough_replicas] * 3),
    (E.coordinator_not_available, *[E.not_enough_replicas] * 3),
    (E.not_coordinator, *[E.not_enough_replicas] * 3),
    (E.unknown_topic_or_partition, *[E.unknown_topic_or_partition] * 3),
    (E.operation_not_attempted, *[E.operation_not_attempted] * 3),
    (E.unknown_server_error, *[E.unknown_server_error] * 3),
    (E.invalid_request, *[E.invalid_request] * 3),
]


@pytest.mark.parametrize(
    ("coordinator_error", "operation", "producer_error"),
    [
        (coordinator_error, operation, answered)
        for coordinator_error, *row in MAPPED
        for operation, answered in zip((OLD, NEW, ADD), row, strict=True)
    ],
)
async def test_a_producer_gets_an_error_that_its_version_knows(
    leader: Leader,
    coordinator_error: ErrorCode,
    operation: TransactionOperation,
    producer_error: ErrorCode | None,
) -> None:
    verification_future = leader.ask(operation=operation)
    reply(leader.sent[0], tx=coordinator_error)
    error_by_partition = await verification_future
    errors_for_producer_by_partition = {
        topic_partition: produce_error(error, operation, release_rules=LATEST_RULES)
        for topic_partition, error in error_by_partition.items()
    }
    assert errors_for_producer_by_partition == (
        {} if producer_error is None else {P0: producer_error}
    )
    assert leader.verification.verified == (producer_error is None)
    assert leader.verification.failed == (producer_error is not None)


@pytest.mark.parametrize(
    ("top_level_error", "partition_error"),
    [
        (E.cluster_authorization_failed, E.invalid_txn_state),
        (E.unknown_server_error, E.unknown_server_error),
    ],
)
@pytest.mark.parametrize("as_exception", [False, True])
async def test_a_top_level_error_answers_all_waiting_requests(
    leader: Leader, top_level_error: ErrorCode, partition_error: ErrorCode, as_exception: bool
) -> None:
    verification_future = leader.ask(partitions=(P0, P1))
    if as_exception:
        leader.sent[0].answer.fail(PeerAnsweredError("answered", error=int(top_level_error)))
    else:
        leader.sent[0].answer.resolve(AddPartitionsToTxnReply(error=int(top_level_error)))
    assert await verification_future == {P0: partition_error, P1: partition_error}


@pytest.mark.parametrize("failure", [PeerDisconnectedError("lost"), PeerTimeoutError("late")])
async def test_no_answer_is_a_network_exception_and_the_queue_goes_on(
    leader: Leader, failure: Exception
) -> None:
    first_question_future, second_question_future = leader.ask("a"), leader.ask("b")
    leader.sent[0].answer.fail(failure)
    assert await first_question_future == {P0: E.network_exception}
    await settle()
    reply(leader.sent[1])
    assert await second_question_future == {}


async def test_a_bug_is_not_taken_for_an_answer(leader: Leader) -> None:
    verification_future = leader.ask()
    leader.sent[0].answer.fail(InvariantViolation("broken"))
    with pytest.raises(InvariantViolation):
        await verification_future


async def test_a_cancelled_request_cancels_all_that_waited_for_it(leader: Leader) -> None:
    verification_future = leader.ask()
    leader.sent[0].answer.fail(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await verification_future


@pytest.mark.parametrize("operation", [OLD, NEW, ADD])
@pytest.mark.parametrize(
    ("rules", "expected_by_partition", "event"),
    [
        (LATEST_RULES, {}, "txn.verification.skipped"),
        (
            Rules(verification_follows_peer_version=False),
            {P0: E.network_exception},
            "txn.verification.closed",
        ),
    ],
)
async def test_a_coordinator_from_before_verification_is_met_and_told_of_once(
    rules: Rules,
    expected_by_partition: Errors,
    event: str,
    operation: TransactionOperation,
    capsys: pytest.CaptureFixture[str],
) -> None:
    leader = Leader(rules=rules, fleet=Fleet(releases_by_broker={HOME: RELEASE_2_8}))
    for _ in range(3):
        assert await leader.ask(operation=operation) == expected_by_partition
    assert leader.sent == []
    assert capsys.readouterr().out.count(event) == 1


async def test_in_a_mixed_batch_the_first_ones_version_decides_for_all(leader: Leader) -> None:
    """A quirk of Kafka's: the operation that opened the batch maps TRANSACTION_ABORTABLE."""
    cases: list[tuple[TransactionOperation, TransactionOperation, ErrorCode]] = [
        (OLD, NEW, E.invalid_txn_state),
        (NEW, OLD, E.transaction_abortable),
    ]
    for opening_operation, joining_operation, expected_error in cases:
        blocker_future = leader.ask("blocker")
        answers = [
            leader.ask("a", operation=opening_operation),
            leader.ask("b", operation=joining_operation),
        ]
        reply(leader.sent[-1])
        await blocker_future
        await settle()
        reply(leader.sent[-1], a=E.transaction_abortable, b=E.transaction_abortable)
        assert [await answer_future for answer_future in answers] == [
            {P0: expected_error},
            {P0: expected_error},
        ]
        await settle()


async def test_only_the_partitions_with_an_error_are_in_the_answer(leader: Leader) -> None:
    verification_future = leader.ask(partitions=(P0, P1))
    leader.sent[0].answer.resolve(
        AddPartitionsToTxnReply(
            results=((TransactionalId("tx"), ((P0, E.none), (P1, E.invalid_txn_state))),)
        )
    )
    assert await verification_future == {P1: E.invalid_txn_state}
    assert (leader.verification.verified, leader.verification.failed) == (1, 1)


async def test_question_and_answer_are_in_the_trace(leader: Leader) -> None:
    leader.tracer.level = TraceLevel.FULL
    first_question_future = leader.ask(operation=ADD)
    reply(leader.sent[0])
    await first_question_future
    await settle()
    second_question_future = leader.ask()
    reply(leader.sent[1], tx=E.transaction_abortable)
    await second_question_future
    events = list(leader.tracer.events())
    assert [event.k for event in events] == ["verify.ask", "verify.answer"] * 2
    event_fields = [cast(dict[str, object], event.d) for event in events]
    assert [event_fields.get("add") for event_fields in event_fields[::2]] == [True, None]
    assert [event_fields["error"] for event_fields in event_fields[1::2]] == [
        "NONE",
        "INVALID_TXN_STATE",
    ]
    assert [event.p for event in events[1::2]] == [(events[0].i,), (events[2].i,)]


async def test_each_partition_is_asked_and_answered_in_the_trace(leader: Leader) -> None:
    leader.tracer.level = TraceLevel.FULL
    verification_future = leader.ask(partitions=(P0, P1))
    leader.sent[0].answer.resolve(
        AddPartitionsToTxnReply(
            results=((TransactionalId("tx"), ((P0, E.none), (P1, E.invalid_txn_state))),)
        )
    )
    await verification_future
    events = [(event.k, cast(dict[str, object], event.d)) for event in leader.tracer.events()]
    assert [(event_kind, data["tp"], data.get("error")) for event_kind, data in events] == [
        ("verify.ask", str(P0), None),
        ("verify.ask", str(P1), None),
        ("verify.answer", str(P0), "NONE"),
        ("verify.answer", str(P1), "INVALID_TXN_STATE"),
    ]


async def test_a_question_without_a_coordinator_is_answered_in_the_trace(
    leader: Leader,
) -> None:
    leader.tracer.level = TraceLevel.FULL
    leader.coordinators["tx"] = None
    assert await leader.ask() == {P0: E.coordinator_not_available}
    question_event, answer_event = leader.tracer.events()
    assert (question_event.k, answer_event.k, answer_event.p) == (
        "verify.ask",
        "verify.answer",
        (question_event.i,),
    )
    assert cast(dict[str, object], answer_event.d)["error"] == "COORDINATOR_NOT_AVAILABLE"


async def test_brief_has_the_refusal_alone_with_all_that_it_was_about(leader: Leader) -> None:
    leader.tracer.level = TraceLevel.BRIEF
    request = leader.tracer.emit("note", "broker/1")
    cause_before = leader.tracer.set_cause(request)
    verification_future = leader.ask(operation=ADD)
    leader.tracer.set_cause(cause_before)
    leader.clock.pass_ms(3)
    reply(leader.sent[0], tx=E.invalid_txn_state)
    await verification_future
    _, answer_event = leader.tracer.events()
    assert (answer_event.k, answer_event.p) == ("verify.answer", (request,))
    answer_details = cast(dict[str, object], answer_event.d)
    assert (answer_details["add"], answer_details["waited_us"], answer_details["error"]) == (
        True,
        3_000,
        "INVALID_TXN_STATE",
    )


async def test_brief_leaves_a_yes_out_as_the_append_follows(leader: Leader) -> None:
    leader.tracer.level = TraceLevel.BRIEF
    verification_future = leader.ask(operation=ADD)
    reply(leader.sent[0])
    await verification_future
    assert len(leader.tracer) == 0


async def test_an_answer_is_in_the_trace_whose_question_came_before_it(leader: Leader) -> None:
    verification_future = leader.ask()
    leader.tracer.level = TraceLevel.FULL
    reply(leader.sent[0])
    await verification_future
    (event,) = leader.tracer.events()
    assert (event.k, event.p) == ("verify.answer", ())
