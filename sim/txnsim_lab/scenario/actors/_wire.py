"""A producer that sends each request when a step of the story says so. It keeps the producer id,
epoch and sequences as a client does, so that a step only states what is unusual. It retries where
every client does, unless a step forbids it. It has a connection per broker and name. A broker
handles the requests of one connection one after the other, so a request that is held needs a
connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from txnsim.client import requests
from txnsim.client.session import TxnProtocol
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import VersionedRequest, VersionRange
from txnsim.errors import InvariantViolation
from txnsim.types import ProducerEpoch, ProducerId, ProducerIdAndEpoch, TopicPartition
from txnsim.wire.batch import Record, build_batch
from txnsim_lab.scenario.actors._broker_calls import MAIN_CONNECTION, RETRIED_ERRORS, BrokerCalls
from txnsim_lab.scenario.actors.base import ClientActor, Surroundings, group_metadata
from txnsim_lab.scenario.call_results import (
    GIVEN_UP,
    NONE,
    CallResult,
    StoryFailedError,
    answers_by_partition,
)
from txnsim_lab.scenario.model import Actor
from txnsim_lab.scenario.recorder import SentBatch, encode_value
from txnsim_lab.scenario.steps_model import Call, required

_OFFSET_COMMIT_VERSIONS: Final[Mapping[TxnProtocol, VersionRange]] = {
    TxnProtocol.V1: VersionRange(0, 4),
    TxnProtocol.V2: VersionRange(5, 32767),
}
"""Versions of TxnOffsetCommit by protocol: transactions v1 or v2."""
_SEQUENCE_COUNT: Final = 1 << 31

NoteAnswer = Callable[[CallResult], None]


class WireActor(ClientActor):
    """A transactional producer that sends request by request."""

    def __init__(self, name: str, declaration: Actor, surroundings: Surroundings) -> None:
        super().__init__(name, surroundings, declaration.client_id)
        self.identity = ProducerIdAndEpoch.NONE
        """Producer id and epoch from the coordinator's last answer."""
        self._declaration = declaration
        self._recorder = surroundings.recorder
        self._transactional_id = declaration.transactional_id or name
        uses_v2 = (
            surroundings.has_transactions_v2
            if declaration.protocol is None
            else declaration.protocol == 2
        )
        self._protocol = TxnProtocol.V2 if uses_v2 else TxnProtocol.V1
        self._sequence_by_partition: dict[TopicPartition, int] = {}
        self._transaction: str | None = None
        self._begun_count = 0
        self._unanswered_calls: dict[int, tuple[Call, NoteAnswer]] = {}
        """Calls neither answered nor given up, by ``id(call)``."""

    async def call(
        self, call: Call, *, expected_code: str, on_sent: Callable[[], object]
    ) -> CallResult:
        if call.do == "begin":
            return self._begin_transaction(call)
        broker_calls = BrokerCalls(
            await self._ready(), call, expected_code=expected_code, on_sent=on_sent
        )
        match call.do:
            case "init-producer-id":
                return await self._init_producer(call, broker_calls)
            case "add-partitions" | "add-offsets":
                return await self._add_to_transaction(call, broker_calls)
            case "produce":
                return await self._produce(call, broker_calls)
            case "commit-offsets":
                return await self._commit_offsets(call, broker_calls)
            case "commit" | "abort":
                return await self._end_transaction(call, broker_calls)
        raise InvariantViolation(f"{self.name} can't {call.do!r}, and the file was accepted")

    async def give_up(self, call: Call) -> None:
        """Close the connection of a call whose answer is no longer awaited."""
        _, note_answer = self._unanswered_calls.pop(id(call), (call, None))
        if note_answer is not None:
            note_answer(GIVEN_UP)
        if self._cluster is not None:
            await self._cluster.disconnect(lane=call.connection or MAIN_CONNECTION)

    async def close(self) -> None:
        """Close the connections; calls without an answer are noted with an unknown outcome."""
        unanswered_calls, self._unanswered_calls = self._unanswered_calls, {}
        for _, note_answer in unanswered_calls.values():
            note_answer(GIVEN_UP)
        await super().close()

    # Requests

    def _begin_transaction(self, call: Call) -> CallResult:
        self._begun_count += 1
        self._transaction = call.transaction or f"{self.name}.T{self._begun_count}"
        self._recorder.note_begin(self.name, self._transactional_id, self._transaction)
        return CallResult()

    async def _init_producer(self, call: Call, broker_calls: BrokerCalls) -> CallResult:
        has_identity = (
            call.bump or call.producer_id is not None or call.first_identity_of is not None
        )
        expected_identity = self._identity_of(call) if has_identity else ProducerIdAndEpoch.NONE
        request = TxnRequests(
            self._transactional_id,
            producer_id=expected_identity.producer_id,
            producer_epoch=expected_identity.producer_epoch,
        ).init(timeout_ms=self._declaration.transaction_timeout, two_phase=bool(call.two_phase))
        answer = await broker_calls.coordinator(self._transactional_id, request)
        if answer.error == NONE:
            self._adopt_identity(broker_calls.message)
        self._recorder.note_init(
            self.name,
            self._transactional_id,
            self.identity,
            answer,
            timeout_ms=self._declaration.transaction_timeout,
        )
        return answer

    async def _add_to_transaction(self, call: Call, broker_calls: BrokerCalls) -> CallResult:
        """Send AddPartitionsToTxn; or AddOffsetsToTxn, if the call names a group."""
        group, partitions = call.group, call.partitions or ()
        if self._protocol is TxnProtocol.V2 and not call.always:
            reason = "the first record adds its partition"
            return CallResult(because=reason if group is None else "TxnOffsetCommit adds the group")
        identity, transaction = self._identity_of(call), self._transaction
        producer_id, epoch = identity.producer_id, identity.producer_epoch
        if group is None:
            request = TxnRequests(
                self._transactional_id, producer_id=producer_id, producer_epoch=epoch
            ).add_partitions(partitions=partitions)
        else:
            request = TxnRequests(
                self._transactional_id, producer_id=producer_id, producer_epoch=epoch
            ).add_offsets(group_id=group)
        answer = await broker_calls.coordinator(self._transactional_id, request)
        self._recorder.note_partitions_added(self.name, transaction, partitions, answer, identity)
        return answer

    async def _produce(self, call: Call, broker_calls: BrokerCalls) -> CallResult:
        partition_of_call = required(call.partition)
        values_elsewhere = call.beside or {}
        batches = [
            self._next_batch(
                call, partition_of_call, call.records, first_sequence=call.sequence, item=call.item
            ),
            *(
                self._next_batch(call, partition, (value,))
                for partition, value in values_elsewhere.items()
            ),
        ]
        transaction = None if call.plain else self._transaction
        result_by_partition: dict[TopicPartition, CallResult] = {}

        def note(answer: CallResult) -> None:
            for batch in batches:
                partition_answer = result_by_partition.get(batch.partition, answer)
                self._recorder.note_write(self.name, transaction, batch, partition_answer)

        self._unanswered_calls[id(call)] = call, note
        request = self._produce_request(call, batches)
        answer = await broker_calls.leader(
            partition_of_call, request, without_retries=bool(values_elsewhere)
        )
        if values_elsewhere:
            answer = await self._ask_each_again(
                call, broker_calls, batches, result_by_partition, answer
            )
        return self._note_answer(call, answer)

    async def _ask_each_again(
        self,
        call: Call,
        broker_calls: BrokerCalls,
        batches: Sequence[SentBatch],
        result_by_partition: dict[TopicPartition, CallResult],
        answer: CallResult,
    ) -> CallResult:
        """Retry a Produce for each partition whose error makes every client retry. Return the first
        answer with an error, else the answer of the first partition.

        Args:
            call: The call.
            broker_calls: Sends the requests of the call.
            batches: The batches of the first request, one per partition.
            result_by_partition: Filled with the answer for each partition.
            answer: The answer to the first request as a whole.
        """
        if broker_calls.message is not None:
            result_by_partition.update(answers_by_partition(broker_calls.message))
        for batch in batches:
            partition = batch.partition
            if (
                result_by_partition.setdefault(partition, answer).error in RETRIED_ERRORS
                and not call.once
            ):
                result_by_partition[partition] = await broker_calls.leader(
                    partition, self._produce_request(call, [batch])
                )
        failed_answers = (
            answer_of_partition
            for answer_of_partition in result_by_partition.values()
            if answer_of_partition.error != NONE
        )
        return next(failed_answers, result_by_partition[batches[0].partition])

    def _produce_request(self, call: Call, batches: Iterable[SentBatch]) -> VersionedRequest:
        is_plain = bool(call.plain)
        return requests.produce(
            {
                batch.partition: self._encode_batch(batch, is_transactional=not is_plain)
                for batch in batches
            },
            id_by_topic={},
            transactional_id=None if is_plain else self._transactional_id,
            accepted_versions=self._protocol.produce_versions,
        )

    async def _commit_offsets(self, call: Call, broker_calls: BrokerCalls) -> CallResult:
        identity, transaction = self._identity_of(call), self._transaction
        member = None if call.member is None else self._surroundings.member(call.member)
        group = call.group or ("" if member is None else member.options.group_id)
        polled_offsets = {} if member is None else dict(member.positions)
        offsets = polled_offsets if call.offsets is None else call.offsets
        self._unanswered_calls[id(call)] = (
            call,
            lambda answer: self._recorder.note_sent_offsets(
                self.name, transaction, group, offsets, answer, identity, member=call.member
            ),
        )
        request = TxnRequests(
            self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
        ).commit_offsets(
            group_id=group,
            offsets=offsets,
            accepted_versions=_OFFSET_COMMIT_VERSIONS[self._protocol],
            member=group_metadata(
                call, None if member is None else member.metadata, self._surroundings
            ),
        )
        return self._note_answer(call, await broker_calls.group_coordinator(group, request))

    async def _end_transaction(self, call: Call, broker_calls: BrokerCalls) -> CallResult:
        identity, transaction = self._identity_of(call), self._transaction
        is_commit, asked_ms = call.do == "commit", self._surroundings.environment.clock.now_ms()
        self._unanswered_calls[id(call)] = (
            call,
            lambda answer: self._recorder.note_end(
                self.name,
                transaction,
                answer,
                is_commit=is_commit,
                asked_ms=asked_ms,
                sent_identity=identity,
                next_identity=self.identity if answer.error == NONE else None,
            ),
        )
        request = TxnRequests(
            self._transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
        ).end(committed=is_commit, accepted_versions=self._protocol.end_versions)
        answer = await broker_calls.coordinator(self._transactional_id, request)
        if answer.error == "INVALID_TXN_STATE":  # the transaction has not had this end
            answer = msgspec.structs.replace(answer, is_in_doubt=False)
        # A producer that has given up this call has gone on, and does not use the answer.
        is_awaited = id(call) in self._unanswered_calls
        if is_awaited and answer.error == NONE and broker_calls.message.__version__ >= 5:
            self._adopt_identity(broker_calls.message)
        return self._note_answer(call, answer)

    def _note_answer(self, call: Call, answer: CallResult) -> CallResult:
        """Record the result of a call, unless it was given up."""
        _, note_answer = self._unanswered_calls.pop(id(call), (call, None))
        if note_answer is not None:
            note_answer(answer)
        return answer

    # State of a client

    def _adopt_identity(self, response: Any) -> None:
        """Takes the producer id and epoch of an answer; with a new identity, sequences begin at
        0.
        """
        if response.producer_id < 0:
            return
        new_identity = ProducerIdAndEpoch(
            producer_id=ProducerId(response.producer_id),
            producer_epoch=ProducerEpoch(response.producer_epoch),
        )
        self._surroundings.first_identities.setdefault(self.name, new_identity)
        if new_identity != self.identity:
            self.identity = new_identity
            self._sequence_by_partition.clear()

    def _identity_of(self, call: Call) -> ProducerIdAndEpoch:
        identity = self.identity
        if call.first_identity_of is not None:
            first_identity = self._surroundings.first_identities.get(call.first_identity_of)
            if first_identity is None:
                raise StoryFailedError(f"{call.first_identity_of} was not given an identity yet")
            identity = first_identity
        return ProducerIdAndEpoch(
            producer_id=identity.producer_id
            if call.producer_id is None
            else ProducerId(call.producer_id),
            producer_epoch=identity.producer_epoch
            if call.epoch is None
            else ProducerEpoch(call.epoch),
        )

    def _next_batch(
        self,
        call: Call,
        partition: TopicPartition,
        values: tuple[str | None, ...],
        *,
        first_sequence: int | None = None,
        item: str | None = None,
    ) -> SentBatch:
        """The next batch for a partition; ``first_sequence`` replaces the next sequence."""
        first_sequence = (
            self._sequence_by_partition.get(partition, 0)
            if first_sequence is None
            else first_sequence
        )
        self._sequence_by_partition[partition] = (first_sequence + len(values)) % _SEQUENCE_COUNT
        return SentBatch(
            partition=partition,
            values=values,
            key=call.key,
            item=item,
            of=call.inputs,
            identity=self._identity_of(call),
            sequence=first_sequence,
        )

    def _encode_batch(self, batch: SentBatch, *, is_transactional: bool) -> bytes:
        now_ms = self._surroundings.environment.clock.now_ms()
        assert batch.identity is not None
        assert batch.sequence is not None
        return build_batch(
            [
                Record(timestamp_ms=now_ms, key=batch.key, value=encode_value(value))
                for value in batch.values
            ],
            timestamp_ms=now_ms,
            producer_id=batch.identity.producer_id,
            producer_epoch=batch.identity.producer_epoch,
            base_sequence=batch.sequence,
            is_transactional=is_transactional,
        )
