"""The requests of a transactional producer, under one identity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from txnsim.client.group_requests import GroupMetadata, committed_topics
from txnsim.client.requests import per_topic, versioned_request
from txnsim.client.versions import ANY, ClientApi, VersionedRequest, VersionRange
from txnsim.types import TopicPartition


class TxnRequests(msgspec.Struct, frozen=True):
    """Builds requests to transaction and group coordinators from plain values."""

    transactional_id: str | None
    producer_id: int = -1
    producer_epoch: int = -1

    def init(self, *, timeout_ms: int, two_phase: bool = False) -> VersionedRequest:
        """Ask for an identity. With an expected identity (KIP-360) at least version 3 is needed,
        and version 6 for two-phase commit (KIP-939).
        """
        lowest_version = 3 if self.producer_id >= 0 else 0
        accepted_versions = VersionRange(6, 6) if two_phase else VersionRange(lowest_version, 5)
        two_phase_fields = {"enable2_pc": True, "keep_prepared_txn": False} if two_phase else {}
        return versioned_request(
            ClientApi.INIT_PRODUCER_ID,
            accepted_versions,
            transactional_id=self.transactional_id,
            transaction_timeout=timeout_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            **two_phase_fields,
        )

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> VersionedRequest:
        """Add partitions to the transaction, as clients do up to version 3."""
        return versioned_request(
            ClientApi.ADD_PARTITIONS_TO_TXN,
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=per_topic("AddPartitionsToTxnTopic", partitions),
        )

    def add_offsets(self, group_id: str) -> VersionedRequest:
        """Add a group's positions to the transaction; not used with transactions v2."""
        return versioned_request(
            ClientApi.ADD_OFFSETS_TO_TXN,
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=group_id,
        )

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        accepted_versions: VersionRange = ANY,
        member: GroupMetadata | None = None,
    ) -> VersionedRequest:
        """Commit a group's positions as part of the transaction; version 5 adds the group by itself
        (KIP-890). With ``member`` the group's coordinator checks the member (KIP-447, from version
        3 on).
        """
        return versioned_request(
            ClientApi.TXN_OFFSET_COMMIT,
            accepted_versions,
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            **({} if member is None else member.fields),
            topics=committed_topics("TxnOffsetCommitRequest", offsets),
        )

    def end(self, *, committed: bool, accepted_versions: VersionRange = ANY) -> VersionedRequest:
        """Commit or abort; version 5 and above is the protocol of transactions v2 (KIP-890)."""
        return versioned_request(
            ClientApi.END_TXN,
            accepted_versions,
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
