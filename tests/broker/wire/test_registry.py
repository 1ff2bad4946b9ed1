"""APIs and their versions, frames, errors and filters."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.broker_api import KEYS
from txnsim.errors import ErrorCode, MalformedFrameError, UnsupportedRequestError
from txnsim.wire import codec, registry
from txnsim.wire._schema import ENTITY, REQUIRED, describe
from txnsim.wire.apis import API_VERSIONS, APIS, api_name, is_flexible
from txnsim.wire.codec import FrameReader, request_class, response_class, response_schema
from txnsim.wire.error_codes import errors_of, position_of_error
from txnsim.wire.filters import Filters, GroupFilters, TransactionFilters
from txnsim.wire.registry import versions


def frame_of(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def feed_chunks(reader: FrameReader, chunks: Iterable[bytes]) -> list[bytes]:
    return [frame for chunk in chunks for frame in reader.receive_data(chunk)]


def test_chunk_of_whole_frames_gives_them_in_order() -> None:
    reader = FrameReader(100)
    assert reader.receive_data(frame_of(b"one") + frame_of(b"") + frame_of(b"three")) == [
        b"one",
        b"",
        b"three",
    ]
    assert reader.buffered_bytes == 0


def test_frame_comes_out_when_its_last_byte_is_there() -> None:
    reader = FrameReader(100)
    frame_bytes = frame_of(b"hello")
    for size in range(1, len(frame_bytes)):
        assert reader.receive_data(frame_bytes[size - 1 : size]) == []
        assert reader.buffered_bytes == size
    assert reader.receive_data(frame_bytes[-1:]) == [b"hello"]
    assert reader.buffered_bytes == 0


def test_rest_of_a_chunk_waits_for_more() -> None:
    reader = FrameReader(100)
    assert reader.receive_data(frame_of(b"whole") + frame_of(b"half")[:6]) == [b"whole"]
    assert reader.buffered_bytes == 6
    assert reader.receive_data(b"lf" + frame_of(b"next")) == [b"half", b"next"]


@pytest.mark.parametrize("byte_count", [2, 4, 7])
def test_a_frame_that_will_never_be_whole_is_thrown_away(byte_count: int) -> None:
    reader = FrameReader(100)
    reader.receive_data(bytes([0, 0, 0, 5, 1, 2, 3, 4, 5])[:byte_count])
    assert reader.buffered_bytes == byte_count
    reader.forget()
    assert reader.buffered_bytes == 0
    assert reader.receive_data(bytes([0, 0, 0, 1, 9])) == [bytes([9])]


def test_empty_chunk_changes_nothing() -> None:
    reader = FrameReader(100)
    assert reader.receive_data(b"") == []
    reader.receive_data(b"\0\0")
    assert reader.receive_data(b"") == []
    assert reader.receive_data(b"\0\1x") == [b"x"]


def test_frame_of_exactly_the_limit_is_accepted() -> None:
    assert FrameReader(5).receive_data(frame_of(b"12345")) == [b"12345"]


def test_the_limit_may_change_between_frames() -> None:
    reader = FrameReader(5)
    reader.limit = 6
    assert reader.receive_data(frame_of(b"123456")) == [b"123456"]
    reader.limit = 5
    with pytest.raises(MalformedFrameError):
        reader.receive_data(frame_of(b"123456"))


@pytest.mark.parametrize("size", [6, 0x7FFFFFFF, -1, -(2**31), 0x47455420])
def test_absurd_size_is_refused_with_size_and_limit(size: int) -> None:
    reader = FrameReader(5)
    with pytest.raises(MalformedFrameError, match=rf"{size} is outside 0\.\.5"):
        reader.receive_data(size.to_bytes(4, "big", signed=True))


def test_a_client_of_tls_is_called_one() -> None:
    with pytest.raises(MalformedFrameError, match="TLS"):
        FrameReader(5).receive_data(b"\x16\x03\x01\x02\x00\x01")


def test_size_is_refused_before_anything_is_stored_for_it() -> None:
    reader = FrameReader(5)
    assert reader.receive_data(b"\x7f\xff\xff") == []
    with pytest.raises(MalformedFrameError):
        reader.receive_data(b"\xff")
    assert reader.buffered_bytes == 0


@pytest.mark.parametrize("chunk", [1000, 1024])
def test_large_frame_in_small_chunks_is_joined_once(chunk: int) -> None:
    """Joining the frame at every chunk would take minutes."""
    payload = bytes(32 << 20)
    frame_bytes = frame_of(payload)
    reader = FrameReader(len(payload))
    chunks = (frame_bytes[start : start + chunk] for start in range(0, len(frame_bytes), chunk))
    assert feed_chunks(reader, chunks) == [payload]


def test_trickle_of_single_bytes_takes_little_more_than_their_number() -> None:
    frame_bytes_max = 20_000
    reader = FrameReader(frame_bytes_max)
    reader.receive_data(frame_of(bytes(frame_bytes_max))[:4])
    tracemalloc.start()
    try:
        for _ in range(frame_bytes_max - 1):
            reader.receive_data(b"x")
        assert tracemalloc.get_traced_memory()[0] < 2 * frame_bytes_max + 1000
    finally:
        tracemalloc.stop()
    assert reader.buffered_bytes == frame_bytes_max + 3
    assert reader.receive_data(b"x") == [b"x" * frame_bytes_max]


@given(
    payloads=st.lists(st.binary(max_size=50), max_size=6),
    cuts=st.lists(st.integers(min_value=0, max_value=400), max_size=20),
)
def test_frames_do_not_depend_on_where_the_stream_is_cut(
    payloads: list[bytes], cuts: list[int]
) -> None:
    frame_bytes = b"".join(frame_of(payload) for payload in payloads)
    ends = [
        0,
        *sorted(min(cut_position, len(frame_bytes)) for cut_position in cuts),
        len(frame_bytes),
    ]
    chunks = [frame_bytes[start:end] for start, end in pairwise(ends)]
    reader = FrameReader(50)
    assert feed_chunks(reader, chunks) == payloads
    assert reader.buffered_bytes == 0


@given(chunks=st.lists(st.binary(max_size=30), max_size=20))
def test_arbitrary_bytes_are_frames_or_refused(chunks: list[bytes]) -> None:
    reader = FrameReader(1 << 20)
    received_size = 0
    with contextlib.suppress(MalformedFrameError):
        for chunk in chunks:
            received_size += len(chunk)
            for frame in reader.receive_data(chunk):
                received_size -= len(frame) + 4
            assert reader.buffered_bytes == received_size


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n", b"POST /api/v1/faults", b"PRI * HTTP/2"])
def test_http_is_named_as_such(start: bytes) -> None:
    with pytest.raises(MalformedFrameError, match="HTTP begins: this is a Kafka listener"):
        FrameReader(100_000_000).receive_data(start)


def test_what_is_neither_is_only_too_large() -> None:
    with pytest.raises(MalformedFrameError, match=r"outside 0\.\.5$"):
        FrameReader(5).receive_data(b"\x16\x02\x01\x02\x00\x01")


# Errors in answers: at the top, in elements, in tagged fields; those that can't hold any.


def errors_told(message: Any) -> list[int]:
    errors: list[int] = []
    teller = errors_of(message.__class__)
    assert teller is not None
    teller(message, errors.append)
    return errors


def test_the_error_of_an_answer_is_found_unless_it_is_none() -> None:
    answer_class = codec.response_class(KEYS["Heartbeat"], 1)
    for error, expected in ((ErrorCode.none, []), (ErrorCode.unknown_member_id, [25])):
        assert errors_told(codec.build(answer_class, throttle_time=0, error_code=error)) == expected


def test_errors_of_elements_are_found_one_by_one() -> None:
    schema = codec.response_schema(KEYS["AddPartitionsToTxn"], 3)

    def partition(partition_index: int, error: ErrorCode) -> Any:
        return schema.AddPartitionsToTxnPartitionResult(
            partition_index=partition_index, partition_error_code=error
        )

    topics = tuple(
        schema.AddPartitionsToTxnTopicResult(name=name, results_by_partition=partitions)
        for name, partitions in (
            ("a", (partition(0, ErrorCode.none), partition(1, ErrorCode.operation_not_attempted))),
            ("b", (partition(0, ErrorCode.unknown_topic_or_partition),)),
        )
    )
    answer_class = codec.response_class(KEYS["AddPartitionsToTxn"], 3)
    answer = codec.build(answer_class, throttle_time=0, results_by_topic_v3_and_below=topics)
    assert errors_told(answer) == [55, 3]


def test_an_array_that_is_null_has_no_errors() -> None:
    answer_class = codec.response_class(KEYS["CreateAcls"], 3)
    assert errors_told(codec.build(answer_class, throttle_time=0, results=None)) == []


def test_an_answer_without_error_codes_tells_none() -> None:
    assert errors_of(codec.response_schema(KEYS["DescribeQuorum"], 2).Listener) is None


@pytest.mark.parametrize(
    ("api", "version", "position"),
    [("EndTxn", 0, 4), ("Heartbeat", 0, 0), ("Heartbeat", 4, 4), ("AddOffsetsToTxn", 3, 4)],
)
def test_an_error_that_is_always_at_one_place_is_found_in_the_bytes(
    api: str, version: int, position: int
) -> None:
    answer_class = codec.response_class(KEYS[api], version)
    assert position_of_error(answer_class) == position
    values = {"error_code": ErrorCode.not_coordinator, "throttle_time": 0}
    values |= {"producer_id": 1, "producer_epoch": 1} if (api, version) == ("EndTxn", 5) else {}
    body = codec.encode_body(codec.build(answer_class, **values))
    assert int.from_bytes(body[position : position + 2], "big") == ErrorCode.not_coordinator


@pytest.mark.parametrize(("api", "version"), [("Produce", 9), ("AddPartitionsToTxn", 3)])
def test_errors_of_elements_have_no_place(api: str, version: int) -> None:
    assert position_of_error(codec.response_class(KEYS[api], version)) is None


def test_an_answer_of_fixed_width_without_error_has_no_place() -> None:
    assert position_of_error(codec.response_schema(0, 8).BatchIndexAndErrorMessage) is None
    assert position_of_error(codec.response_schema(1, 18).EpochEndOffset) is None


@pytest.mark.slow
def test_every_answer_of_every_version_can_be_looked_at() -> None:
    for api_key in APIS:
        for version in versions(api_key):
            errors_of(codec.response_class(api_key, version))
            position_of_error(codec.response_class(api_key, version))


# A filter is stated once: field, name in the message, first version.


KINDS: list[tuple[int, type[Filters]]] = [(66, TransactionFilters), (16, GroupFilters)]


def set_all(filters_class: type[Filters]) -> Filters:
    """All filters, each with a value that filters something out."""
    off_filters = filters_class()
    values = {field_name: getattr(off_filters, field_name) for field_name in filters_class.NAMES}
    return filters_class(
        **{
            name: 0
            if isinstance(record_value, int)
            else ("x",)
            if isinstance(record_value, tuple)
            else "x"
            for name, record_value in values.items()
        }
    )


@pytest.mark.parametrize(("api_key", "filters_class"), KINDS)
def test_every_field_of_a_request_that_filters_is_a_filter(
    api_key: int, filters_class: type[Filters]
) -> None:
    """A field that a version brings can't be forgotten, and no filter is without its name."""
    assert tuple(filters_class.NAMES) == filters_class.__struct_fields__, (
        "NAMES has the order of the fields"
    )
    for version in versions(api_key):
        field_map = codec.request_class(api_key, version).__dataclass_fields__
        fields = {name for name in field_map if not name.startswith("_")}
        assert fields == {row.field for row in filters_class.NAMES.values() if row.since <= version}


