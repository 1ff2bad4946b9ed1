"""The handler of each API, and the advertised versions.

Adding an API: write ``sim/txnsim/api/<name>.py`` (see ``api.request.Handler``), list it here, add
its test. ApiVersions lists computed ranges: our handlers' versions within the ranges of the
emulated release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from txnsim.api.configs import (
    alter_client_quotas,
    alter_configs,
    describe_client_quotas,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from txnsim.api.groups import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from txnsim.api.identities import (
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)
from txnsim.api.nodes import (
    api_versions,
    describe_cluster,
    describe_quorum,
    find_coordinator,
    get_telemetry_subscriptions,
    push_telemetry,
    unregister_broker,
    update_features,
)
from txnsim.api.partitions import (
    alter_partition_reassignments,
    alter_replica_log_dirs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_log_dirs,
    describe_topic_partitions,
    elect_leaders,
    list_partition_reassignments,
    metadata,
)
from txnsim.api.records import (
    delete_records,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from txnsim.api.request import ApiTable, Handler, no_subject
from txnsim.api.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from txnsim.metadata.image import CLIENT_LISTENER
from txnsim.releases import RELEASE_4_3, RELEASES, Release
from txnsim.wire.apis import api_name

_MODULES: Final = (
    produce,
    fetch,
    list_offsets,
    metadata,
    find_coordinator,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    create_partitions,
    init_producer_id,
    offset_for_leader_epoch,
    add_partitions_to_txn,
    add_offsets_to_txn,
    end_txn,
    write_txn_markers,
    txn_offset_commit,
    offset_commit,
    offset_fetch,
    join_group,
    heartbeat,
    leave_group,
    sync_group,
    describe_groups,
    list_groups,
    delete_groups,
    offset_delete,
    consumer_group_heartbeat,
    consumer_group_describe,
    describe_configs,
    alter_configs,
    incremental_alter_configs,
    update_features,
    describe_cluster,
    describe_producers,
    describe_transactions,
    list_transactions,
    describe_topic_partitions,
    describe_client_quotas,
    describe_log_dirs,
    elect_leaders,
    list_config_resources,
    alter_client_quotas,
    alter_partition_reassignments,
    list_partition_reassignments,
    alter_replica_log_dirs,
    create_delegation_token,
    renew_delegation_token,
    expire_delegation_token,
    describe_delegation_token,
    describe_quorum,
    unregister_broker,
    sasl_handshake,
    sasl_authenticate,
    describe_acls,
    create_acls,
    delete_acls,
    describe_user_scram_credentials,
    alter_user_scram_credentials,
    get_telemetry_subscriptions,
    push_telemetry,
)

HANDLERS: Final[Mapping[int, Handler]] = {
    module.KEY: Handler(
        key=module.KEY,
        name=api_name(module.KEY),
        versions=module.VERSIONS,
        handle=module.handle,
        refuse=module.refuse,
        subject=getattr(module, "subject", no_subject),
        check=getattr(module, "check", None),
    )
    for module in _MODULES
}


TELEMETRY: Final = (get_telemetry_subscriptions.KEY, push_telemetry.KEY)
"""API keys that a release has, but lists only where the broker takes client metrics."""


def _accepted(release: Release, *, unstable: bool, telemetry: bool) -> dict[int, tuple[int, int]]:
    """Versions that both the release and our handler of an API know, unstable ones and those of
    client metrics only if asked for.

    The lowest are ours in every release: no client needs versions that Kafka 4.0 has removed
    (KIP-896), and Kafka 3.x had them all.
    """
    ranges = {}
    if telemetry and list_config_resources.KEY in release.api_versions:
        # All of KIP-714 came with the same release.
        ranges.update({key: HANDLERS[key].versions for key in TELEMETRY})
    for key, handler in HANDLERS.items():
        if key not in release.api_versions:
            continue
        lowest = RELEASE_4_3.api_versions.get(key, release.api_versions[key])[0]
        low = max(lowest, RELEASE_4_3.refused_below.get(key, lowest), handler.versions[0])
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
        key: (RELEASE_4_3.api_versions[key][0] if key in RELEASE_4_3.refused_below else low, high)
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


_TABLES: Final = {
    (name, unstable, telemetry): _table(release, unstable=unstable, telemetry=telemetry)
    for name, release in RELEASES.items()
    for unstable in (False, True)
    for telemetry in (False, True)
}


def shipped(release: Release, *, unstable: bool = False, telemetry: bool = False) -> ApiTable:
    """What the ordinary listener of a broker of this release speaks.

    Args:
        release: The broker's.
        unstable: With the versions that are not stable yet (``unstable.api.versions.enable``).
        telemetry: With those of client metrics: the broker takes them.
    """
    return _TABLES[release.name, unstable, telemetry]


SHIPPED: Final = shipped(RELEASE_4_3)
"""What a broker's ordinary listener speaks: what Apache Kafka ships."""
ACCEPTED: Final = SHIPPED.accepted
ADVERTISED: Final = SHIPPED.advertised
