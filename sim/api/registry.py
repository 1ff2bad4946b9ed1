"""Which handler answers which API, and what is advertised.

Adding an API: write ``sim/api/<name>.py`` (see ``api.request.Handler``), list it here, add its
test. What ApiVersions tells is
computed: our handlers' versions within the ranges of the emulated release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sim.api import (
    add_partitions_to_txn,
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_for_leader_epoch,
    produce,
    update_features,
    write_txn_markers,
)
from sim.api.request import ApiTable, Handler, nobody
from sim.cluster.image import CLIENT_LISTENER
from sim.releases.kafka_4_3 import RELEASE_4_3
from sim.wire.apis import api_name

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
    end_txn,
    write_txn_markers,
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
    list_partition_reassignments,
)

HANDLERS: Final[Mapping[int, Handler]] = {
    module.KEY: Handler(
        key=module.KEY,
        name=api_name(module.KEY),
        versions=module.VERSIONS,
        handle=module.handle,
        refuse=module.refuse,
        subject=getattr(module, "subject", nobody),
    )
    for module in _MODULES
}


def _accepted() -> dict[int, tuple[int, int]]:
    ranges = {}
    for key, handler in HANDLERS.items():
        low, high = RELEASE_4_3.api_versions[key]
        low = max(low, RELEASE_4_3.refused_below.get(key, low), handler.versions[0])
        ranges[key] = (low, min(high, handler.versions[1]))
    return ranges


ACCEPTED: Final[Mapping[int, tuple[int, int]]] = _accepted()
"""API key -> versions that are answered; anything else closes the connection."""

ADVERTISED: Final[Mapping[int, tuple[int, int]]] = {
    key: (RELEASE_4_3.api_versions[key][0] if key in RELEASE_4_3.refused_below else low, high)
    for key, (low, high) in ACCEPTED.items()
}
"""API key -> versions as ApiVersions tells them; lower than accepted only for Produce
(KAFKA-18659).
"""

SHIPPED: Final = ApiTable(
    listener=CLIENT_LISTENER, handlers=HANDLERS, accepted=ACCEPTED, advertised=ADVERTISED
)
"""What a broker's ordinary listener speaks: what Apache Kafka ships."""
