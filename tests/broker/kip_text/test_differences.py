"""Every row of ``kip_text.differences`` over real sockets: through the ordinary listener as Kafka
ships it, through the other one as the text has it.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

import pytest

from tests.broker.kip_text.rows import SHOWN, shows
from tests.support.broker_api import KEYS, batch, transaction
from tests.support.kip_text_listeners import (
    BOTH,
    SHIPPED,
    TEXT,
    NamedListenerClient,
    kip_text_cluster,
)
from txnsim.api.kip_text.differences import DIFFERENCES
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Hold
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.releases.rules import LATEST_RULES
from txnsim.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from txnsim.security.options import SecurityOptions
from txnsim.security.principals import ANONYMOUS
from txnsim.txn.log_format import decode_record
from txnsim.txn.state import TransactionState, TxnTransition
from txnsim.types import BrokerId
from txnsim.wire.batch import iter_batches, read_records
from txnsim.wire.messages.write_txn_markers_kip_664 import WriteTxnMarkersRequest

E = ErrorCode
HOUR_MS: Final = 3_600_000
END_TXN_V2: Final = {SHIPPED: 5, TEXT: 4}
"""The version that ends a transaction under transactions v2."""


def test_every_row_has_a_test_or_a_reason() -> None:
    importlib.import_module("tests.broker.kip_text.test_client")  # it shows rows as well
    rows = [difference.row for difference in DIFFERENCES]
    assert len(rows) == len(set(rows))
    assert set(rows) >= SHOWN
    with_reason = {difference.row for difference in DIFFERENCES if difference.unheld is not None}
    assert set(rows) - SHOWN == with_reason


# What is spoken where


@shows("890-add-versions")
@pytest.mark.parametrize(
    ("listener", "add", "end", "describe"),
    [(SHIPPED, (0, 5), (0, 5), (0, 0)), (TEXT, (0, 4), (0, 4), (0, 1))],
)
async def test_each_listener_advertises_what_it_speaks(
    listener: str, add: tuple[int, int], end: tuple[int, int], describe: tuple[int, int]
) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        answer = await client.ask(
            "ApiVersions", 3, client_software_name="test", client_software_version="1"
        )
        ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        assert ranges[KEYS["AddPartitionsToTxn"]] == add
        assert ranges[KEYS["EndTxn"]] == end
        assert ranges[KEYS["DescribeTransactions"]] == describe
        assert ranges[KEYS["WriteTxnMarkers"]] == (1, 2)
        identity = await client.producer("t")
        refusal_answer = await client.ask(
            "AddPartitionsToTxn", 5, **transaction("t", identity, {"orders": [0]})
        )
        assert (refusal_answer is None) == (listener == TEXT)


async def test_without_the_option_there_is_one_listener() -> None:
    async with kip_text_cluster(follows_kip_text=False) as cluster:
        assert cluster.kip_text_bootstrap is None
        assert cluster.metadata.image.brokers[BrokerId(1)].addresses == {}


@pytest.mark.parametrize("listener", BOTH)
async def test_a_listener_leads_to_the_listeners_of_its_name(listener: str) -> None:
    async with kip_text_cluster(brokers=3) as cluster:
        client = NamedListenerClient(cluster, listener)
        address_by_broker = {
            broker.broker_id: broker.address(listener)
            for broker in cluster.metadata.image.alive_brokers()
        }
        for api, version, fields in (("Metadata", 9, {"topics": []}), ("DescribeCluster", 0, {})):
            answer = await client.ask(api, version, **fields)
            answered_addresses = {
                getattr(broker, "node_id", getattr(broker, "broker_id", None)): (
                    broker.host,
                    broker.port,
                )
                for broker in answer.brokers
            }
            assert answered_addresses == address_by_broker
        coordinator = await client.until("FindCoordinator", 2, key="t", key_type=1)
        assert (coordinator.host, coordinator.port) == address_by_broker[coordinator.node_id]
        topic = cluster.metadata.image.topics["orders"]
        wrong_broker = next(
            broker for broker in address_by_broker if broker != topic.partitions[0].leader
        )
        refusal_answer = await client.ask(
            "Produce",
            10,
            broker=wrong_broker,
            acks=1,
            topic_data=[
                {
                    "name": "orders",
                    "partition_data": [{"index": 0, "records": batch()}],
                }
            ],
        )
        (leader,) = refusal_answer.node_endpoints
        assert (leader.host, leader.port) == address_by_broker[leader.node_id]


# KIP-664


def _markers(
    identity: tuple[int, int],
    *,
    coordinator_epoch: int,
    start: int = -1,
    committed: bool = False,
    transaction_version: int = 0,
) -> dict[str, Any]:
    return {
        "markers": [
            {
                "producer_id": identity[0],
                "producer_epoch": identity[1],
                "transaction_result": committed,
                "coordinator_epoch": coordinator_epoch,
                "transaction_version": transaction_version,
                "topics": [
                    {
                        "name": "orders",
                        "partition_indexes": [0],
                        "partitions": [{"partition_index": 0, "txn_start_offset": start}],
                    }
                ],
            }
        ]
    }


async def _marker_error(
    client: NamedListenerClient, version: int, **values: Any
) -> ErrorCode | None:
    answer = await client.ask(
        "WriteTxnMarkers",
        version,
        request_class=WriteTxnMarkersRequest if (client.listener, version) == (TEXT, 1) else None,
        **values,
    )
    if answer is None:
        return None
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


@shows("664-markers")
async def test_an_operator_may_name_the_transaction_that_is_to_be_aborted() -> None:
    async with kip_text_cluster() as cluster:
        shipped_client, text = (
            NamedListenerClient(cluster, SHIPPED),
            NamedListenerClient(cluster, TEXT),
        )
        producer_id, epoch = await text.open_transaction("t")
        start = (await text.active_producer(producer_id)).current_txn_start_offset
        # A coordinator has been here: epoch -1 is behind it.
        await _marker_error(
            shipped_client, 1, **_markers((producer_id, epoch), coordinator_epoch=7)
        )
        await text.add("t", (producer_id, epoch))
        assert await text.produce(10, "t", (producer_id, epoch), sequence=1) is E.none
        start = (await text.active_producer(producer_id)).current_txn_start_offset

        def operator(*, epoch: int = epoch, start: int = start) -> dict[str, Any]:
            return _markers((producer_id, epoch), coordinator_epoch=-1, start=start)

        assert (
            await _marker_error(shipped_client, 1, **operator()) is E.transaction_coordinator_fenced
        )
        assert await _marker_error(text, 1, **operator(start=start + 1)) is E.invalid_txn_state
        assert await _marker_error(text, 1, **operator(epoch=epoch + 1)) is E.invalid_producer_epoch
        # Without a start the shipped rules hold there too.
        assert (
            await _marker_error(text, 1, **operator(start=-1)) is E.transaction_coordinator_fenced
        )
        assert await _marker_error(text, 1, **operator()) is E.none
        producer_state = await text.active_producer(producer_id)
        assert (producer_state.current_txn_start_offset, producer_state.coordinator_epoch) == (
            -1,
            7,
        )
        assert await _marker_error(text, 1, **operator()) is E.invalid_txn_state


@shows("664-markers")
async def test_shipped_markers_take_a_higher_epoch_and_ask_for_no_transaction() -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, SHIPPED)
        producer_id, epoch = await client.producer("t")
        for _ in range(2):
            values = _markers((producer_id, epoch + 1), coordinator_epoch=0)
            assert await _marker_error(client, 1, **values) is E.none


@shows("664-authorization")
@pytest.mark.parametrize("listener", BOTH)
@pytest.mark.parametrize(
    "operation", [AclOperation.ALTER, AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE]
)
async def test_only_who_acts_as_a_broker_may_write_markers_by_the_text(
    listener: str, operation: AclOperation
) -> None:
    granted_binding = AclBinding(
        resource_type=ResourceType.CLUSTER,
        name=CLUSTER_NAME,
        pattern=PatternType.LITERAL,
        principal=ANONYMOUS,
        host=WILDCARD,
        operation=operation,
        permission=Permission.ALLOW,
    )
    security = SecurityOptions(has_authorizer=True, acls=(granted_binding,))
    async with kip_text_cluster(security=security) as cluster:
        error = await _marker_error(
            NamedListenerClient(cluster, listener), 1, **_markers((7, 0), coordinator_epoch=0)
        )
    enough = {
        SHIPPED: (AclOperation.ALTER, AclOperation.CLUSTER_ACTION),
        TEXT: (AclOperation.CLUSTER_ACTION,),
    }
    assert error is (E.none if operation in enough[listener] else E.cluster_authorization_failed)


async def test_the_layout_that_was_shipped_ends_the_connection_at_the_other_listener() -> None:
    async with kip_text_cluster() as cluster:
        answer = await NamedListenerClient(cluster, TEXT).ask(
            "WriteTxnMarkers", 1, **_markers((7, 0), coordinator_epoch=0)
        )
        assert answer is None


@shows("664-start-time")
async def test_a_finished_transaction_has_no_start_by_the_text() -> None:
    async with kip_text_cluster() as cluster:
        shipped_client, text = (
            NamedListenerClient(cluster, SHIPPED),
            NamedListenerClient(cluster, TEXT),
        )
        await text.open_transaction("open")
        await text.run_transaction("over")
        for client in (shipped_client, text):
            assert (await client.describe("open")).transaction_start_time is not None
        assert (await shipped_client.describe("over")).transaction_start_time is not None
        description = await text.describe("over")
        assert (description.transaction_start_time, description.topics) == (None, ())


# KIP-890


@shows("890-end-txn")
async def test_the_end_returns_the_bumped_identity_in_another_version() -> None:
    async with kip_text_cluster() as cluster:
        shipped_client, text = (
            NamedListenerClient(cluster, SHIPPED),
            NamedListenerClient(cluster, TEXT),
        )
        first_identity = await shipped_client.open_transaction("a")
        answer = await shipped_client.end(4, "a", first_identity, committed=True, read_as=4)
        assert answer.error_code is E.none
        await shipped_client.wait_for_state("a", "CompleteCommit")
        assert (await shipped_client.describe("a")).producer_epoch == first_identity[1]

        second_identity = await text.open_transaction("b")
        answer = await text.end(4, "b", second_identity, committed=True, read_as=5)
        assert answer.error_code is E.none
        assert (answer.producer_id, answer.producer_epoch) == (
            second_identity[0],
            second_identity[1] + 1,
        )
        assert (await text.describe("b")).producer_epoch == second_identity[1] + 1
        fenced_answer = await text.end(
            4, "b", (second_identity[0], second_identity[1] - 1), committed=True, read_as=5
        )
        assert fenced_answer.error_code is E.producer_fenced
        assert (fenced_answer.producer_id, fenced_answer.producer_epoch) == (-1, -1)
        assert await text.end(5, "b", second_identity, committed=True) is None


@shows("890-versions")
@pytest.mark.parametrize(
    ("listener", "error"), [(SHIPPED, E.transaction_abortable), (TEXT, E.none)]
)
async def test_produce_11_adds_implicitly_by_the_text(listener: str, error: ErrorCode) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        identity = await client.producer("t")
        assert await client.produce(11, "t", identity) is error
        state = "Ongoing" if error is E.none else "Empty"
        assert (await client.describe("t")).transaction_state == state


@shows("890-abortable")
@pytest.mark.parametrize("listener", BOTH)
async def test_an_unknown_transaction_is_abortable_by_the_text(listener: str) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        producer_id, epoch = await client.producer("t")
        someone_else = (producer_id + 1, epoch)
        expected_error = (
            E.invalid_producer_id_mapping if listener == SHIPPED else E.transaction_abortable
        )
        for version in (11, 12):
            assert await client.produce(version, "t", someone_else) is expected_error
        assert await client.produce(10, "t", someone_else) is E.invalid_producer_id_mapping


@shows("890-abortable")
@pytest.mark.parametrize("listener", BOTH)
async def test_a_failure_of_the_server_is_abortable_by_the_text(listener: str) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        identity = await client.producer("t")
        expected_error = E.unknown_server_error if listener == SHIPPED else E.transaction_abortable
        configs = [{"name": "max.message.bytes", "config_operation": 0, "value": "1"}]
        alter_answer = await client.ask(
            "IncrementalAlterConfigs",
            1,
            resources=[
                {
                    "resource_type": 2,
                    "resource_name": "__transaction_state",
                    "configs": configs,
                }
            ],
        )
        assert alter_answer.responses[0].error_code is E.none
        version = END_TXN_V2[listener]
        end = await client.end(version, "t", identity, committed=False, read_as=5)
        assert end.error_code is expected_error
        init: dict[str, Any] = {
            "transactional_id": "t",
            "transaction_timeout": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        assert (await client.ask("InitProducerId", 5, **init)).error_code is expected_error
        assert (await client.ask("InitProducerId", 4, **init)).error_code is E.unknown_server_error
        offsets: dict[str, Any] = {
            "transactional_id": "t",
            "producer_id": identity[0],
            "producer_epoch": identity[1],
            "group_id": "g",
        }
        assert (await client.ask("AddOffsetsToTxn", 4, **offsets)).error_code is expected_error
        add_answer = await client.ask(
            "AddPartitionsToTxn", 4, **transaction("t", identity, {"orders": [0]})
        )
        (result,) = add_answer.results_by_transaction[0].topic_results[0].results_by_partition
        assert result.partition_error_code is expected_error


@shows("890-verification")
@pytest.mark.parametrize(
    ("listener", "error"), [(SHIPPED, E.transaction_abortable), (TEXT, E.invalid_txn_state)]
)
async def test_what_the_coordinator_says_of_a_partition_outside(
    listener: str, error: ErrorCode
) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        identity = await client.producer("t")
        values = transaction("t", identity, {"orders": [0]}, is_verification=True)
        answer = await client.ask("AddPartitionsToTxn", 4, **values)
        (result,) = answer.results_by_transaction[0].topic_results[0].results_by_partition
        assert result.partition_error_code is error
        assert await client.produce(10, "t", identity) is E.invalid_txn_state


@shows("890-last-identity")
@pytest.mark.parametrize("follows_kip_text", [False, True])
async def test_a_coordinator_that_loads_knows_the_last_identity_by_the_text(
    follows_kip_text: bool,
) -> None:
    async with kip_text_cluster(follows_kip_text=follows_kip_text, brokers=3) as cluster:
        client = NamedListenerClient(cluster, SHIPPED)
        producer_id, epoch = await client.run_transaction("t")
        client.move_coordinator("t")
        answer = await client.until(
            "InitProducerId",
            4,
            broker=await client.coordinator("t"),
            transactional_id="t",
            transaction_timeout=60_000,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        if follows_kip_text:
            assert answer.error_code is E.none
            assert (answer.producer_id, answer.producer_epoch) == (producer_id, epoch + 1)
        else:
            assert answer.error_code is E.producer_fenced


@shows("890-tags-cleared")
@pytest.mark.parametrize("follows_kip_text", [False, True])
async def test_the_previous_id_is_logged_only_around_the_end_by_the_text(
    follows_kip_text: bool,
) -> None:
    async with kip_text_cluster(follows_kip_text=follows_kip_text) as cluster:
        client = NamedListenerClient(cluster, SHIPPED)
        producer_id, _ = await client.run_transaction("t")
        logged = {
            record.state: record.prev_producer_id
            for record in await _logged_transitions(client, "t")
        }
        cleared = -1 if follows_kip_text else producer_id
        assert logged == {
            TransactionState.EMPTY: cleared,
            TransactionState.ONGOING: cleared,
            TransactionState.PREPARE_COMMIT: producer_id,
            TransactionState.COMPLETE_COMMIT: producer_id,
        }


async def _logged_transitions(
    client: NamedListenerClient, transactional_id: str
) -> list[TxnTransition]:
    home_partition = client.home(transactional_id)
    answer = await client.ask(
        "Fetch",
        12,
        max_wait=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[
            {
                "topic": home_partition.topic,
                "partitions": [
                    {
                        "partition": home_partition.partition,
                        "current_leader_epoch": -1,
                        "fetch_offset": 0,
                        "last_fetched_epoch": -1,
                        "log_start_offset": -1,
                        "partition_max_bytes": 1 << 20,
                    }
                ],
            }
        ],
    )
    batch_data = answer.responses[0].partitions[0].records
    return [
        transition
        for position, _ in iter_batches(batch_data)
        for record in read_records(batch_data, position)
        if isinstance(
            transition := decode_record(
                record.key or b"", record.value, release_rules=LATEST_RULES
            ),
            TxnTransition,
        )
    ]


@shows("890-empty-end")
@pytest.mark.parametrize("listener", BOTH)
async def test_an_end_without_partitions(listener: str) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        producer_id, epoch = await client.producer("t")
        version = END_TXN_V2[listener]
        commit = await client.end(version, "t", (producer_id, epoch), committed=True, read_as=5)
        assert commit.error_code is E.invalid_txn_state
        abort = await client.end(version, "t", (producer_id, epoch), committed=False, read_as=5)
        assert (abort.error_code, abort.producer_epoch) == (E.none, epoch + 1)


@shows("890-produce-retriable")
@pytest.mark.parametrize("listener", BOTH)
async def test_a_transaction_that_is_still_ending_makes_produce_wait(listener: str) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        producer_id, epoch = await client.open_transaction("t")
        cluster.injector.arm(
            FaultRule(
                id="markers",
                point=FaultPoint.PEER_REQUEST,
                action=Hold(),
                api="WriteTxnMarkers",
            )
        )
        version = END_TXN_V2[listener]
        await client.end(version, "t", (producer_id, epoch), committed=True, read_as=5)
        concurrent_error = (
            E.concurrent_transactions if listener == SHIPPED else E.not_enough_replicas
        )
        assert await client.produce(12, "t", (producer_id, epoch + 1)) is concurrent_error
        assert await client.produce(10, "t", (producer_id, epoch + 1)) is E.not_enough_replicas
        cluster.injector.disarm("markers")


@shows("890-versions")
@pytest.mark.parametrize(
    ("listener", "error"), [(SHIPPED, E.transaction_abortable), (TEXT, E.none)]
)
async def test_an_offset_commit_of_v4_adds_implicitly_by_the_text(
    listener: str, error: ErrorCode
) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        identity = await client.producer("t")
        assert await _commit(client, 4, identity) is error
        assert await _commit(client, 3, (identity[0] + 1, 0)) is E.invalid_producer_id_mapping


@shows("890-offset-commit", "890-verification-retriable")
@pytest.mark.parametrize("listener", BOTH)
async def test_what_passes_is_an_unavailable_coordinator_to_an_offset_commit(
    listener: str,
) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        producer_id, epoch = await client.open_transaction("t")
        await _commit(client, 3, (producer_id + 1, epoch))
        cluster.injector.arm(
            FaultRule(
                id="markers", point=FaultPoint.PEER_REQUEST, action=Hold(), api="WriteTxnMarkers"
            )
        )
        version = END_TXN_V2[listener]
        await client.end(version, "t", (producer_id, epoch), committed=True, read_as=5)
        expected_error = (
            E.concurrent_transactions if listener == SHIPPED else E.coordinator_not_available
        )
        for version in (3, 4, 5):
            assert await _commit(client, version, (producer_id, epoch + 1)) is expected_error
        cluster.injector.disarm("markers")


async def _commit(
    client: NamedListenerClient, version: int, identity: tuple[int, int]
) -> ErrorCode:
    """Commit a group's position on ``orders`` in the transaction of ``t``."""
    coordinator = await client.until("FindCoordinator", 1, key="g", key_type=0)
    answer = await client.ask(
        "TxnOffsetCommit",
        version,
        broker=coordinator.node_id,
        transactional_id="t",
        group_id="g",
        producer_id=identity[0],
        producer_epoch=identity[1],
        generation_id=-1,
        topics=[{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    )
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@shows("890-sequence")
@pytest.mark.parametrize("listener", BOTH)
async def test_a_first_sequence_other_than_0_is_out_of_order(listener: str) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        identity = await client.producer("t")
        error = await client.produce(12, "t", identity, sequence=5)
        assert error is E.out_of_order_sequence_number


@shows("890-downgrade")
@pytest.mark.parametrize("follows_kip_text", [False, True])
async def test_lowering_the_level_under_a_live_transaction(follows_kip_text: bool) -> None:
    async with kip_text_cluster(follows_kip_text=follows_kip_text) as cluster:
        client = NamedListenerClient(cluster, SHIPPED)
        identity = await client.producer("t")
        assert await client.produce(12, "t", identity) is E.none
        lowered = await client.ask(
            "UpdateFeatures",
            1,
            timeout=1_000,
            feature_updates=[
                {"feature": "transaction.version", "max_version_level": 0, "upgrade_type": 2}
            ],
        )
        assert lowered.error_code is E.none
        answer = await client.end(5, "t", identity, committed=True)
        assert answer.error_code is (E.none if follows_kip_text else E.unsupported_version)
        if follows_kip_text:
            await client.wait_for_state("t", "CompleteCommit")


# KIP-994


async def _listed_ids(client: NamedListenerClient, version: int, **filters: Any) -> set[str]:
    answer = await client.ask("ListTransactions", version, **filters)
    assert answer.error_code is E.none
    return {transaction.transactional_id for transaction in answer.transaction_states}


@shows("994-duration")
async def test_a_duration_lets_through_what_is_running_by_the_text() -> None:
    async with kip_text_cluster(transaction_max_timeout_ms=10 * HOUR_MS) as cluster:
        shipped_client, text = (
            NamedListenerClient(cluster, SHIPPED),
            NamedListenerClient(cluster, TEXT),
        )
        await text.producer("empty")
        await text.run_transaction("over")
        await text.open_transaction("open")
        all_ids = {"empty", "over", "open"}
        for duration_ms in (-1, 0):
            assert await _listed_ids(text, 1, duration_filter=duration_ms) == all_ids
        assert await _listed_ids(shipped_client, 1, duration_filter=-1) == all_ids
        assert await _listed_ids(text, 1, duration_filter=HOUR_MS) == set()
        assert await _listed_ids(shipped_client, 1, duration_filter=HOUR_MS) == {"empty"}
        assert "over" in await _listed_ids(shipped_client, 1, duration_filter=1)
        assert await _listed_ids(text, 1, duration_filter=1) == {"open"}


@shows("994-last-update")
async def test_only_the_text_tells_the_time_of_the_last_update() -> None:
    async with kip_text_cluster() as cluster:
        shipped_client, text = (
            NamedListenerClient(cluster, SHIPPED),
            NamedListenerClient(cluster, TEXT),
        )
        await text.run_transaction("over")
        description = await text.describe("over", 1)
        assert description.error_code is E.none
        assert description.transaction_start_time <= description.transaction_last_update_time
        unknown_answer = await text.ask("DescribeTransactions", 1, transactional_ids=["no-such-id"])
        (state,) = unknown_answer.transaction_states
        assert state.error_code is E.transactional_id_not_found
        assert state.transaction_last_update_time is None
        refusal_answer = await shipped_client.ask(
            "DescribeTransactions", 1, transactional_ids=["over"]
        )
        assert refusal_answer is None


# Later KIPs, alike at both listeners


@shows("1152-pattern")
@pytest.mark.parametrize("listener", BOTH)
async def test_the_pattern_must_match_all_of_the_id(listener: str) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        for transactional_id in ("orders-1", "orders-12"):
            await client.producer(transactional_id)
        assert await _listed_ids(
            client, 2, duration_filter=-1, transactional_id_pattern="orders-."
        ) == {"orders-1"}


@shows("1228-markers")
@pytest.mark.parametrize("listener", BOTH)
async def test_a_marker_without_a_version_is_checked_leniently(listener: str) -> None:
    async with kip_text_cluster() as cluster:
        client = NamedListenerClient(cluster, listener)
        identity = await client.open_transaction("t")
        strict_marker = _markers(identity, coordinator_epoch=0, transaction_version=2)
        assert await _marker_error(client, 2, **strict_marker) is E.invalid_producer_epoch
        lenient = _markers(identity, coordinator_epoch=0)
        assert await _marker_error(client, 1, **lenient) is E.none