@pytest.mark.parametrize(("api_key", "filters_class"), KINDS)
def test_what_is_said_is_read_and_what_a_version_can_not_say_is_off(
    api_key: int, filters_class: type[Filters]
) -> None:
    filters = set_all(filters_class)
    off_filters = filters_class()
    for version in versions(api_key):
        read_filters = filters_class.of(
            codec.build(codec.request_class(api_key, version), **filters.fields())
        )
        for field_name, row in filters_class.NAMES.items():
            assert getattr(read_filters, field_name) == getattr(
                filters if row.since <= version else off_filters, field_name
            )


def test_a_version_that_can_not_say_a_filter_is_refused_only_where_it_is_set() -> None:
    filters = TransactionFilters(duration_ms=0)
    assert filters.refusal(1) is None
    assert "API version 1 or higher" in str(filters.refusal(0))
    assert "API version 2 or higher" in str(TransactionFilters(pattern="x").refusal(1))
    assert TransactionFilters(duration_ms=-7, pattern="").refusal(0) is None
    assert TransactionFilters(pattern="").fields()["transactional_id_pattern"] is None


def test_a_number_that_its_field_can_not_hold_is_named() -> None:
    with pytest.raises(ValueError, match="duration_ms: 9223372036854775808 does not fit in 64"):
        TransactionFilters(duration_ms=1 << 63).fields()
    assert TransactionFilters(duration_ms=(1 << 63) - 1).fields()["duration_filter"] > 0


