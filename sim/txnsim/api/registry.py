"""The handler of each API, and the advertised versions.

Adding an API: write its module in one of the folders (see ``api.request.Handler``), its row below
and its test. A module is imported with the first request for it, so the row repeats its versions.
ApiVersions lists computed ranges: our handlers' versions within the ranges of the emulated release.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from txnsim.api.request import ApiTable, Handler
from txnsim.metadata.image import CLIENT_LISTENER
from txnsim.releases import REFERENCE, RELEASES, Release

_MODULES: Final[Mapping[int, tuple[str, tuple[int, int]]]] = {
    0: ("_records.produce", (3, 13)),
    1: ("_records.fetch", (4, 18)),
    2: ("_records.list_offsets", (1, 11)),
    3: ("_partitions.metadata", (0, 13)),
    8: ("_groups.offset_commit", (2, 10)),
    9: ("_groups.offset_fetch", (1, 10)),
    10: ("nodes._find_coordinator", (0, 6)),
    11: ("_groups.join_group", (0, 9)),
    12: ("_groups.heartbeat", (0, 4)),
    13: ("_groups.leave_group", (0, 5)),
    14: ("_groups.sync_group", (0, 5)),
    15: ("_groups.describe_groups", (0, 6)),
    16: ("_groups.list_groups", (0, 5)),
    17: ("_identities.sasl_handshake", (0, 1)),
    18: ("nodes.api_versions", (0, 5)),
    19: ("_partitions.create_topics", (2, 7)),
    20: ("_partitions.delete_topics", (1, 6)),
    21: ("_records.delete_records", (0, 2)),
    22: ("_transactions.init_producer_id", (0, 6)),
    23: ("_records.offset_for_leader_epoch", (2, 4)),
    24: ("_transactions.add_partitions_to_txn", (0, 5)),
    25: ("_transactions.add_offsets_to_txn", (0, 4)),
    26: ("_transactions.end_txn", (0, 5)),
    27: ("_transactions.write_txn_markers", (1, 2)),
    28: ("_transactions.txn_offset_commit", (0, 6)),
    29: ("_identities.describe_acls", (1, 3)),
    30: ("_identities.create_acls", (1, 3)),
    31: ("_identities.delete_acls", (1, 3)),
    32: ("_configs.describe_configs", (1, 4)),
    33: ("_configs.alter_configs", (0, 2)),
    34: ("_partitions.alter_replica_log_dirs", (1, 2)),
    35: ("_partitions.describe_log_dirs", (1, 5)),
    36: ("_identities.sasl_authenticate", (0, 2)),
    37: ("_partitions.create_partitions", (0, 3)),
    38: ("_identities.create_delegation_token", (1, 3)),
    39: ("_identities.renew_delegation_token", (1, 2)),
    40: ("_identities.expire_delegation_token", (1, 2)),
    41: ("_identities.describe_delegation_token", (1, 3)),
    42: ("_groups.delete_groups", (0, 3)),
    43: ("_partitions.elect_leaders", (0, 2)),
    44: ("_configs.incremental_alter_configs", (0, 1)),
    45: ("_partitions.alter_partition_reassignments", (0, 1)),
    46: ("_partitions.list_partition_reassignments", (0, 0)),
    47: ("_groups.offset_delete", (0, 0)),
    48: ("_configs.describe_client_quotas", (0, 1)),
    49: ("_configs.alter_client_quotas", (0, 1)),
    50: ("_identities.describe_user_scram_credentials", (0, 0)),
    51: ("_identities.alter_user_scram_credentials", (0, 0)),
    55: ("nodes._describe_quorum", (0, 2)),
    57: ("nodes._update_features", (0, 2)),
    60: ("nodes._describe_cluster", (0, 2)),
    61: ("_transactions.describe_producers", (0, 0)),
    64: ("nodes._unregister_broker", (0, 0)),
    65: ("_transactions.describe_transactions", (0, 0)),
    66: ("_transactions.list_transactions", (0, 2)),
    68: ("_groups.consumer_group_heartbeat", (0, 1)),
    69: ("_groups.consumer_group_describe", (0, 1)),
    71: ("nodes._get_telemetry_subscriptions", (0, 0)),
    72: ("nodes._push_telemetry", (0, 0)),
    74: ("_configs.list_config_resources", (0, 1)),
    75: ("_partitions.describe_topic_partitions", (0, 0)),
}
"""API key -> the module of its handler, and the versions that it understands."""

HANDLERS: Final[Mapping[int, Handler]] = {
    key: Handler(key=key, module=f"txnsim.api.{module}", versions=versions)
    for key, (module, versions) in _MODULES.items()
}

TELEMETRY: Final = (71, 72)
"""API keys that a release has, but lists only where the broker takes client metrics."""
_LIST_CONFIG_RESOURCES: Final = 74


def _accepted(release: Release, *, unstable: bool, telemetry: bool) -> dict[int, tuple[int, int]]:
    """Versions that both the release and our handler of an API know, unstable ones and those of
    client metrics only if asked for.

    The lowest are ours in every release: no client needs versions that Kafka 4.0 has removed
    (KIP-896), and Kafka 3.x had them all.
    """
    ranges = {}
    if telemetry and _LIST_CONFIG_RESOURCES in release.api_versions:
        # All of KIP-714 came with the same release.
        ranges.update({key: HANDLERS[key].versions for key in TELEMETRY})
    for key, handler in HANDLERS.items():
        if key not in release.api_versions:
            continue
        lowest = REFERENCE.api_versions.get(key, release.api_versions[key])[0]
        low = max(lowest, REFERENCE.refused_below.get(key, lowest), handler.versions[0])
        highest = release.api_versions[key][1]
        if unstable:
            highest = release.unstable.get(key, highest)
        high = min(highest, handler.versions[1])
        if low <= high:
            ranges[key] = (low, high)
    return ranges


def _advertised(accepted: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """As ApiVersions lists them; lower than accepted only for Produce (KAFKA-18659)."""
    return {
        key: (REFERENCE.api_versions[key][0] if key in REFERENCE.refused_below else low, high)
        for key, (low, high) in accepted.items()
    }


def _table(release: Release, *, unstable: bool, telemetry: bool) -> ApiTable:
    accepted = _accepted(release, unstable=unstable, telemetry=telemetry)
    return ApiTable(
        listener=CLIENT_LISTENER,
        handlers={key: HANDLERS[key] for key in accepted},
        accepted=accepted,
        advertised=_advertised(accepted),
    )


def shipped(release: Release, *, unstable: bool = False, telemetry: bool = False) -> ApiTable:
    """What the ordinary listener of a broker of this release speaks.

    Args:
        release: The broker's.
        unstable: With the versions that are not stable yet (``unstable.api.versions.enable``).
        telemetry: With those of client metrics: the broker takes them.
    """
    return _shipped(release.name, unstable=unstable, telemetry=telemetry)


@cache
def _shipped(name: str, *, unstable: bool, telemetry: bool) -> ApiTable:
    return _table(RELEASES[name], unstable=unstable, telemetry=telemetry)


SHIPPED: Final = shipped(REFERENCE)
"""What a broker's ordinary listener speaks: what Apache Kafka ships."""
ACCEPTED: Final = SHIPPED.accepted
ADVERTISED: Final = SHIPPED.advertised
