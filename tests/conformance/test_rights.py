"""Which rights each request of transactions asks for: exactly those of the table suffice, and no
others do, in the simulator and at a real broker with StandardAuthorizer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from tests.conformance.security import kafka, simulator
from tests.docs import ROOT
from tests.support.broker_api import KEYS
from tests.support.denials import GuardedBroker
from tests.support.logs import batch
from tests.support.patience import until
from tests.support.security import acl
from txnsim.security.acls import CLUSTER_NAME, AclBinding, AclOperation, ResourceType
from txnsim.wire.error_codes import errors_of

TXN, GROUP = ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP
CLUSTER, TOPIC = ResourceType.CLUSTER, ResourceType.TOPIC
TRANSACTION_DENIED: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
GROUP_DENIED: Final = "GROUP_AUTHORIZATION_FAILED"
TOPIC_DENIED: Final = "TOPIC_AUTHORIZATION_FAILED"
CLUSTER_DENIED: Final = "CLUSTER_AUTHORIZATION_FAILED"
LEFT_OUT: Final = "left out"
"""No error: what may not be seen is not in the answer."""

_DESCRIBING: Final = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DELETE,
    AclOperation.ALTER,
)
"""Each of them includes DESCRIBE."""
_OPERATIONS: Final = {
    TOPIC: (
        *_DESCRIBING,
        AclOperation.CREATE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    GROUP: (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE),
    CLUSTER: (
        *(
            AclOperation.CREATE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.CLUSTER_ACTION,
        ),
        *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE),
    ),
    TXN: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.TWO_PHASE_COMMIT),
}
"""What can be granted on each kind of resource (AclEntry.supportedOperations)."""
_NAMES: Final = {TOPIC: "orders", GROUP: "g", CLUSTER: CLUSTER_NAME, TXN: "tx"}

Right = tuple[ResourceType, AclOperation]


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """A right that a request needs, and Kafka's error without the right."""

    any_of: tuple[Right, ...]
    denied: str
    """Kafka's error without it, or ``LEFT_OUT``."""

    def others(self) -> tuple[AclBinding, ...]:
        denying_bindings = []
        for operation_kind, operations in _OPERATIONS.items():
            allowed_operations = {
                operation for right_kind, operation in self.any_of if right_kind == operation_kind
            }
            if AclOperation.DESCRIBE in allowed_operations:
                allowed_operations |= set(_DESCRIBING)
            name = CLUSTER_NAME if operation_kind == CLUSTER else "*"
            denied_operations = (
                [operation for operation in operations if operation not in allowed_operations]
                if allowed_operations
                else [AclOperation.ALL]
            )
            denying_bindings += [
                acl(operation_kind, name, operation) for operation in denied_operations
            ]
        return tuple(denying_bindings)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A request with the rights that it needs."""

    api: str
    version: int
    values: dict[str, Any]
    needs: tuple[Need, ...]
    form: str = ""
    """Which one, where an API has several."""

    @property
    def name(self) -> str:
        """The test's name."""
        return f"{self.api} {self.form}".strip()

    def ways(self) -> Iterator[tuple[AclBinding, ...]]:
        """Every choice of rights that suffices, with nothing to spare."""
        for rights in itertools.product(*(need.any_of for need in self.needs)):
            yield tuple(
                acl(resource_type, _NAMES[resource_type], operation)
                for resource_type, operation in rights
            )


def _need(kind: ResourceType, operation: AclOperation, denied: str) -> Need:
    return Need(any_of=((kind, operation),), denied=denied)


WRITE_TXN: Final = _need(TXN, AclOperation.WRITE, TRANSACTION_DENIED)
READ_GROUP: Final = _need(GROUP, AclOperation.READ, GROUP_DENIED)
WRITE_TOPIC: Final = _need(TOPIC, AclOperation.WRITE, TOPIC_DENIED)
READ_TOPIC: Final = _need(TOPIC, AclOperation.READ, TOPIC_DENIED)

_BY_ID: Final = {"producer_id": 1, "producer_epoch": 0}
_POSITIONS: Final = [{"name": "orders", "partitions": [{"partition_index": 0}]}]

