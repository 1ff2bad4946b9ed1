"""What a real Kafka answered, and that the simulator answers the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.conformance.next_release import changes, methods
from tests.conformance.record import undeclared
from tests.conformance.recordings import (
    SHORT,
    Exchange,
    Recording,
    path_of,
    read,
    recording_of,
    together,
    unlike,
    write,
)
from tests.conformance.security import KINDS, Answers, kafka, recorded, simulator, virtual
from tests.docs import ROOT
from tests.support.denials import Side
from tests.support.handlers import KEYS
from tests.support.logs import batch
from tests.support.patience import until
from tests.support.questions import denials
from tests.support.security import acl
from tests.support.transcript import Transcript
from txnsim.api.authorization._parts import PARTS
from txnsim.api.authorization._whole import CHECKS
from txnsim.api.authorization.gate import GUARDS
from txnsim.security.acls import CLUSTER_NAME, AclBinding, Operation, ResourceType
from txnsim.wire.error_codes import errors_of

# Which rights each request of transactions asks for: exactly those of the table suffice, and no
# others do, in the simulator and at a real broker with StandardAuthorizer.


TXN, GROUP = ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP
CLUSTER, TOPIC = ResourceType.CLUSTER, ResourceType.TOPIC
TRANSACTION_DENIED: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
GROUP_DENIED: Final = "GROUP_AUTHORIZATION_FAILED"
TOPIC_DENIED: Final = "TOPIC_AUTHORIZATION_FAILED"
CLUSTER_DENIED: Final = "CLUSTER_AUTHORIZATION_FAILED"
LEFT_OUT: Final = "left out"
"""No error: what may not be seen is not in the answer."""

_DESCRIBING: Final = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
"""Each of them includes DESCRIBE."""
_OPERATIONS: Final = {
    TOPIC: (*_DESCRIBING, Operation.CREATE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    CLUSTER: (
        *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION),
        *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE),
    ),
    TXN: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
}
"""What can be granted on each kind of resource (AclEntry.supportedOperations)."""
_NAMES: Final = {TOPIC: "orders", GROUP: "g", CLUSTER: CLUSTER_NAME, TXN: "tx"}

Right = tuple[ResourceType, Operation]


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that has to be granted."""

    any_of: tuple[Right, ...]
    """Each of these is enough."""
    denied: str
    """Kafka's error without it, or ``LEFT_OUT``."""

    def others(self) -> tuple[AclBinding, ...]:
        """Everything but this, on every resource there is."""
        kept = []
        for kind, operations in _OPERATIONS.items():
            taken = {operation for where, operation in self.any_of if where == kind}
            if Operation.DESCRIBE in taken:
                taken |= set(_DESCRIBING)
            name = CLUSTER_NAME if kind == CLUSTER else "*"
            left = [each for each in operations if each not in taken] if taken else [Operation.ALL]
            kept += [acl(kind, name, each) for each in left]
        return tuple(kept)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One request."""

    api: str
    version: int
    values: dict[str, Any]
    needs: tuple[Need, ...]
    form: str = ""
    """Which one, where an API has several."""

    @property
    def name(self) -> str:
        """Of the test."""
        return f"{self.api} {self.form}".strip()

    def ways(self) -> Iterator[tuple[AclBinding, ...]]:
        """Every choice of rights that suffices, with nothing to spare."""
        for rights in itertools.product(*(need.any_of for need in self.needs)):
            yield tuple(acl(kind, _NAMES[kind], operation) for kind, operation in rights)


def _need(kind: ResourceType, operation: Operation, denied: str) -> Need:
    return Need(any_of=((kind, operation),), denied=denied)


WRITE_TXN: Final = _need(TXN, Operation.WRITE, TRANSACTION_DENIED)
READ_GROUP: Final = _need(GROUP, Operation.READ, GROUP_DENIED)
WRITE_TOPIC: Final = _need(TOPIC, Operation.WRITE, TOPIC_DENIED)
READ_TOPIC: Final = _need(TOPIC, Operation.READ, TOPIC_DENIED)

_BY_ID: Final = {"producer_id": 1, "producer_epoch": 0}
_POSITIONS: Final = [{"name": "orders", "partitions": [{"partition_index": 0}]}]

ROWS: Final = (
    Row(
        api="FindCoordinator",
        form="of a transactional id",
        version=3,
        values={"key_type": 1, "key": "tx"},
        needs=(_need(TXN, Operation.DESCRIBE, TRANSACTION_DENIED),),
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
                any_of=((CLUSTER, Operation.IDEMPOTENT_WRITE), (TOPIC, Operation.WRITE)),
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
        needs=(_need(CLUSTER, Operation.CLUSTER_ACTION, CLUSTER_DENIED),),
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
                    "partition_data": [{"index": 0, "records": batch(transactional=True)}],
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
                any_of=((CLUSTER, Operation.ALTER), (CLUSTER, Operation.CLUSTER_ACTION)),
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
        needs=(_need(TXN, Operation.DESCRIBE, TRANSACTION_DENIED),),
    ),
    Row(
        api="ListTransactions",
        version=1,
        values={"duration_filter": -1},
        needs=(_need(TXN, Operation.DESCRIBE, LEFT_OUT),),
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
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    """A broker with an authorizer that knows a transaction."""
    with SIDES[request.param]() as addresses:
        asked = Side(addresses["SASL"])
        until(
            lambda: asked.admin.ask(
                KEYS["InitProducerId"], 4, transactional_id="tx", transaction_timeout=60_000
            ),
            lambda answer: not answer.error_code,
            "there is a transactional id",
        )
        yield asked
        asked.close()


def told(side: Side, row: Row) -> set[str]:
    """What is missing for a guest, as far as the answer tells."""
    answer: Any = side.guest(row.api, row.version, row.values)
    found: list[int] = []
    teller = errors_of(answer.__class__)
    assert teller is not None
    teller(answer, found.append)
    missing = {code for code in map(_name, found) if code.endswith("AUTHORIZATION_FAILED")}
    if row.needs[0].denied == LEFT_OUT and not answer.transaction_states:
        missing.add(LEFT_OUT)
    return missing


def _name(code: Any) -> str:
    return str(code.name.upper())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_these_rights_suffice(side: Side, row: Row) -> None:
    for rights in row.ways():
        side.allow(*rights)
        assert told(side, row) == set(), rights


@pytest.mark.parametrize(
    ("row", "need"),
    [
        pytest.param(row, need, id=f"{row.name}, {need.denied}")
        for row in ROWS
        for need in row.needs
    ],
)
def test_no_other_right_does(side: Side, row: Row, need: Need) -> None:
    side.allow(*need.others())
    assert told(side, row) == {need.denied}


def test_the_page_shows_each_of_them() -> None:
    page = (ROOT / "docs/security.md").read_text("utf-8")
    for row in ROWS:
        cells = f"| {row.name} | {_needs(row)} | {_denied(row)} |"
        assert cells in page, cells


def _needs(row: Row) -> str:
    return " and ".join(
        " or ".join(f"{operation.name} {_KINDS[kind]}" for kind, operation in need.any_of)
        for need in row.needs
    )


def _denied(row: Row) -> str:
    return ", ".join(
        need.denied if need.denied == LEFT_OUT else f"`{need.denied}`" for need in row.needs
    )


_KINDS = {2: "topic", 3: "group", 4: "cluster", 5: "transactional id"}
"""Of resources, by their numbers in the protocol."""


# The files of recordings: what is written is read back, and what is equal is written once.


LONG = '{"message":"' + "x" * SHORT + '"}'
OTHER = '{"message":"' + "y" * SHORT + '"}'


def recording(*exchanges: tuple[str, str]) -> Recording:
    return tuple(Exchange(asked=asked, answers=(answer,)) for asked, answer in exchanges)


def transcript(*entries: tuple[str, object]) -> Transcript:
    found = Transcript()
    for label, answer in entries:
        found.note(label, answer)
    return found


def test_recordings_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    recordings = {
        0: recording(("a", LONG), ("b", LONG), ("a", OTHER), ("c", OTHER), ("d", "1")),
        1: recording(("a", LONG), ("extra", "2"), ("a", OTHER), ("c", LONG), ("d", "1")),
        2: (Exchange(asked="a", answers=(LONG, OTHER)), *recording(("a", OTHER), ("c", LONG))),
    }
    write("story", recordings, tmp_path)
    assert read("story", tmp_path) == recordings


def test_what_is_equal_is_written_once(tmp_path: Path) -> None:
    same = recording(("a", LONG), ("b", LONG), ("c", "1"))
    write("story", {0: same, 1: same}, tmp_path)
    text = path_of("story", tmp_path).read_text("utf-8")
    assert text.count(LONG) == 1
    assert len(text.splitlines()) == 4


def test_an_answer_that_came_once_is_enough_where_kafka_is_racy() -> None:
    both = together([recording(("a", '"x"'), ("b", "1")), recording(("a", '"y"'), ("b", "1"))])
    for answer in ("x", "y"):
        assert not list(unlike(both, transcript(("a", answer), ("b", 1))))
    assert list(unlike(both, transcript(("a", "z"), ("b", 1)))) == ["a: 'x' != 'z'"]


def test_an_answer_that_varies_must_be_declared() -> None:
    both = together([recording(("a", '"x"')), recording(("a", '"y"'))])
    assert list(undeclared({("story", 2): both})) == ['story at 2: a: "x" or "y"']
    assert not list(undeclared({("story", 2): recording(("a", '"x"'))}))


def test_plays_that_part_are_no_recording() -> None:
    with pytest.raises(ValueError, match="part"):
        together([recording(("a", "1")), recording(("b", "1"))])


def test_a_play_that_ends_early_or_says_more_is_told() -> None:
    whole = recording_of(transcript(("a", 1), ("b", 2)))
    assert list(unlike(whole, transcript(("a", 1)))) == ["2 answers against 1"]
    assert list(unlike(whole[:1], transcript(("a", 1), ("b", 2)))) == ["1 answers against 2"]


# What changed between two releases: what counts as a change, and what does not.


OLDER = """\
Compiled from "Cleaner.java"
public class org.apache.kafka.log.Cleaner {
  private final org.apache.kafka.common.utils.BufferSupplier buffers;

