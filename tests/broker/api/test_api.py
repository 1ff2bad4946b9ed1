"""What all handlers share: frames, answers, the registry, rights and subjects."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
import typing
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.codec.golden.requests import golden_requests
from tests.broker.server.test_connection import first_partition, open_wire
from tests.support.broker_api import KEYS, NO_SUCH_ID, Api
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.group_api import GROUP, join_values
from tests.support.raw_connection import WireClient
from tests.support.security import acl
from tests.support.within_environment import within
from txnsim.api import _configs as configs
from txnsim.api import _groups as groups
from txnsim.api import _identities as identities
from txnsim.api import _partitions as partitions
from txnsim.api import _records as records
from txnsim.api import _share_states as share_states
from txnsim.api import _transactions as transactions
from txnsim.api import nodes
from txnsim.api._access import Access
from txnsim.api._error_texts import text_of
from txnsim.api._fault_subjects import subject_of_transactions
from txnsim.api._leaders import CurrentLeaders
from txnsim.api._topics import by_topic
from txnsim.api.kip_text.table import KIP_TEXT
from txnsim.api.memory_limit import BELOW, LOOK_MS, MemoryMark
from txnsim.api.parsing import SMALL_BYTES, encode_with_breaks, join_pieces, parse_with_breaks
from txnsim.api.registry import (
    ACCEPTED,
    ADVERTISED,
    HANDLERS,
    SHIPPED,
    _accepted_versions,
    shipped_apis,
)
from txnsim.api.request import (
    ANSWERS_MAX,
    NO_LINK,
    TOPIC_OPERATIONS,
    ApiTable,
    ByteGap,
    ClientLink,
    Request,
    error_fields,
    no_subject,
    parse_request,
    prepared,
)
from txnsim.errors import (
    AnswerTooLargeError,
    ErrorCode,
    MalformedFrameError,
    Rejection,
    UnsupportedRequestError,
    WorkIsOverError,
)
from txnsim.faults.subjects import NO_SUBJECT, Subject
from txnsim.releases import RELEASES
from txnsim.releases._kafka import REFERENCE, RELEASE_4_0
from txnsim.runtime.loop_turns import Pace, Turns
from txnsim.security.acls import CLUSTER_NAME, NO_ACLS, AclOperation, ResourceType
from txnsim.security.authorizer import Authorizer
from txnsim.settings import Settings
from txnsim.types import TopicPartition
from txnsim.wire import codec
from txnsim.wire.codec import build, encode_body
from txnsim.wire.error_codes import errors_of
from txnsim.wire.messages.write_txn_markers_kip_664 import WriteTxnMarkersRequest
from txnsim.wire.plain_values import message_from
from txnsim.wire.registry import version_range
from txnsim.wire.values import LazyRows

# Frames to requests and replies to bytes: with breaks it is the same as without.


def frame(api_key: int, version: int, **values: object) -> bytes:
    message = message_from(codec.request_class(api_key, version), values)
    return codec.encode_request(api_key, version, 7, "c", message)[4:]


@dataclasses.dataclass
class Origin:
    """The fields of a connection that its requests contain."""

    apis: ApiTable
    client_host: str = "/127.0.0.1"
    principal: str = "User:alice"
    link: ClientLink = NO_LINK


NO_BROKER: Any = None


def parse_frame(frame_bytes: bytes, apis: ApiTable = SHIPPED) -> dict[str, Any]:
    return msgspec.structs.asdict(parse_request(frame_bytes, Origin(apis), NO_BROKER))


async def read_slowly(
    frame_bytes: bytes, slow_pace: Pace, apis: ApiTable = SHIPPED
) -> dict[str, Any]:
    return msgspec.structs.asdict(
        await parse_with_breaks(frame_bytes, Origin(apis), NO_BROKER, slow_pace)
    )


def pace() -> Pace:
    return Pace(Turns(asyncio.get_running_loop()), lambda: 0)


async def test_a_large_request_is_the_same_with_breaks() -> None:
    frame_bytes = frame(
        3, 9, topics=[{"name": f"topic-{topic_number}"} for topic_number in range(3_000)]
    )
    slow_pace = pace()
    assert await read_slowly(frame_bytes, slow_pace) == parse_frame(frame_bytes)
    assert slow_pace.has_rested


async def test_what_a_handler_reads_in_a_way_of_its_own_is_read_in_one_go() -> None:
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "txn_start_offset": 5}]}]
    marker = {"producer_id": 7, "producer_epoch": 0, "topics": topics}
    message = message_from(WriteTxnMarkersRequest, {"markers": [marker]})
    frame_bytes = codec.encode_request(27, 1, 7, "c", message)[4:]
    assert await read_slowly(frame_bytes, pace(), KIP_TEXT) == parse_frame(frame_bytes, KIP_TEXT)


async def test_a_handler_has_a_last_word_on_what_can_be_read() -> None:
    kinds = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    many_acls = [kinds] * 3_000
    good_frame, bad_frame = (
        frame(30, 3, creations=many_acls),
        frame(30, 3, creations=[*many_acls, {}]),
    )
    slow_pace = pace()
    assert await read_slowly(good_frame, slow_pace) == parse_frame(good_frame)
    assert slow_pace.has_rested
    with pytest.raises(MalformedFrameError):
        parse_frame(bad_frame)
    with pytest.raises(MalformedFrameError):
        await read_slowly(bad_frame, pace())


async def test_a_newer_client_learns_the_versions_also_in_a_large_frame() -> None:
    frame_bytes = bytes((0, 18, 0, 99)) + bytes(4) + b"\xff\xff" + bytes(30_000)
    fields = await read_slowly(frame_bytes, pace())
    assert (fields["refused"], fields["api_version"]) == (ErrorCode.unsupported_version, 0)
    assert fields == parse_frame(frame_bytes)


@pytest.mark.parametrize(
    ("frame_bytes", "error"),
    [
        (bytes((3, 231)) + bytes(20), UnsupportedRequestError),
        (bytes((0, 3, 0, 99)) + bytes(20), UnsupportedRequestError),
        (bytes((0, 3, 0, 1)) + bytes(4) + b"\xff\xff\x7f\xff\xff\xff", MalformedFrameError),
    ],
)
async def test_what_is_no_request_is_refused(frame_bytes: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_frame(frame_bytes)
    with pytest.raises(error):
        await read_slowly(frame_bytes, pace())


@pytest.mark.parametrize("is_nested", [True, False])
async def test_a_large_reply_has_the_same_bytes_with_breaks(*, is_nested: bool) -> None:
    partition_numbers = range(3_000)
    if is_nested:
        partitions = [
            {"partition_index": partition_number} for partition_number in partition_numbers
        ]
        topics = [{"name": "t", "partitions": partitions}, {"name": "u", "partitions": partitions}]
    else:
        topics = [{"name": f"topic-{topic_number}"} for topic_number in partition_numbers]
    reply = message_from(codec.response_class(3, 9), {"topics": topics, "cluster_id": "c"})
    slow_pace = pace()
    gone_over: list[Any] = []
    encoded_pieces = await encode_with_breaks(reply, slow_pace, gone_over.append, max_bytes=1 << 20)
    assert b"".join(encoded_pieces) == codec.encode_body(reply)
    assert slow_pace.has_rested
    assert gone_over == [reply]


async def test_what_is_there_again_is_encoded_once_and_has_the_same_bytes() -> None:
    partitions = [{"partition_index": partition_number} for partition_number in range(3_000)]
    topics = [{"name": "t", "partitions": partitions}, {"name": "u", "partitions": ()}]
    message = message_from(codec.response_class(3, 9), {"topics": topics, "cluster_id": "c"})
    first_topic, second_topic = message.topics
    reply = dataclasses.replace(
        message, topics=(first_topic, second_topic, first_topic, first_topic, second_topic)
    )
    encoded_pieces = await encode_with_breaks(reply, pace(), id, max_bytes=1 << 20)
    assert b"".join(encoded_pieces) == codec.encode_body(reply)
    assert max(Counter(map(id, encoded_pieces)).values()) == 3


@pytest.mark.parametrize("repeat_count", [1, 3])
async def test_an_answer_that_is_too_large_is_given_up_while_it_grows(repeat_count: int) -> None:
    topics = [{"name": f"topic-{topic_number}"} for topic_number in range(3_000 // repeat_count)]
    reply = message_from(codec.response_class(3, 9), {"topics": topics, "cluster_id": "c"})
    reply = dataclasses.replace(reply, topics=reply.topics * repeat_count)
    gone_over: list[Any] = []
    with pytest.raises(AnswerTooLargeError):
        await encode_with_breaks(reply, pace(), gone_over.append, max_bytes=20_000)
    assert gone_over == []


async def test_nobody_is_left_who_waits_for_an_answer() -> None:
    topics = [{"name": f"topic-{topic_number}"} for topic_number in range(3_000)]
    reply = message_from(codec.response_class(3, 9), {"topics": topics, "cluster_id": "c"})
    slow_pace = pace()
    slow_pace.is_wanted = lambda: False
    with pytest.raises(WorkIsOverError):
        await encode_with_breaks(reply, slow_pace, id, max_bytes=1 << 20)


async def test_a_large_reply_has_few_pieces_and_large_ones_are_not_copied() -> None:
    schema = codec.response_schema(0, 9)
    large_piece = bytes(SMALL_BYTES)
    assert list(join_pieces([b"a", b"b", large_piece, b"c"])) == [b"ab", large_piece, b"c"]
    assert next(join_pieces([large_piece])) is large_piece
    errors = LazyRows(
        lambda batch_index: schema.BatchIndexAndErrorMessage(
            batch_index=batch_index, batch_index_error_message="no key"
        ),
        range(50_000),
    )
    partition = codec.build(
        schema.PartitionProduceResponse,
        index=0,
        error_code=ErrorCode.invalid_record,
        base_offset=-1,
        record_errors=errors,
    )
    topic = schema.TopicProduceResponse(name="t", partition_responses=(partition,))
    reply = codec.build(codec.response_class(0, 9), responses=(topic,), throttle_time=0)
    slow_pace = pace()
    encoded_pieces = await encode_with_breaks(reply, slow_pace, id, max_bytes=1 << 24)
    assert slow_pace.has_rested
    assert len(encoded_pieces) < 200
    read = codec.read_response(0, 9, bytes(5) + b"".join(encoded_pieces))[1]
    record_errors = read.responses[0].partition_responses[0].record_errors
    assert [record_error.batch_index for record_error in record_errors] == list(range(50_000))


@pytest.mark.parametrize(
    ("api_key", "values", "message"),
    [
        (26, {"transactional_ids": "t"}, "EndTxnRequest has no field transactional_ids; it has"),
        (8, {"topics": [{"topic": "t"}]}, "OffsetCommitRequest.topics has no field topic;"),
    ],
)
def test_the_helper_of_tests_takes_no_field_that_no_version_has(
    api_key: int, values: dict[str, Any], message: str
) -> None:
    """It was left out as one of another version is, and the test asked something else."""
    with pytest.raises(TypeError, match=message):
        message_from(codec.request_class(api_key, 2), values)


def test_the_helper_of_tests_takes_fields_of_other_versions() -> None:
    old_request = message_from(
        codec.request_class(24, 0), {"transactions": [{"verify_only": True}]}
    )
    assert old_request.__version__ == 0


# What a handler is given.


E = ErrorCode


async def test_an_answer_leaves_out_what_its_version_does_not_have(api: Api) -> None:
    old_request = api.request("EndTxn", 4)
    answer = old_request.answer(error_code=ErrorCode.none, producer_id=1, producer_epoch=0)
    assert not hasattr(answer, "producer_id")
    new_answer = api.request("EndTxn", 5).answer(
        error_code=ErrorCode.none, producer_id=1, producer_epoch=0
    )
    assert (new_answer.producer_id, new_answer.throttle_time) == (1, timedelta(0))


async def test_a_request_has_no_subject_unless_its_handler_names_one(api: Api) -> None:
    assert no_subject(api.request("ApiVersions", 0)) is NO_SUBJECT
    assert api.subject("DescribeCluster", 0) is NO_SUBJECT


async def test_the_schema_is_that_of_the_answer(api: Api) -> None:
    assert hasattr(api.request("Metadata", 9).schema, "MetadataResponse")


def test_a_result_tells_its_error_and_why() -> None:
    assert error_fields(None) == {"error_code": ErrorCode.none, "error_message": None}
    rejection = Rejection(error=ErrorCode.invalid_request, reason="")
    assert error_fields(rejection) == {
        "error_code": ErrorCode.invalid_request,
        "error_message": None,
    }
    fields = error_fields(Rejection(error=ErrorCode.invalid_request, reason="no such topic"))
    assert fields["error_message"] == "no such topic"
    assert error_fields(object()) == error_fields(None)


# A request without time is refused whole, as a broker's forwarding does


@pytest.mark.parametrize("left_ms", [0, -1])
async def test_topics_are_neither_made_nor_grown_nor_deleted(api: Api, left_ms: int) -> None:
    new_topic = {"name": "new", "num_partitions": 1, "replication_factor": 1}
    create_answer = await api.ask("CreateTopics", 7, timeout=left_ms, topics=[new_topic, new_topic])
    assert errors_and_messages(create_answer.topics) == [(E.request_timed_out, None)] * 2
    topic_growth = {"name": "orders", "count": 9, "assignments": None}
    grown = await api.ask("CreatePartitions", 2, timeout=left_ms, topics=[topic_growth])
    assert errors_and_messages(grown.results) == [(E.request_timed_out, None)]
    deleted = await api.ask("DeleteTopics", 6, timeout=left_ms, topics=[{"name": "orders"}])
    assert errors_and_messages(deleted.responses) == [(E.request_timed_out, None)]
    assert sorted(api.broker.image.topics) == ["orders"]
    assert len(api.broker.image.topics["orders"].partitions) < 9


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_election_without_time_elects_no_leader(api: Api, version: int) -> None:
    named_partitions = [{"topic": "orders", "partitions": [0]}]
    answer = await api.ask("ElectLeaders", version, timeout=0, topic_partitions=named_partitions)
    (result,) = answer.replica_election_results
    assert errors_and_messages(result.partition_result) == [(E.request_timed_out, None)]
    none = await api.ask("ElectLeaders", 2, timeout=0, topic_partitions=[])
    assert none.error_code is E.none
    election_answer = await api.ask("ElectLeaders", 2, timeout=0, topic_partitions=None)
    assert (election_answer.error_code, election_answer.replica_election_results) == (
        E.request_timed_out,
        (),
    )


def errors_and_messages(results: Any) -> list[tuple[ErrorCode, str | None]]:
    return [(result.error_code, result.error_message) for result in results]


@pytest.mark.parametrize("api_key", [1, 3])
def test_no_setting_lets_an_answer_be_larger_than_a_frame_can_say(api_key: int) -> None:
    most_bytes = 2**31 - 1
    settings = Settings(fetch_max_bytes=most_bytes, answer_max_bytes=most_bytes)
    broker = SimpleNamespace(metadata=SimpleNamespace(settings=settings))
    allowed = Request.bytes_max.fget(SimpleNamespace(api_key=api_key, broker=broker))  # type: ignore[attr-defined]
    head = codec.response_head(api_key, 12, 7, allowed)
    assert int.from_bytes(head[:4], "big", signed=True) > allowed


# Refusals

LOGIN: Final = ("SaslAuthenticate", "SaslHandshake")
NOTHING: Final[dict[str, Any]] = {}
IN_GROUP: Final = {"group_id": GROUP}
AT_THE_TOP: Final[dict[str, dict[str, Any]]] = {
    **dict.fromkeys(("DescribeClientQuotas", "DescribeCluster", "ListGroups"), NOTHING),
    **dict.fromkeys(("ListTransactions", "PushTelemetry", *LOGIN), NOTHING),
    **dict.fromkeys(("ConsumerGroupHeartbeat", "Heartbeat", "LeaveGroup", "SyncGroup"), IN_GROUP),
    "DescribeQuorum": {"topics": []},
    "JoinGroup": join_values(),
    "OffsetDelete": {**IN_GROUP, "topics": [{"name": "orders", "partitions": []}]},
    "UnregisterBroker": {"broker_id": 1},
    "UpdateFeatures": {"feature_updates": []},
}
RESOURCE: Final = {"resource_type": 2, "resource_name": "orders", "configs": []}
TOPIC: Final = {"name": "orders", "count": 4, "assignments": None}
IN_EACH: Final[dict[str, dict[str, Any]]] = {
    "AlterClientQuotas": {
        "entries": [
            {"entity": [{"entity_type": "user", "entity_name": entity_name}], "ops": []}
            for entity_name in "ab"
        ]
    },
    "AlterConfigs": {"resources": [RESOURCE] * 2},
    "ConsumerGroupDescribe": {"group_ids": ["a", "b"]},
    "CreatePartitions": {"topics": [TOPIC] * 2},
    "DeleteGroups": {"groups_names": ["a", "b"]},
    "DescribeGroups": {"groups": ["a", "b"]},
    "IncrementalAlterConfigs": {"resources": [RESOURCE] * 2},
    "OffsetCommit": {**IN_GROUP, "topics": [{"name": "orders", "partitions": [{}]}] * 2},
}


@pytest.mark.parametrize("name", [*AT_THE_TOP, *IN_EACH])
async def test_a_refusal_is_an_error_at_the_top_and_nothing_else_or_one_in_each_element(
    api: Api, name: str
) -> None:
    lowest_version, highest_version = HANDLERS[KEYS[name]].versions
    for version in range(lowest_version, highest_version + 1):
        answer = api.refuse(name, version, E.not_controller, **(AT_THE_TOP | IN_EACH)[name])
        errors: list[int] = []
        tell = errors_of(answer.__class__)
        assert tell is not None
        tell(answer, errors.append)
        assert errors == [E.not_controller] * (2 if name in IN_EACH else 1)
        values = (getattr(answer, field) for field in answer.__dataclass_fields__)
        lists = [value for value in values if isinstance(value, tuple)]
        assert name in IN_EACH or not any(lists), "nothing that the broker knows"


@pytest.mark.parametrize("name", LOGIN)
async def test_a_login_does_not_belong_behind_the_login(api: Api, name: str) -> None:
    assert (await api.ask(name, 1)).error_code is E.illegal_sasl_state


def test_an_error_has_its_text_or_else_its_name() -> None:
    assert text_of(ErrorCode.none) is None
    assert text_of(ErrorCode.non_empty_group) == "The group is not empty."
    assert text_of(ErrorCode.stale_broker_epoch) == "stale_broker_epoch"


# Whom requests are about: nothing that a request names may be lost to fault plans.


NAMING = {
    "partition", "partition_index", "partition_indexes", "partitions", "producer_id",
    "transactional_id", "transactional_ids",
}  # fmt: skip
ABOUT_NOBODY = {
    "CreateTopics": "the partitions are about to be made",
    "ConsumerGroupHeartbeat": "it tells what a member owns, by topic id",
    "StreamsGroupHeartbeat": "it names topics of a whole application",
    "DescribeTopicPartitions": "a cursor says where to go on",
    "DescribeQuorum": "the one partition of the metadata",
}
POSITION = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
ORDERS = TopicPartition("orders", 0)


def field_names(cls: Any, visited_classes: set[Any]) -> set[str]:
    """The names of all fields of a message, at any depth."""
    visited_classes.add(cls)
    names: set[str] = set()
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        names.add(field.name)
        parts = [hints[field.name]]
        while parts:
            part = parts.pop()
            parts += typing.get_args(part)
            if (
                isinstance(part, type)
                and dataclasses.is_dataclass(part)
                and part not in visited_classes
            ):
                names |= field_names(part, visited_classes)
    return names


def test_every_request_that_names_a_transaction_or_a_partition_has_a_subject() -> None:
    names_without_subject = {
        handler.name
        for handler_key, handler in HANDLERS.items()
        if handler.subject is no_subject
        and any(
            NAMING & field_names(codec.request_class(handler_key, version), set())
            for version in range(handler.versions[0], handler.versions[1] + 1)
        )
    }
    assert names_without_subject == set(ABOUT_NOBODY)


def test_several_transactional_ids_are_one_subject_each() -> None:
    assert subject_of_transactions([]) is NO_SUBJECT
    assert subject_of_transactions(["a"]) == Subject(transactional_id="a")
    assert subject_of_transactions(iter("ab")) == Subject(
        transactional_id="a", other_subjects=(Subject(transactional_id="b"),)
    )


def request_fields(name: str, topics: list[dict[str, Any]]) -> dict[str, Any]:
    """Values of a request about topics; OffsetFetch has its group in the old and the new shape."""
    if name != "OffsetFetch":
        return {"topics": topics}
    group = {"group_id": "g", "topics": topics, "member_id": None, "member_epoch": -1}
    topics_without_ids = [
        {key: topic[key] for key in topic if key != "topic_id"} for topic in topics
    ]
    return {"groups": [group], "group_id": "g", "topics": topics_without_ids}


@pytest.mark.parametrize(
    ("name", "version", "topic"),
    [
        ("OffsetDelete", 0, {"partitions": [{"partition_index": 0}]}),
        ("OffsetFetch", 1, {"partition_indexes": [0]}),
        ("OffsetFetch", 8, {"partition_indexes": [0]}),
        ("OffsetFetch", 10, {"partition_indexes": [0]}),
        ("ListPartitionReassignments", 0, {"partition_indexes": [0]}),
        ("DescribeLogDirs", 2, {"partitions": [0]}),
        ("OffsetCommit", 2, {"partitions": [POSITION]}),
        ("OffsetCommit", 10, {"partitions": [POSITION]}),
        ("TxnOffsetCommit", 0, {"partitions": [POSITION]}),
    ],
)
async def test_partitions_are_named_by_their_topic(
    api: Api, name: str, version: int, topic: dict[str, Any]
) -> None:
    fields = {"topic" if name == "DescribeLogDirs" else "name": "orders"}
    if name in {"OffsetCommit", "OffsetFetch", "TxnOffsetCommit"}:
        fields["topic_id"] = api.topic_id("orders")
    subject = api.subject(name, version, **request_fields(name, [{**fields, **topic}]))
    assert subject.partitions == (ORDERS,)


async def test_an_unknown_id_has_no_name(api: Api) -> None:
    topics = [{"topic_id": NO_SUCH_ID, "partition_indexes": [0]}]
    subject = api.subject("OffsetFetch", 10, **request_fields("OffsetFetch", topics))
    assert subject.partitions == (TopicPartition("", 0),)


async def test_no_request_is_without_a_subject_for_its_trace(api: Api) -> None:
    """A request with a zero topic id once raised here, and its connection was closed: the codec
    reads a zero id as None.
    """
    subject_count = 0
    for frame in golden_requests():
        request = api.request_in(frame)
        handler = HANDLERS.get(request.api_key)
        for message in (request.message, with_zero_ids(request.message)):
            if handler is not None:
                request.message = message
                assert isinstance(handler.subject(request), Subject)
                subject_count += 1
    assert subject_count > 700


def with_zero_ids(value: Any) -> Any:
    """A message whose ids of topics, directories and processes are all zero."""
    if isinstance(value, uuid.UUID):
        return None
    if isinstance(value, tuple):
        return tuple(map(with_zero_ids, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        zeroed = {name: with_zero_ids(getattr(value, name)) for name in names}
        return dataclasses.replace(value, **zeroed)
    return value


async def test_a_group_that_asks_for_all_names_no_partition(api: Api) -> None:
    group = {"group_id": "g", "topics": None, "member_id": None, "member_epoch": -1}
    assert api.subject("OffsetFetch", 8, groups=[group]).partitions == ()


# Which versions are answered and which are told.


def test_each_handler_module_has_its_row() -> None:
    module_by_key = {}
    of_groups = (groups, share_states)
    for folder_module in (
        configs,
        *of_groups,
        identities,
        nodes,
        partitions,
        records,
        transactions,
    ):
        for module_info in iter_modules(folder_module.__path__, f"{folder_module.__name__}."):
            module = import_module(module_info.name)
            if hasattr(module, "API_KEY"):
                module_by_key[module.API_KEY] = module
    assert module_by_key.keys() == HANDLERS.keys()
    for key, handler in HANDLERS.items():
        assert handler.handle is module_by_key[key].handle
        assert handler.refuse is module_by_key[key].refuse


PROGRAM = """
import sys
from txnsim.api.registry import SHIPPED
print([one for one in sys.modules if one.startswith("txnsim.api._transactions")])
print(SHIPPED.handlers[26].name, SHIPPED.handlers[26].handle.__module__)
"""


def test_a_handler_is_imported_when_it_is_needed() -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines() == ["[]", "EndTxn txnsim.api._transactions.end_txn"]
    with pytest.raises(AttributeError):
        _ = HANDLERS[26].nothing


def test_what_is_advertised_lies_within_the_release() -> None:
    for key, (low, high) in ADVERTISED.items():
        least, most = REFERENCE.api_versions[key]
        assert least <= low <= high <= most, key


def test_only_produce_is_advertised_lower_than_it_is_answered() -> None:
    assert {key for key in ADVERTISED if ADVERTISED[key] != ACCEPTED[key]} == {0}
    assert (ADVERTISED[0], ACCEPTED[0]) == ((0, 13), (3, 13))


def test_unstable_versions_are_answered_only_where_they_are_opened() -> None:
    assert ACCEPTED[22] == (0, 5), "InitProducerId v6 is unstable"
    unstable_apis = shipped_apis(REFERENCE, has_unstable_versions=True)
    assert unstable_apis.accepted[22] == unstable_apis.advertised[22] == (0, 6)
    assert {**unstable_apis.accepted, 22: (0, 5)} == ACCEPTED
    assert shipped_apis(RELEASE_4_0, has_unstable_versions=True).accepted[22] == (0, 5)


def test_client_metrics_are_answered_and_listed_only_where_telemetry_is_on() -> None:
    assert {71, 72} <= ACCEPTED.keys()
    assert not {71, 72} & ADVERTISED.keys()
    table_of_4_0 = shipped_apis(RELEASE_4_0, has_telemetry=True)
    assert table_of_4_0.advertised[71] == table_of_4_0.accepted[72] == (0, 0)
    table_of_3_6 = shipped_apis(RELEASES["3.6"], has_telemetry=True)
    assert not {71, 72} & table_of_3_6.accepted.keys(), "KIP-714 came with Kafka 3.7"


def test_what_is_answered_follows_from_messages_and_release() -> None:
    versions = {**REFERENCE.api_versions, 66: (0, 9)}
    newer_release = msgspec.structs.replace(REFERENCE, api_versions=versions)
    answered_versions = _accepted_versions(newer_release, has_unstable_versions=False)
    assert answered_versions[66] == HANDLERS[66].versions == version_range(66)
    assert answered_versions[66][1] < 9
    assert {**answered_versions, 66: ACCEPTED[66]} == ACCEPTED


@pytest.mark.parametrize("api_key", sorted(HANDLERS))
def test_every_version_has_its_messages(api_key: int) -> None:
    handler = HANDLERS[api_key]
    assert handler.key == api_key
    lowest_version, highest_version = handler.versions
    for version in range(lowest_version, highest_version + 1):
        assert codec.request_class(api_key, version).__version__ == version
        assert codec.response_class(api_key, version).__version__ == version


# Above a mark of memory what needs more is refused, and nothing else is.


LIMIT = 1_000


async def produce_error(wire: WireClient) -> ErrorCode:
    wire.send(wire.produce(first_partition()))
    (topic,) = (await wire.answer())[1].responses
    return ErrorCode(topic.partition_responses[0].error_code)


@within(run_cluster)
async def test_what_needs_more_memory_is_refused_until_there_is_some_again(
    cluster: VirtualCluster,
) -> None:
    resident = [LIMIT]
    sim = cluster.sim
    mark = MemoryMark(LIMIT, cluster.env.clock, lambda: sim.listeners, lambda: resident[0])
    mark.look()
    wire = await open_wire(cluster)
    for resident_bytes, error in (
        (LIMIT, ErrorCode.none),
        (LIMIT + 1, ErrorCode.kafka_storage_error),
        (int(LIMIT * BELOW) + 1, ErrorCode.kafka_storage_error),
        (int(LIMIT * BELOW), ErrorCode.none),
    ):
        resident[0] = resident_bytes
        await asyncio.sleep((LOOK_MS + 1) / 1_000)
        late_wire = await open_wire(cluster)
        for client_wire in (wire, late_wire):
            assert await produce_error(client_wire) is error
            client_wire.send(client_wire.metadata())
            await client_wire.answer()
        await late_wire.close()
    await wire.close()


@within(run_cluster)
async def test_large_frames_that_are_not_whole_are_given_up_first(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    large_wire, small_wire = await open_wire(cluster), await open_wire(cluster)
    frame_bytes = sim.options.settings.connection_queue_bytes + 1
    size_bytes = (frame_bytes * 2).to_bytes(4, "big")
    large_wire.writer.write(size_bytes + bytes(frame_bytes))
    small_wire.writer.write(size_bytes + bytes(100))
    for wire in (large_wire, small_wire):
        await wire.writer.drain()
    await asyncio.sleep(0.1)
    resident_sizes = iter((LIMIT + 1, LIMIT))  # the second one once large frames are gone
    mark = MemoryMark(
        LIMIT, cluster.env.clock, lambda: sim.listeners, lambda: next(resident_sizes, LIMIT)
    )
    mark.look()
    assert await large_wire.is_closed_by_broker()
    await asyncio.sleep((LOOK_MS + 1) / 1_000)
    late_wire = await open_wire(cluster)
    assert await produce_error(late_wire) is ErrorCode.none
    assert not small_wire.reader.at_eof()
    large_wire.writer.close()
    for wire in (small_wire, late_wire):
        await wire.close()


# Prepared answers are the bytes that the codec would have written.


INT64, INT16 = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**15), 2**15 - 1)


def end_txn(numbers: tuple[int, ...]) -> Any:
    producer_id, producer_epoch = numbers
    return build(
        codec.response_class(26, 5),
        throttle_time=0,
        error_code=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


GAP = ByteGap("qh", end_txn)


@given(producer_id=INT64, producer_epoch=INT16)
def test_a_filled_gap_is_the_encoded_message(producer_id: int, producer_epoch: int) -> None:
    expected_body = encode_body(end_txn((producer_id, producer_epoch)))
    assert GAP.fill(producer_id, producer_epoch) == expected_body


@pytest.mark.parametrize(
    "make", [lambda _numbers: end_txn((1, 2)), lambda numbers: end_txn((numbers[0], 2))]
)
def test_numbers_that_are_not_found_side_by_side_are_refused(make: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match="not found once"):
        ByteGap("qh", make)


def test_an_answer_is_made_once_per_shape_and_the_number_of_shapes_is_bounded() -> None:
    shapes = []

    @prepared
    def answer(shape: int) -> bytes:
        shapes.append(shape)
        return bytes([shape])

    assert [answer(1), answer(2), answer(1)] == [b"\1", b"\2", b"\1"]
    assert shapes == [1, 2]
    assert answer.cache_info().maxsize == ANSWERS_MAX


# What the principal of one request may do.


ACCESS = Access(
    Authorizer(),
    NO_ACLS.plus(
        [
            acl(ResourceType.TOPIC, "orders", AclOperation.READ, host="10.0.0.1"),
            acl(ResourceType.GROUP, "g", AclOperation.DELETE),
            acl(ResourceType.TRANSACTIONAL_ID, "tx", AclOperation.WRITE),
            acl(ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.CREATE),
        ]
    ),
    principal="User:alice",
    host="/10.0.0.1",
)


def test_each_kind_of_resource_is_asked_for_by_its_name() -> None:
    assert ACCESS.may_topic(AclOperation.READ, "orders")
    assert not ACCESS.may_topic(AclOperation.READ, "other")
    assert ACCESS.may_group(AclOperation.DELETE, "g")
    assert ACCESS.may_transactional_id(AclOperation.WRITE, "tx")
    assert ACCESS.may_cluster(AclOperation.CREATE)
    assert not ACCESS.may_cluster(AclOperation.ALTER)
    assert ACCESS.may_on_some(AclOperation.READ, ResourceType.TOPIC)
    assert not ACCESS.may_on_some(AclOperation.WRITE, ResourceType.TOPIC)


def test_bits_are_the_operations_that_are_allowed_of_those_that_are_known() -> None:
    bits = ACCESS.operation_bits(
        TOPIC_OPERATIONS, lambda operation: ACCESS.may_topic(operation, "orders")
    )
    assert bits == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
    assert ACCESS.operation_bits(TOPIC_OPERATIONS, lambda _: True) == TOPIC_OPERATIONS


# The current leader in an answer that refuses for want of leadership.


async def test_each_leader_is_named_and_its_address_given_once(api_of_three: Api) -> None:
    leaders = CurrentLeaders(api_of_three.request("Produce", 10))
    leader_ids = [leaders.leader_of("orders", index).leader_id for index in (1, 2, 1)]
    assert leader_ids == [2, 3, 2]
    broker_by_broker_id = api_of_three.broker.image.brokers
    assert [(endpoint.node_id, endpoint.port) for endpoint in leaders.endpoints()] == [
        (node_id, broker.port)
        for node_id, broker in broker_by_broker_id.items()
        if node_id in (2, 3)
    ]


async def test_a_missing_partition_has_no_leader(api: Api) -> None:
    leaders = CurrentLeaders(api.request("Fetch", 16))
    leader = leaders.leader_of("missing", 0)
    assert (leader.leader_id, leader.leader_epoch) == (-1, -1)
    assert leaders.endpoints() == ()


# Partitions by topic.


def test_partitions_are_grouped_in_order_of_appearance() -> None:
    pairs = [
        (TopicPartition("b", 1), "x"),
        (TopicPartition("a", 0), "y"),
        (TopicPartition("b", 0), "z"),
    ]
    assert by_topic(pairs) == {"b": [(1, "x"), (0, "z")], "a": [(0, "y")]}
    assert list(by_topic(pairs)) == ["b", "a"]
    assert by_topic(()) == {}