@pytest.mark.parametrize(("api_key", "filters_class"), KINDS)
def test_a_filter_is_as_wide_as_its_field(api_key: int, filters_class: type[Filters]) -> None:
    rows = {
        row.name: row for row in describe(codec.request_class(api_key, versions(api_key)[-1])).plain
    }
    numbers = [
        filter_name
        for field_name, filter_name in filters_class.NAMES.items()
        if isinstance(getattr(filters_class(), field_name), int)
    ]
    assert [f"int{filter_name.bits}" for filter_name in numbers] == [
        rows[filter_name.field].kind for filter_name in numbers
    ]


def test_a_listener_may_read_a_filter_otherwise() -> None:
    request = codec.build(codec.request_class(66, 2), **TransactionFilters(duration_ms=5).fields())
    assert TransactionFilters.of(request, duration_ms=-1) == TransactionFilters()


def test_schema_module_holds_message_and_parts() -> None:
    module = registry.load_schema(0, 12, part="request")
    assert {"ProduceRequest", "TopicProduceData", "PartitionProduceData"} <= set(dir(module))


@pytest.mark.parametrize(("api_key", "version"), [(26, 6), (0, 2), (26, -1), (93, 1)])
def test_unknown_version_is_refused_by_name(api_key: int, version: int) -> None:
    with pytest.raises(UnsupportedRequestError, match=rf"has no version {version}"):
        registry.load_schema(api_key, version, part="request")


