"""Finds the transaction protocol of a cluster, by requests, before anything is played. Brokers
report their level of ``transaction.version`` and their API versions to every client; whether they
verify transactions is a config, which not every client may read.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.versions import ClientApi
from txnsim.errors import ClientError

_VERIFICATION: Final = "transaction.partition.verification.enable"
_STRICT_MARKERS_SINCE: Final = 2
"""The version of WriteTxnMarkers that KIP-1228 introduced."""


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster's brokers support of transactions."""

    transaction_version: int
    verification: frozenset[bool] = frozenset()
    """Whether brokers verify transactions, as they report; empty if their configs may not be
    read.
    """
    has_strict_markers: bool

    def __str__(self) -> str:
        text = f"transaction.version {self.transaction_version}"
        if len(self.verification) > 1:
            text += ", verification at some of its brokers"
        elif self.verification:
            text += " with verification" if True in self.verification else " without verification"
        return f"{text}, strict markers (KIP-1228)" if self.has_strict_markers else text


async def generation_of(bootstrap: str, settings: ClientSettings) -> Generation:
    """Ask every broker of a cluster.

    Raises:
        ClientError: A broker does not answer.
    """
    async with Cluster(bootstrap, settings=settings) as cluster:
        features = await cluster.refresh_features()
        verification: set[bool] = set()
        marker_versions: list[int] = []
        for broker in (await cluster.refresh()).brokers:
            connection = await cluster.connection(broker.broker_id)
            marker_version_range = connection.versions.get(ClientApi.WRITE_TXN_MARKERS)
            marker_versions.append(
                -1 if marker_version_range is None else marker_version_range.highest
            )
            verification |= await _verification_of(cluster, broker.broker_id)
    return Generation(
        transaction_version=features.level("transaction.version"),
        verification=frozenset(verification),
        has_strict_markers=min(marker_versions, default=-1) >= _STRICT_MARKERS_SINCE,
    )


async def _verification_of(cluster: Cluster, broker_id: int) -> set[bool]:
    """Whether a broker verifies transactions; empty if unknown. Releases before 3.6 lack the
    config.
    """
    try:
        return {await Admin(cluster).config_at(broker_id, _VERIFICATION) == "true"}
    except ClientError:
        return set()
