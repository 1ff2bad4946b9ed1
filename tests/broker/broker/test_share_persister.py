"""How a broker asks share coordinators: finding them, what goes together, trying again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within_environment import in_virtual_time, within
from txnsim.broker._share_persister import ATTEMPTS, SharePersister
from txnsim.errors import ErrorCode, PeerAnsweredError, PeerDisconnectedError, PeerTimeoutError
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
from txnsim.node.peers import READ_SHARE_GROUP_STATE, ShareAnswer, ShareCommand
from txnsim.runtime.tasks import Pending
from txnsim.runtime.virtual.run import VirtualEnvironment
from txnsim.types import SHARE_STATE_TOPIC, BrokerId, uuid_text

E = ErrorCode
TOPIC_ID: Final = "qHBm7qF0QeCvHxCmWtCZ2w"
B1, B2 = BrokerId(1), BrokerId(2)


def key(group: str = "g", partition: int = 0) -> ShareKey:
    return ShareKey(group, TOPIC_ID, partition)


def reading(group: str = "g", partition: int = 0) -> ReadShareState:
    return ReadShareState(key=key(group, partition), leader_epoch=0)


class PersisterBench:
    """A persister whose requests wait for the test's answers."""

    def __init__(self, env: VirtualEnvironment) -> None:
        self.env = env
        self.sent: list[tuple[BrokerId, int, list[ShareCommand]]] = []
        self.answers: list[Pending[Sequence[ShareAnswer]]] = []
        self.leaders: dict[int, BrokerId | None] = {}
        """By partition of the key; broker 1 unless it says otherwise."""
        self.topics_made = 0
        self.persister = SharePersister(
            peers=self,  # type: ignore[arg-type] # all that it asks of peers
            coordinator_of=lambda text: self.leaders.get(int(text[-1]), B1),
            make_topic=self.make_topic,
            clock=env.clock,
            tasks=env.tasks,
            draw=lambda low, high: (low + high) / 2,
        )

    def make_topic(self) -> None:
        self.topics_made += 1

    def share_state(
        self, target_broker_id: BrokerId, api_key: int, commands: Sequence[ShareCommand]
    ) -> Pending[Sequence[ShareAnswer]]:
        """Note the request; stands for ``Peers.share_state``."""
        self.sent.append((target_broker_id, api_key, list(commands)))
        self.answers.append(Pending(self.env.tasks))
        return self.answers[-1]

    def answer(self, number: int = -1, error: ErrorCode = E.none, message: str = "") -> None:
        """Answer a noted request, with the same error for every command."""
        _, _, commands = self.sent[number]
        self.answers[number].resolve(
            [ShareState(key=command.key, error=error, message=message) for command in commands]
        )


run = in_virtual_time(PersisterBench)


@within(run)
async def test_what_waits_for_one_broker_goes_in_one_request_of_each_group(
    persister_bench: PersisterBench,
) -> None:
    persister_bench.leaders[3] = B2
    first_futures = persister_bench.persister.read([reading(), reading("g", 3)])
    assert persister_bench.sent == [
        (B1, READ_SHARE_GROUP_STATE, [reading()]),
        (B2, READ_SHARE_GROUP_STATE, [reading("g", 3)]),
    ]
    later_reads = persister_bench.persister.read([reading("g", 1), reading("h"), reading("g", 2)])
    assert len(persister_bench.sent) == 2  # one of this kind is on its way to broker 1
    deleted = persister_bench.persister.delete([DeleteShareState(key=key())])
    assert len(persister_bench.sent) == 3  # none of this kind
    persister_bench.answer(0)
    assert persister_bench.sent[3:] == [
        (B1, READ_SHARE_GROUP_STATE, [reading("g", 1), reading("g", 2)]),
        (B1, READ_SHARE_GROUP_STATE, [reading("h")]),
    ]
    persister_bench.answer(3)
    last_futures = persister_bench.persister.read([reading("k")])
    assert len(persister_bench.sent) == 5  # the other group's is still on its way
    persister_bench.answer(4)
    assert persister_bench.sent[5] == (B1, READ_SHARE_GROUP_STATE, [reading("k")])
    assert first_futures[0].result().key == key()
    assert [future.result().key.group_id for future in later_reads] == ["g", "h", "g"]
    assert not deleted[0].done()
    assert not last_futures[0].done()


@pytest.mark.parametrize("error", [E.none, E.fenced_state_epoch])
@within(run)
async def test_very_many_answers_are_taken_in_slices(
    persister_bench: PersisterBench, error: ErrorCode
) -> None:
    futures = persister_bench.persister.read(
        [reading(partition=future_index) for future_index in range(1_000)]
    )
    persister_bench.answer(error=error, message="no")
    are_done = [future.done() for future in futures]
    assert 0 < sum(are_done) < 1_000
    assert sorted(are_done, reverse=True) == are_done
    share_states = [await future for future in futures]
    assert [share_state.key.partition for share_state in share_states] == list(range(1_000))
    assert {share_state.error for share_state in share_states} == {error}