def test_unknown_key_is_refused() -> None:
    with pytest.raises(UnsupportedRequestError, match="API key 4 is unknown"):
        registry.load_schema(4, 0, part="request")


def test_own_messages_stand_beside_those_of_kio() -> None:
    assert registry.versions(65) == (0, 1)
    assert registry.load_schema(65, 1, part="request") is registry.load_schema(
        65, 1, part="response"
    )
    assert registry.versions(27) == (0, 1, 2)
    assert registry.load_schema(27, 0, part="request") is registry.load_schema(
        27, 0, part="response"
    )


def test_names_of_other_versions_are_known() -> None:
    # producer_epoch came to EndTxnResponse with version 5.
    for _ in range(2):
        registry.check_known(response_class(26, 0), {"producer_epoch": 0})
    # The newest AddPartitionsToTxnRequest has no such field, the oldest has.
    registry.check_known(request_class(24, 5), {"v3_and_below_transactional_id": "t"})


def test_slip_of_the_pen_is_found() -> None:
    with pytest.raises(TypeError, match="no version of EndTxnResponse has a field 'produer_id'"):
        registry.check_known(response_class(26, 0), {"producer_id": 0, "produer_id": 0})


def test_rows_follow_the_wire_order() -> None:
    rows = describe(request_class(26, 5))
    assert rows.flexible
    assert [(row.name, row.kind) for row in rows.plain] == [
        ("transactional_id", "string"),
        ("producer_id", "int64"),
        ("producer_epoch", "int16"),
        ("committed", "bool"),
    ]
    assert rows.tagged == ()


def test_arrays_of_entities_and_of_primitives_differ() -> None:
    topics = describe(request_class(24, 3)).plain[-1]
    assert (topics.kind, topics.array, topics.nullable) == (ENTITY, True, False)
    partitions = describe(topics.entity).plain[-1]
    assert (partitions.kind, partitions.array, partitions.entity) == ("int32", True, None)


def test_null_is_allowed_where_the_annotation_says_so() -> None:
    transactional_id_row, acks_row, *_ = describe(request_class(0, 9)).plain
    assert transactional_id_row.nullable
    assert transactional_id_row.default is None
    assert not acks_row.nullable
    assert acks_row.default is REQUIRED


def test_tagged_fields_ascend_and_always_have_a_default() -> None:
    rows = describe(response_class(18, 4))
    assert [row.tag for row in rows.tagged] == [0, 1, 2, 3]
    assert [row.default for row in rows.tagged] == [(), -1, (), False]


def test_tagged_field_without_written_default_has_the_types_own() -> None:
    [leader] = describe(response_class(82, 0)).tagged
    assert leader.default == response_schema(82, 0).CurrentLeader(host="", port=0)


def test_names_are_kafkas() -> None:
    assert api_name(26) == "EndTxn"
    assert api_name(API_VERSIONS) == "ApiVersions"


def test_unknown_key_has_a_name_fit_for_a_message() -> None:
    assert api_name(4) == "ApiKey(4)"


@pytest.mark.parametrize(
    ("api_key", "first_version"), [(0, 9), (18, 3), (22, 2), (24, 3), (26, 3), (27, 1), (65, 0)]
)
def test_flexible_from_a_version_on(api_key: int, first_version: int) -> None:
    assert is_flexible(api_key, first_version)
    assert is_flexible(api_key, 99)
    assert not is_flexible(api_key, first_version - 1)


@pytest.mark.parametrize("api_key", [17, 4, 999])
def test_old_and_unknown_apis_are_never_flexible(api_key: int) -> None:
    assert not is_flexible(api_key, 32767)


def test_keys_ascend() -> None:
    assert list(APIS) == sorted(APIS)
