"""The handler of each API, and the advertised versions.

Adding an API: write its module in one of the folders (see ``api.request.Handler``), its row below
and its test. A module is imported with the first request for it. A handler understands every
version that there are messages for (``wire.registry``). ApiVersions lists those that the emulated
release has.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from txnsim.api.request import ApiTable, Handler
from txnsim.metadata.image import CLIENT_LISTENER
from txnsim.releases import REFERENCE, RELEASES, Release

_MODULE_NAMES: Final[Mapping[int, str]] = {
    0: "_records.produce",
    1: "_records.fetch",
    2: "_records.list_offsets",
    3: "_partitions.metadata",
    8: "_groups.offset_commit",
    9: "_groups.offset_fetch",
    10: "nodes._find_coordinator",
    11: "_groups.join_group",
    12: "_groups.heartbeat",
    13: "_groups.leave_group",
    14: "_groups.sync_group",
    15: "_groups.describe_groups",
    16: "_groups.list_groups",
    17: "_identities.sasl_handshake",
    18: "nodes.api_versions",
    19: "_partitions.create_topics",
    20: "_partitions.delete_topics",
    21: "_records.delete_records",
    22: "_transactions.init_producer_id",
    23: "_records.offset_for_leader_epoch",
    24: "_transactions.add_partitions_to_txn",
    25: "_transactions.add_offsets_to_txn",
    26: "_transactions.end_txn",
    27: "_transactions.write_txn_markers",
    28: "_transactions.txn_offset_commit",
    29: "_identities.describe_acls",
    30: "_identities.create_acls",
    31: "_identities.delete_acls",
    32: "_configs.describe_configs",
    33: "_configs.alter_configs",
    34: "_partitions.alter_replica_log_dirs",
    35: "_partitions.describe_log_dirs",
    36: "_identities.sasl_authenticate",
    37: "_partitions.create_partitions",
    38: "_identities.create_delegation_token",
    39: "_identities.renew_delegation_token",
    40: "_identities.expire_delegation_token",
    41: "_identities.describe_delegation_token",
    42: "_groups.delete_groups",
    43: "_partitions.elect_leaders",
    44: "_configs.incremental_alter_configs",
    45: "_partitions.alter_partition_reassignments",
    46: "_partitions.list_partition_reassignments",
    47: "_groups.offset_delete",
    48: "_configs.describe_client_quotas",
    49: "_configs.alter_client_quotas",
    50: "_identities.describe_user_scram_credentials",
    51: "_identities.alter_user_scram_credentials",
    55: "nodes._describe_quorum",
    57: "nodes._update_features",
    60: "nodes._describe_cluster",
    61: "_transactions.describe_producers",
    64: "nodes._unregister_broker",
    65: "_transactions.describe_transactions",
    66: "_transactions.list_transactions",
    68: "_groups.consumer_group_heartbeat",
    69: "_groups.consumer_group_describe",
    71: "nodes._get_telemetry_subscriptions",
    72: "nodes._push_telemetry",
    74: "_configs.list_config_resources",
    75: "_partitions.describe_topic_partitions",
    76: "_groups.share_group_heartbeat",
    77: "_groups.share_group_describe",
    78: "_records.share_fetch",
    79: "_records.share_acknowledge",
    83: "_share_states.initialize_share_group_state",
    84: "_share_states.read_share_group_state",
    85: "_share_states.write_share_group_state",
    86: "_share_states.delete_share_group_state",
    87: "_share_states.read_share_group_state_summary",
    88: "_groups.streams_group_heartbeat",
    89: "_groups.streams_group_describe",
    90: "_groups.describe_share_group_offsets",
    91: "_groups.alter_share_group_offsets",
    92: "_groups.delete_share_group_offsets",
    93: "_groups.streams_group_topology_description_update",
}
"""API key -> module of its handler."""

HANDLERS: Final[Mapping[int, Handler]] = {
    api_key: Handler(api_key=api_key, module=f"txnsim.api.{module}")
    for api_key, module in _MODULE_NAMES.items()
}

TELEMETRY: Final = (71, 72)
"""API keys that a release has and answers, but lists only where the broker takes client metrics."""
_LIST_CONFIG_RESOURCES: Final = 74


def _accepted_versions(
    release: Release, *, has_unstable_versions: bool
) -> dict[int, tuple[int, int]]:
    """API key -> versions that both the release and our handler know; unstable ones only on
    request.

    The lowest version is ours in every release: no client needs the versions that Kafka 4.0 has
    removed (KIP-896), and Kafka 3.x still had them.
    """
    ranges = {}
    if _LIST_CONFIG_RESOURCES in release.api_versions:
        # All of KIP-714 came with the same release.
        ranges.update(dict.fromkeys(TELEMETRY, (0, release.telemetry_version)))
    for api_key, handler in HANDLERS.items():
        if api_key not in release.api_versions:
            continue
        lowest = REFERENCE.api_versions.get(api_key, release.api_versions[api_key])[0]
        lowest_accepted = max(
            lowest, REFERENCE.refused_below.get(api_key, lowest), handler.versions[0]
        )
        highest = release.api_versions[api_key][1]
        if has_unstable_versions:
            highest = release.unstable.get(api_key, highest)
        highest_accepted = min(highest, handler.versions[1])
        if lowest_accepted <= highest_accepted:
            ranges[api_key] = (lowest_accepted, highest_accepted)
    return ranges


def _advertised_versions(
    accepted_versions: Mapping[int, tuple[int, int]], *, has_telemetry: bool
) -> dict[int, tuple[int, int]]:
    """The versions that ApiVersions lists; lower than the accepted ones only for Produce
    (KAFKA-18659). The APIs of client metrics are listed only on request.
    """
    return {
        api_key: (
            REFERENCE.api_versions[api_key][0] if api_key in REFERENCE.refused_below else lowest,
            highest,
        )
        for api_key, (lowest, highest) in accepted_versions.items()
        if has_telemetry or api_key not in TELEMETRY
    }


def _build_table(release: Release, *, has_unstable_versions: bool, has_telemetry: bool) -> ApiTable:
    accepted_versions = _accepted_versions(release, has_unstable_versions=has_unstable_versions)
    return ApiTable(
        listener=CLIENT_LISTENER,
        handlers={api_key: HANDLERS[api_key] for api_key in accepted_versions},
        accepted=accepted_versions,
        advertised=_advertised_versions(accepted_versions, has_telemetry=has_telemetry),
    )


def shipped_apis(
    release: Release, *, has_unstable_versions: bool = False, has_telemetry: bool = False
) -> ApiTable:
    """The APIs of the ordinary listener of a broker of this release.

    Args:
        release: The broker's release.
        has_unstable_versions: Whether to include versions that are not stable yet
            (``unstable.api.versions.enable``).
        has_telemetry: Whether ApiVersions lists the APIs of client metrics, too.
    """
    return _cached_table(
        release.name, has_unstable_versions=has_unstable_versions, has_telemetry=has_telemetry
    )


@cache
def _cached_table(
    release_name: str, *, has_unstable_versions: bool, has_telemetry: bool
) -> ApiTable:
    return _build_table(
        RELEASES[release_name],
        has_unstable_versions=has_unstable_versions,
        has_telemetry=has_telemetry,
    )


SHIPPED: Final = shipped_apis(REFERENCE)
"""The APIs of the ordinary listener, as Apache Kafka ships them in the reference release."""
ACCEPTED: Final = SHIPPED.accepted
ADVERTISED: Final = SHIPPED.advertised