@within(run)
@pytest.mark.parametrize(
    "error", [E.coordinator_load_in_progress, E.not_coordinator, E.unknown_topic_or_partition]
)
async def test_what_may_pass_is_tried_five_times_with_longer_pauses(
    persister_bench: PersisterBench, error: ErrorCode
) -> None:
    (answer_future,) = persister_bench.persister.read([reading()])
    begun_ms, asked_ms = persister_bench.env.clock.monotonic_ms(), []
    for attempt_number in range(ATTEMPTS):
        asked_ms.append(persister_bench.env.clock.monotonic_ms() - begun_ms)
        assert len(persister_bench.sent) == attempt_number + 1
        persister_bench.answer(error=error)
        await asyncio.sleep(30)
    assert asked_ms == [30_000 * attempt_number for attempt_number in range(ATTEMPTS)]
    state = answer_future.result()
    assert (state.error, state.message) == (
        error,
        "Error in read state RPC. "
        "Exhausted max retries to complete read state RPC without success.",
    )


@within(run)
async def test_the_pauses_double(persister_bench: PersisterBench) -> None:
    (answer_future,) = persister_bench.persister.read([reading()])
    for pause_s in (2, 4, 8, 16):
        persister_bench.answer(error=E.not_coordinator)
        sent_count = len(persister_bench.sent)
        await asyncio.sleep(pause_s - 0.01)
        assert len(persister_bench.sent) == sent_count
        await asyncio.sleep(0.02)
        assert len(persister_bench.sent) == sent_count + 1
    persister_bench.leaders[0] = B2
    persister_bench.answer()
    assert answer_future.result() == ShareState(key=key(), message="")


@within(run)
async def test_a_coordinator_that_moved_is_found_again(persister_bench: PersisterBench) -> None:
    persister_bench.persister.read([reading()])
    persister_bench.answer(error=E.not_coordinator)
    persister_bench.leaders[0] = B2
    await asyncio.sleep(3)
    assert persister_bench.sent[-1][0] == B2


@within(run)
async def test_without_a_coordinator_the_topic_is_made_and_looked_for_again(
    persister_bench: PersisterBench,
) -> None:
    persister_bench.leaders[0] = None
    (lost_future,) = persister_bench.persister.read([reading()])
    (other_future,) = persister_bench.persister.read([reading("h")])
    assert persister_bench.topics_made == 2
    await asyncio.sleep(1)
    persister_bench.leaders[0] = B1
    await asyncio.sleep(2)
    persister_bench.answer(0)
    persister_bench.answer(1)
    assert (lost_future.result().key, other_future.result().key) == (key(), key("h"))


@within(run)
async def test_where_there_is_never_one_it_gives_up(persister_bench: PersisterBench) -> None:
    persister_bench.leaders[0] = None
    (answer_future,) = persister_bench.persister.write(
        [WriteShareState(key=key(), state_epoch=0, leader_epoch=0)]
    )
    await asyncio.sleep(60)
    assert persister_bench.topics_made == ATTEMPTS
    assert answer_future.result() == ShareStateError(
        key=key(),
        error=E.coordinator_not_available,
        message="Error in find coordinator. "
        "Exhausted max retries to find coordinator without success.",
    )


@within(run)
async def test_what_will_not_pass_is_told_at_once(persister_bench: PersisterBench) -> None:
    (answer_future,) = persister_bench.persister.summarize([reading()])
    persister_bench.answer(error=E.fenced_leader_epoch, message="older")
    assert answer_future.result() == ShareStateSummary(
        key=key(), error=E.fenced_leader_epoch, message="Error in read state summary RPC. older"
    )
    (answer_future,) = persister_bench.persister.summarize([reading()])
    persister_bench.answers[-1].fail(PeerAnsweredError("refused", error=E.unsupported_version))
    assert answer_future.result().error is E.unsupported_version


@within(run)
@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (PeerTimeoutError("late"), E.request_timed_out),
        (PeerDisconnectedError("gone"), E.network_exception),
    ],
)
async def test_a_request_without_an_answer_is_sent_again(
    persister_bench: PersisterBench, failure: Exception, error: ErrorCode
) -> None:
    first_command = InitializeShareState(key=key(), state_epoch=0)
    (answer_future,) = persister_bench.persister.initialize([first_command])
    for _ in range(ATTEMPTS):
        persister_bench.answers[-1].fail(failure)
        await asyncio.sleep(30)
    assert len(persister_bench.sent) == ATTEMPTS
    assert answer_future.result().error is error