  public void clean(org.apache.kafka.log.Log, long);
    Code:
       0: aload_1
       1: lload         9
       3: invokevirtual #12           // Method org/apache/kafka/log/Log.end:()J
       6: ifne          20
}
""".splitlines()


def test_places_and_packages_are_no_change() -> None:
    moved = [
        line.replace("utils.Buffer", "utils.internals.Buffer")
        .replace("#12", "#907")
        .replace("lload         9", "lload_3")
        .replace("ifne          20", "ifne          31")
        for line in OLDER
    ]
    assert not list(changes(methods(OLDER), methods(moved)))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Log.end", "Log.highWatermark", "~ Cleaner: public void clean(Log, long)"),
        ("void clean", "boolean clean", "+ Cleaner: public boolean clean(Log, long)"),
        ("class org.apache.kafka.log.Cleaner", "class org.apache.kafka.log.Cleanser", "- Cleaner"),
    ],
)
def test_another_body_another_signature_and_another_class_are(
    old: str, new: str, told: str
) -> None:
    changed = [line.replace(old, new) for line in OLDER]
    assert told in list(changes(methods(OLDER), methods(changed)))


def test_of_a_class_that_came_no_method_is_told() -> None:
    assert list(changes({}, methods(OLDER))) == ["+ Cleaner"]


def test_a_fact_is_told_with_both_values() -> None:
    older = {"broker 18": [0, 4], "broker 42": [0, 2]}
    newer = {"broker 18": [0, 5], "broker 94": [0, 0]}
    assert list(changes(older, newer)) == [
        "~ broker 18 [0, 4] -> [0, 5]",
        "- broker 42 [0, 2]",
        "+ broker 94 [0, 0]",
    ]


# Who is let in, and what somebody without rights is answered: as a real Apache Kafka does. Sessions
# end in virtual time; over TCP clients log in in ``tests/clients/test_security.py``.


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, Answers]]:
    """What the simulator answers."""
    with virtual() as addresses:
        yield {kind: ask(addresses) for kind, ask in KINDS.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in recorded(kind)]
)
def test_the_answer_is_that_of_apache_kafka(
    answers: dict[str, Answers], kind: str, name: str
) -> None:
    assert answers[kind][name] == recorded(kind)[name]


def test_everything_is_recorded() -> None:
    assert [denial.name for denial in denials()] == list(recorded("denied"))


def test_every_api_that_asks_for_a_right_is_asked_without_it() -> None:
    asked = {KEYS[denial.api] for denial in denials()}
    assert asked >= {*CHECKS, *PARTS, *GUARDS}
