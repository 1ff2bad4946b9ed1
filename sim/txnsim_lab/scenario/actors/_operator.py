"""The operator of the cluster: searches for hanging transactions, aborts, deletes, fences,
describes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from txnsim.client.admin import Admin
from txnsim.client.errors import code_name
from txnsim.client.inspection import ending
from txnsim.client.inspection.ending import EndOutcome, TxnIdentity
from txnsim.client.inspection.txn_views import AbortSpec, ProducerState
from txnsim.client.requests import Marker
from txnsim.errors import ClientError, InvariantViolation
from txnsim.txn.past_decision import PastDecision
from txnsim.types import INTERNAL_TOPICS, ProducerIdAndEpoch, TopicPartition
from txnsim_lab.check.observations import NamedHanging
from txnsim_lab.scenario.actors.base import ClientActor, Surroundings
from txnsim_lab.scenario.call_results import NONE, CallResult, StoryFailedError, failure
from txnsim_lab.scenario.steps_model import Call, required

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
"""UpgradeType of UpdateFeatures (KIP-584)."""
TIMEOUT_MS: Final = 30_000
REFUSED_END: Final = "INVALID_TXN_STATE"
"""The answer to an end that the coordinator's present entry forbids."""


class OperatorActor(ClientActor):
    """An operator who uses Kafka's admin client."""

    def __init__(self, name: str, surroundings: Surroundings) -> None:
        super().__init__(name, surroundings)
        self._hanging_transactions: tuple[tuple[TopicPartition, ProducerState], ...] = ()
        """Result of the last find-hanging."""

    async def call(
        self, call: Call, *, expected_code: str, on_sent: Callable[[], object]
    ) -> CallResult:
        del expected_code  # what an admin client asks again is its own affair
        on_sent()
        try:
            return await self._call(call)
        except ClientError as error:
            return failure(error)

    async def _call(self, call: Call) -> CallResult:
        match call.do:
            case "find-hanging":
                covers_internal_topics = call.tool != "before-3.1"
                return await self.find_hanging(
                    call.names, covers_internal_topics=covers_internal_topics
                )
            case "abort-found":
                for partition, producer in self._hanging_transactions:
                    await self._abort(partition, producer)
                return CallResult()
            case "abort":
                return await self._abort_at(call)
            case "delete-records":
                return await self._delete_records(call)
            case "end":
                return await self._end_transaction(call)
            case "fence":
                return await self._fence_producer(call.transactional_id or "")
            case "describe":
                return await self._describe(call)
            case "update-feature":
                await self._update_feature(required(call.name), required(call.level))
                return CallResult()
            case "delete-group":
                return await self._delete_group(required(call.group))
            case "configure-group":
                config_value = required(call.value)
                await (await self.admin()).set_group_config(
                    required(call.group), required(call.name), config_value
                )
                self._surroundings.tell(
                    self.name, f"sets {call.name} of group {call.group} to {config_value}"
                )
                return CallResult()
            case "producers":
                return await self._describe_producers(call, required(call.partition))
        raise InvariantViolation(f"{self.name} can't {call.do!r}, and the file was accepted")

    async def admin(self) -> Admin:
        """The admin client, connected when it is needed first."""
        return Admin(await self._ready())

    # Search and repair

    async def find_hanging(
        self,
        expected_partitions: tuple[TopicPartition, ...] | None = None,
        *,
        covers_internal_topics: bool = True,
    ) -> CallResult:
        """Search the whole cluster for hanging transactions.

        Args:
            expected_partitions: The partitions that the search must name.
            covers_internal_topics: Whether internal topics are searched too, as Kafka's tool does
                since 3.1 (KAFKA-13288).
        """
        hanging_transactions = await (await self.admin()).find_hanging(
            now_ms=self._surroundings.environment.clock.now_ms()
        )
        hanging_transactions = tuple(
            transaction
            for transaction in hanging_transactions
            if self._surroundings.is_ours(transaction.partition)
        )
        if not covers_internal_topics:
            hanging_transactions = tuple(
                transaction
                for transaction in hanging_transactions
                if transaction.partition.topic not in INTERNAL_TOPICS
            )
        self._hanging_transactions = tuple(
            (transaction.partition, transaction.producer) for transaction in hanging_transactions
        )
        self._surroundings.recorder.note_search(
            self.name, [_named_hanging(*transaction) for transaction in self._hanging_transactions]
        )
        for partition, producer in self._hanging_transactions:
            self._surroundings.tell(
                self.name,
                f"find-hanging names {partition}: producer {producer.producer_id}, epoch "
                f"{producer.producer_epoch}, open since offset {producer.txn_start_offset}",
            )
        if not hanging_transactions:
            self._surroundings.tell(
                self.name, "find-hanging names nothing: there is nothing to abort"
            )
        hanging_partitions = tuple(partition for partition, _ in self._hanging_transactions)
        if expected_partitions is not None and sorted(expected_partitions, key=str) != sorted(
            hanging_partitions, key=str
        ):
            raise StoryFailedError(
                f"find-hanging names {[*map(str, hanging_partitions)]}, expected"
                f" {[*map(str, expected_partitions)]}"
            )
        return CallResult()

    async def _abort(self, partition: TopicPartition, producer: ProducerState) -> CallResult:
        try:
            await (await self.admin()).abort_transaction(AbortSpec.of(partition, producer))
        except ClientError as error:
            answer = failure(error)
        else:
            answer = CallResult()
        start_offset = producer.txn_start_offset
        self._surroundings.recorder.note_operator_abort(
            self.name,
            partition,
            answer,
            producer_id=producer.producer_id,
            start_offset=-1 if start_offset is None else start_offset,
        )
        return answer

    async def _abort_at(self, call: Call) -> CallResult:
        partition = required(call.partition)
        start_offset = call.start_offset
        named_identity = (call.producer_id, call.epoch, call.coordinator_epoch)
        is_plain_abort = named_identity == (None, None, None) and call.decision != "commit"
        if start_offset is None:
            producer_id, epoch = required(call.producer_id), required(call.epoch)
            return await self._write_marker(
                partition, call, producer_id, epoch, call.coordinator_epoch
            )
        for producer in await self.producers(partition):
            if producer.txn_start_offset != start_offset:
                continue
            if is_plain_abort and call.transaction_version is None:
                return await self._abort(partition, producer)
            abort_spec = AbortSpec.of(partition, producer)
            return await self._write_marker(
                partition,
                call,
                _or_default(call.producer_id, abort_spec.producer_id),
                _or_default(call.epoch, abort_spec.producer_epoch),
                _or_default(call.coordinator_epoch, abort_spec.coordinator_epoch),
            )
        raise StoryFailedError(f"no transaction is open on {partition} since {start_offset}")

    async def _write_marker(
        self,
        partition: TopicPartition,
        call: Call,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int | None,
    ) -> CallResult:
        """Write a marker, all of whose fields the story gives."""
        marker = Marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=call.decision == "commit",
            coordinator_epoch=coordinator_epoch or 0,
            partitions=(partition,),
            transaction_version=call.transaction_version or 0,
        )
        marker_error = (await (await self.admin()).write_txn_marker(marker))[partition]
        answer = CallResult() if marker_error is None else failure(marker_error)
        decision = "COMMIT" if marker.committed else "ABORT"
        self._surroundings.tell(
            self.name,
            f"{decision} of producer {producer_id}, epoch {epoch}, for {partition} is answered "
            f"{answer.error}",
        )
        if not marker.committed:
            start_offset = -1 if call.start_offset is None else call.start_offset
            self._surroundings.recorder.note_operator_abort(
                self.name, partition, answer, producer_id=producer_id, start_offset=start_offset
            )
        return answer

    async def _end_transaction(self, call: Call) -> CallResult:
        """End the transaction of exactly one identity, as ``txns commit`` and ``abort`` do. A
        refusal without an answer of a broker is INVALID_TXN_STATE.
        """
        producer = required(call.first_identity_of)
        known_identity = self._surroundings.first_identities.get(producer)
        if known_identity is None:
            raise StoryFailedError(f"{producer} has no identity yet")
        decision = PastDecision.COMMITTED if call.decision == "commit" else PastDecision.ABORTED
        identity = TxnIdentity(
            transactional_id=required(call.transactional_id),
            producer_id=known_identity.producer_id,
            producer_epoch=known_identity.producer_epoch,
        )
        admin = await self.admin()
        transaction_end = await ending.look_at(admin, identity, decision)
        if transaction_end.outcome is EndOutcome.WOULD_END:
            transaction_end = await ending.end(admin, transaction_end, decision)
        self._surroundings.tell(
            self.name,
            f"{transaction_end.marker} of {identity.transactional_id}, {identity}:"
            f" {transaction_end.outcome}: {transaction_end.reason}",
        )
        is_refused = transaction_end.outcome is EndOutcome.REFUSED
        answer = (
            CallResult(error=REFUSED_END, because=transaction_end.reason)
            if is_refused
            else CallResult()
        )
        self._surroundings.recorder.note_end(
            self.name,
            call.transaction,
            answer,
            is_commit=decision is PastDecision.COMMITTED,
            sent_identity=known_identity,
        )
        return answer

    async def _delete_records(self, call: Call) -> CallResult:
        partition = required(call.partition)
        error = await (await self.admin()).delete_records(partition, required(call.before))
        return CallResult(error=code_name(error))

    async def _fence_producer(self, transactional_id: str) -> CallResult:
        outcome_by_id = await (await self.admin()).fence_producers([transactional_id])
        identity_or_error = outcome_by_id[transactional_id]
        identity, answer = ProducerIdAndEpoch.NONE, CallResult()
        if isinstance(identity_or_error, ClientError):
            answer = failure(identity_or_error)
        else:
            identity = identity_or_error
        self._surroundings.recorder.note_init(self.name, transactional_id, identity, answer)
        return answer

    async def _update_feature(self, feature_name: str, level: int) -> None:
        """Set a feature to a level; to a lower one by a safe downgrade (KIP-584)."""
        admin = await self.admin()
        old_level = (await admin.cluster.refresh_features()).level(feature_name)
        upgrade_type = UPGRADE if level >= old_level else SAFE_DOWNGRADE
        await admin.update_features({feature_name: level}, upgrade_type=upgrade_type)
        self._surroundings.tell(
            self.name, f"feature {feature_name} is at level {level}, it was at {old_level}"
        )

    async def _delete_group(self, group: str) -> CallResult:
        answer = CallResult(error=code_name(await (await self.admin()).delete_group(group)))
        if answer.error == NONE:
            self._surroundings.tell(self.name, f"group {group} is deleted")
        return answer

    # Looks

    async def _describe(self, call: Call) -> CallResult:
        transactional_id = call.transactional_id or ""
        description = await (await self.admin()).describe_transaction(transactional_id)
        self._surroundings.recorder.note_description(self.name, description)
        partition_list = ", ".join(map(str, description.partitions)) or "no partition"
        self._surroundings.tell(
            self.name,
            f"DescribeTransactions says that {transactional_id} is {description.state} with"
            f" {partition_list}",
        )
        start_time = "none" if description.start_time_ms is None else "known"
        for field_name, expected_value, actual_value in (
            ("", call.state, description.state),
            ("with ", _partition_list(call.partitions), _partition_list(description.partitions)),
            ("at epoch ", call.epoch, description.producer_epoch),
            ("begun at a time that is ", call.start, start_time),
        ):
            if expected_value not in (None, actual_value):
                raise StoryFailedError(
                    f"{transactional_id} is {field_name}{actual_value}, expected {expected_value}"
                )
        return CallResult()

    async def describe_all(self) -> None:
        """Describe every transaction of the cluster."""
        admin = await self.admin()
        answer_by_broker = await admin.list_transactions()
        listings_of_brokers = [
            listings
            for listings in answer_by_broker.values()
            if not isinstance(listings, ClientError)
        ]
        listing_rows = [
            listing
            for listings in listings_of_brokers
            for listing in listings
            if listing.transactional_id.startswith(self._surroundings.prefix)
        ]
        if len(listings_of_brokers) == len(answer_by_broker):
            self._surroundings.recorder.note_listing(self.name, listing_rows)
        ids_to_describe = sorted({listing.transactional_id for listing in listing_rows})
        for description in (await admin.describe_transactions(ids_to_describe)).values():
            if not isinstance(description, ClientError):
                self._surroundings.recorder.note_description(self.name, description)

    async def _describe_producers(self, call: Call, partition: TopicPartition) -> CallResult:
        """Ask the leader, or the named replica, for the producers of a partition."""
        producers = await self.producers(partition, broker_id=call.broker)
        start_offsets = tuple(
            producer.txn_start_offset
            for producer in producers
            if producer.txn_start_offset is not None
        )
        replica = f"broker {call.broker}" if call.broker is not None else "the leader"
        open_text = (
            f"open since {', '.join(map(str, start_offsets))}" if start_offsets else "nothing open"
        )
        self._surroundings.tell(
            self.name, f"{replica} tells of {len(producers)} producers of {partition}: {open_text}"
        )
        if call.open_since is not None and sorted(call.open_since) != sorted(start_offsets):
            raise StoryFailedError(
                f"{replica} shows {partition} open since {[*start_offsets]}, "
                f"expected {[*call.open_since]}"
            )
        return CallResult()

    async def producers(
        self, partition: TopicPartition, *, broker_id: int | None = None
    ) -> tuple[ProducerState, ...]:
        """Ask a broker for the producers of a partition (DescribeProducers).

        Args:
            partition: The partition.
            broker_id: The replica to ask; the leader unless given. A follower may lag behind, so
                its answer is not shown to the judges.

        Raises:
            ClientError: The broker did not answer, or refused.
        """
        producers = await (await self.admin()).producers_of(partition, broker_id=broker_id)
        if broker_id is None:
            self._surroundings.recorder.note_producers(self.name, partition, producers)
        return producers


def _partition_list(partitions: Sequence[TopicPartition] | None) -> str | None:
    return None if partitions is None else ", ".join(map(str, sorted(partitions))) or "no partition"


def _or_default(chosen_value: int | None, default_value: int) -> int:
    return default_value if chosen_value is None else chosen_value


def _named_hanging(partition: TopicPartition, producer: ProducerState) -> NamedHanging:
    start_offset = producer.txn_start_offset
    return NamedHanging(
        topic=partition.topic,
        partition=partition.partition,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        start_offset=-1 if start_offset is None else start_offset,
    )