@within(run)
async def test_answers_belong_to_topic_and_partition_in_any_order(
    persister_bench: PersisterBench,
) -> None:
    first_future, second_future, third_future = persister_bench.persister.read(
        [reading(), reading("g", 1), reading("g", 2)]
    )
    persister_bench.answers[-1].resolve(
        [
            ShareState(key=ShareKey("", TOPIC_ID, partition), start_offset=partition)
            for partition in (1, 0)
        ]
    )
    assert (first_future.result().key, first_future.result().start_offset) == (key(), 0)
    assert (second_future.result().key, second_future.result().start_offset) == (key("g", 1), 1)
    assert third_future.result().error is E.unknown_server_error


@within(run)
async def test_a_bug_is_not_hidden(persister_bench: PersisterBench) -> None:
    persister_bench.persister.read([reading()])
    with pytest.raises(ZeroDivisionError):
        persister_bench.answers[-1].fail(ZeroDivisionError())


@within(run)
async def test_a_broker_that_stops_answers_all_that_waits(persister_bench: PersisterBench) -> None:
    (sent_future,) = persister_bench.persister.read([reading()])
    (waits_future,) = persister_bench.persister.read([reading("h")])
    persister_bench.leaders[3] = None
    (pauses_future,) = persister_bench.persister.read([reading("g", 3)])
    persister_bench.persister.stop()
    stop_error = (E.coordinator_not_available, "The broker has stopped.")
    for future in (waits_future, pauses_future):
        assert (future.result().error, future.result().message) == stop_error
    persister_bench.answer(0, E.not_coordinator)
    assert sent_future.result().error is E.not_coordinator
    assert len(persister_bench.sent) == 1


async def await_all(answers: Sequence[Pending[Any]]) -> list[Any]:
    return [await future for future in answers]


@within(run_cluster, brokers=3)
async def test_between_brokers_a_state_is_written_by_one_and_read_by_all(
    cluster: VirtualCluster,
) -> None:
    broker_by_broker_id = cluster.sim.brokers
    image = broker_by_broker_id[B1].image
    topic_id = uuid_text(image.topics["orders"].topic_id)
    state_keys = [ShareKey("g", topic_id, partition) for partition in range(3)]
    asking_persister = broker_by_broker_id[B1].share_persister
    assert SHARE_STATE_TOPIC not in image.topics
    initialized = await await_all(
        asking_persister.initialize(
            InitializeShareState(key=state_key, state_epoch=2, start_offset=4)
            for state_key in state_keys
        )
    )
    assert initialized == [ShareStateError(key=state_key) for state_key in state_keys]
    written_states = await await_all(
        asking_persister.write(
            WriteShareState(
                key=state_key,
                state_epoch=2,
                leader_epoch=1,
                start_offset=5,
                delivery_complete_count=1,
                batches=(StateBatch(6, 6, 2, 1),),
            )
            for state_key in state_keys
        )
    )
    assert not any(written_state.error for written_state in written_states)
    for broker in broker_by_broker_id.values():
        read = await await_all(
            broker.share_persister.read(
                ReadShareState(key=state_key, leader_epoch=1) for state_key in state_keys
            )
        )
        assert {state.batches for state in read} == {(StateBatch(6, 6, 2, 1),)}
    summed = await await_all(
        asking_persister.summarize(ReadShareState(key=state_key) for state_key in state_keys)
    )
    assert {summary.delivery_complete_count for summary in summed} == {1}
    await await_all(
        asking_persister.delete(DeleteShareState(key=state_key) for state_key in state_keys)
    )
    (deleted_state,) = await await_all(
        asking_persister.read([ReadShareState(key=state_keys[0], leader_epoch=1)])
    )
    assert deleted_state.error is E.invalid_request


@within(run_cluster, brokers=3)
async def test_it_goes_on_while_coordinators_die(cluster: VirtualCluster) -> None:
    broker_by_broker_id = cluster.sim.brokers
    topic_id = uuid_text(broker_by_broker_id[B1].image.topics["orders"].topic_id)
    state_keys = [ShareKey(f"g{group_number}", topic_id, 0) for group_number in range(20)]
    asking_persister = broker_by_broker_id[B1].share_persister
    initialized = await await_all(
        asking_persister.initialize(
            InitializeShareState(key=state_key, state_epoch=0) for state_key in state_keys
        )
    )
    assert not any(state.error for state in initialized)
    await cluster.sim.kill_broker(BrokerId(3))
    written_states = await await_all(
        asking_persister.write(
            WriteShareState(key=state_key, state_epoch=0, leader_epoch=0, start_offset=7)
            for state_key in state_keys
        )
    )
    assert not any(state.error for state in written_states)
    read = await await_all(
        asking_persister.read(
            ReadShareState(key=state_key, leader_epoch=0) for state_key in state_keys
        )
    )
    assert {state.start_offset for state in read} == {7}