ROWS: Final = (
    Row(
        api="FindCoordinator",
        form="of a transactional id",
        version=3,
        values={"key_type": 1, "key": "tx"},
        needs=(_need(TXN, AclOperation.DESCRIBE, TRANSACTION_DENIED),),
    ),
    Row(
        api="InitProducerId",
        form="with a transactional id",
        version=4,
        values={"transactional_id": "tx", "transaction_timeout": 60_000},
        needs=(WRITE_TXN,),
    ),
    Row(
        api="InitProducerId",
        form="without one",
        version=4,
        values={"transactional_id": None},
        needs=(
            Need(
                any_of=((CLUSTER, AclOperation.IDEMPOTENT_WRITE), (TOPIC, AclOperation.WRITE)),
                denied=CLUSTER_DENIED,
            ),
        ),
    ),
    Row(
        api="AddPartitionsToTxn",
        form="of a client (v0–3)",
        version=3,
        values={
            "v3_and_below_transactional_id": "tx",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": "orders", "partitions": [0]}],
        },
        needs=(WRITE_TXN, WRITE_TOPIC),
    ),
    Row(
        api="AddPartitionsToTxn",
        form="of a broker (from v4)",
        version=5,
        values={
            "transactions": [
                {
                    "transactional_id": "tx",
                    **_BY_ID,
                    "verify_only": True,
                    "topics": [{"name": "orders", "partitions": [0]}],
                }
            ]
        },
        needs=(_need(CLUSTER, AclOperation.CLUSTER_ACTION, CLUSTER_DENIED),),
    ),
    Row(
        api="Produce",
        form="of a transaction",
        version=9,
        values={
            "transactional_id": "tx",
            "acks": -1,
            "topic_data": [
                {
                    "name": "orders",
                    "partition_data": [{"index": 0, "records": batch(is_transactional=True)}],
                }
            ],
        },
        needs=(WRITE_TXN, WRITE_TOPIC),
    ),
    Row(
        api="AddOffsetsToTxn",
        version=3,
        values={"transactional_id": "tx", "group_id": "g", **_BY_ID},
        needs=(WRITE_TXN, READ_GROUP),
    ),
    Row(
        api="TxnOffsetCommit",
        version=3,
        values={"transactional_id": "tx", "group_id": "g", **_BY_ID, "topics": _POSITIONS},
        needs=(WRITE_TXN, READ_GROUP, READ_TOPIC),
    ),
    Row(
        api="EndTxn",
        version=3,
        values={"transactional_id": "tx", **_BY_ID},
        needs=(WRITE_TXN,),
    ),
    Row(
        api="WriteTxnMarkers",
        version=1,
        values={
            "markers": [
                {
                    "producer_id": 1_000_000,
                    "topics": [{"name": "orders", "partition_indexes": [0]}],
                }
            ]
        },
        needs=(
            Need(
                any_of=((CLUSTER, AclOperation.ALTER), (CLUSTER, AclOperation.CLUSTER_ACTION)),
                denied=CLUSTER_DENIED,
            ),
        ),
    ),
    Row(
        api="DescribeProducers",
        version=0,
        values={"topics": [{"name": "orders", "partition_indexes": [0]}]},
        needs=(READ_TOPIC,),
    ),
    Row(
        api="DescribeTransactions",
        version=0,
        values={"transactional_ids": ["tx"]},
        needs=(_need(TXN, AclOperation.DESCRIBE, TRANSACTION_DENIED),),
    ),
    Row(
        api="ListTransactions",
        version=1,
        values={"duration_filter": -1},
        needs=(_need(TXN, AclOperation.DESCRIBE, LEFT_OUT),),
    ),
)


SIDES = {"txnsim": simulator, "apache": kafka}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("txnsim", marks=pytest.mark.slow),
        pytest.param("apache", marks=pytest.mark.real),
    ],
)
def guarded_broker(request: pytest.FixtureRequest) -> Iterator[GuardedBroker]:
    """A broker with an authorizer, at which the transactional id ``tx`` exists."""
    with SIDES[request.param]() as addresses:
        denied_broker = GuardedBroker(addresses["SASL"])
        until(
            lambda: denied_broker.admin.ask(
                KEYS["InitProducerId"], 4, transactional_id="tx", transaction_timeout=60_000
            ),
            lambda answer: not answer.error_code,
            "there is a transactional id",
        )
        yield denied_broker
        denied_broker.close()


def missing_rights(guarded_broker: GuardedBroker, row: Row) -> set[str]:
    """The right that a guest lacks, as far as the answer tells."""
    answer: Any = guarded_broker.guest(row.api, row.version, row.values)
    error_codes: list[int] = []
    teller = errors_of(answer.__class__)
    assert teller is not None
    teller(answer, error_codes.append)
    missing = {
        code for code in map(_code_name, error_codes) if code.endswith("AUTHORIZATION_FAILED")
    }
    if row.needs[0].denied == LEFT_OUT and not answer.transaction_states:
        missing.add(LEFT_OUT)
    return missing


def _code_name(code: Any) -> str:
    return str(code.name.upper())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_these_rights_suffice(guarded_broker: GuardedBroker, row: Row) -> None:
    for acl_bindings in row.ways():
        guarded_broker.allow(*acl_bindings)
        assert missing_rights(guarded_broker, row) == set(), acl_bindings


@pytest.mark.parametrize(
    ("row", "need"),
    [
        pytest.param(row, need, id=f"{row.name}, {need.denied}")
        for row in ROWS
        for need in row.needs
    ],
)
def test_no_other_right_does(guarded_broker: GuardedBroker, row: Row, need: Need) -> None:
    guarded_broker.allow(*need.others())
    assert missing_rights(guarded_broker, row) == {need.denied}


def test_the_page_shows_each_of_them() -> None:
    page_text = (ROOT / "docs/security.md").read_text("utf-8")
    for row in ROWS:
        cells = f"| {row.name} | {_needs(row)} | {_denials_text(row)} |"
        assert cells in page_text, cells


def _needs(row: Row) -> str:
    return " and ".join(
        " or ".join(f"{operation.name} {_KINDS[kind]}" for kind, operation in need.any_of)
        for need in row.needs
    )


def _denials_text(row: Row) -> str:
    return ", ".join(
        need.denied if need.denied == LEFT_OUT else f"`{need.denied}`" for need in row.needs
    )


_KINDS = {2: "topic", 3: "group", 4: "cluster", 5: "transactional id"}
"""Of resources, by their numbers in the protocol."""
