"""The rules of a transactional producer, each as Kafka's TransactionManager has it."""

from __future__ import annotations

import pytest

from txnsim.client.errors import (
    AbortableError,
    ClientError,
    ErrorCode,
    FatalError,
    IllegalUseError,
)
from txnsim.client.session import NO_IDENTITY, SessionState, TxnProtocol, TxnSession
from txnsim.client.versions import FinalizedFeatures, VersionRange
from txnsim.types import ProducerEpoch, ProducerId, ProducerIdAndEpoch, TopicPartition

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
V1_END = VersionRange(0, 4)
V2_END = VersionRange(5, 32767)


def identity(epoch: int) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(producer_id=ProducerId(7), producer_epoch=ProducerEpoch(epoch))


def features(level: int, epoch: int = 1) -> FinalizedFeatures:
    levels = (("transaction.version", level),) if level else ()
    return FinalizedFeatures(epoch=epoch, levels=levels)


def ready(level: int, *, can_bump: bool = True) -> TxnSession:
    session = TxnSession()
    session.initialized(identity(0), features(level), can_bump=can_bump)
    return session


def in_transaction(level: int, *, can_bump: bool = True) -> TxnSession:
    session = ready(level, can_bump=can_bump)
    session.begin()
    session.touch(P0)
    if level < 2:
        session.added(frozenset({P0}))
    return session


@pytest.mark.parametrize(
    ("level", "protocol"), [(0, TxnProtocol.V1), (1, TxnProtocol.V1), (2, TxnProtocol.V2)]
)
def test_the_level_chooses_the_protocol(level: int, protocol: TxnProtocol) -> None:
    assert ready(level).protocol is protocol


def test_versions_of_each_protocol() -> None:
    assert TxnProtocol.V1.produce_versions.highest == 11
    assert TxnProtocol.V2.produce_versions.lowest == 12
    assert TxnProtocol.V1.end_versions == V1_END
    assert TxnProtocol.V2.end_versions == V2_END


def test_a_new_session_can_only_be_initialized() -> None:
    session = TxnSession()
    assert session.identity == NO_IDENTITY
    with pytest.raises(IllegalUseError, match="begin in state UNINITIALIZED"):
        session.begin()
    with pytest.raises(IllegalUseError, match="send in state UNINITIALIZED"):
        session.touch(P0)
    with pytest.raises(IllegalUseError, match="commit in state UNINITIALIZED"):
        session.plan_end(committed=True, features=features(2))
    with pytest.raises(IllegalUseError, match="abort in state UNINITIALIZED"):
        session.plan_end(committed=False, features=features(2))
    assert session.state is SessionState.UNINITIALIZED


def test_only_the_old_protocol_adds_partitions_and_only_once() -> None:
    session = ready(1)
    session.begin()
    assert session.touch(P0)
    assert session.empty
    session.added(frozenset({P0}))
    assert not session.touch(P0)
    assert session.has(P0)
    assert session.touch(P1)
    v2 = ready(2)
    v2.begin()
    assert not v2.touch(P0)
    assert v2.has(P0)


def test_old_protocol_continues_sequences_across_transactions() -> None:
    session = in_transaction(1)
    assert session.next_sequence(P0, 3) == 0
    session.ended(None)
    assert session.next_sequence(P0, 1) == 3
    assert session.identity == identity(0)


def test_transactions_v2_restart_sequences_with_each_identity() -> None:
    session = in_transaction(2)
    assert session.next_sequence(P0, 3) == 0
    session.ended(identity(1))
    assert session.next_sequence(P0, 1) == 0
    assert session.identity == identity(1)


def test_sequences_wrap_to_0_after_the_largest_int32() -> None:
    session = in_transaction(1)
    session.next_sequence(P0, 2**31 - 1)
    assert session.next_sequence(P0, 2) == 2**31 - 1
    assert session.next_sequence(P0, 1) == 1


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_without_partitions_sends_no_end(level: int, committed: bool) -> None:
    session = ready(level)
    session.begin()
    plan = session.plan_end(committed=committed, features=features(level))
    assert not plan.send
    assert not plan.bump


def test_level_raised_in_mid_transaction_ends_old_and_bumps() -> None:
    session = in_transaction(1)
    plan = session.plan_end(committed=True, features=features(2, epoch=2))
    assert (plan.send, plan.versions, plan.bump) == (True, V1_END, True)
    assert plan.identity == identity(0)
    session.initialized(identity(1), features(2, epoch=2), can_bump=True)
    session.begin()
    assert session.protocol is TxnProtocol.V2
    session.touch(P0)
    plan = session.plan_end(committed=True, features=features(2, epoch=2))
    assert (plan.versions, plan.bump) == (V2_END, False)


def test_level_lowered_in_mid_transaction_ends_in_v2_and_goes_on_old() -> None:
    session = in_transaction(2)
    plan = session.plan_end(committed=True, features=features(1, epoch=2))
    assert (plan.send, plan.versions, plan.bump) == (True, V2_END, False)
    session.ended(identity(1))
    assert session.protocol is TxnProtocol.V1


def test_an_older_features_epoch_changes_nothing() -> None:
    session = TxnSession()
    session.initialized(identity(0), features(2, epoch=5), can_bump=True)
    session.begin()
    plan = session.plan_end(committed=True, features=features(0, epoch=5))
    assert plan.versions == V2_END
    assert session.protocol is TxnProtocol.V2


@pytest.mark.parametrize(("level", "bump"), [(1, True), (2, False)])
def test_an_abortable_error_leaves_only_abort_and_bumps_in_the_old_protocol(
    level: int, bump: bool
) -> None:
    session = in_transaction(level)
    raised = session.abortable(ClientError("lost", error=ErrorCode.request_timed_out))
    assert isinstance(raised, AbortableError)
    assert raised.error == ErrorCode.request_timed_out
    for refused in (session.begin, lambda: session.touch(P0)):
        with pytest.raises(AbortableError, match="lost"):
            refused()
    with pytest.raises(AbortableError):
        session.plan_end(committed=True, features=features(level))
    plan = session.plan_end(committed=False, features=features(level))
    assert (plan.send, plan.bump) == (True, bump)
    session.ended(identity(1) if level == 2 else None)
    session.begin()


def test_an_abortable_error_is_fatal_where_the_epoch_cannot_be_bumped() -> None:
    session = in_transaction(1, can_bump=False)
    assert isinstance(session.abortable(ClientError("lost")), FatalError)


def test_a_fatal_error_stays_and_keeps_its_first_reason() -> None:
    session = in_transaction(2)
    fenced = ClientError("fenced", error=ErrorCode.producer_fenced)
    assert isinstance(session.fatal(fenced), FatalError)
    later = session.abortable(ClientError("later"))
    assert isinstance(later, FatalError)
    assert str(later) == "fenced"
    assert str(session.fatal(ClientError("again"))) == "fenced"
    for refused in (session.begin, lambda: session.touch(P0), session.raise_error):
        with pytest.raises(FatalError, match="fenced"):
            refused()
    with pytest.raises(FatalError):
        session.plan_end(committed=False, features=features(2))
