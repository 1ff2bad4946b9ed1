"""What golden bytes can't show. The bytes of every message are compared in tests/broker/wire."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kio.serial import entity_reader

from txnsim.wire.codec import (
    build,
    encode_body,
    encode_in_steps,
    request_class,
    request_schema,
    response_class,
    response_schema,
)
from txnsim.wire.encoder import maker


def nothing_dropped(cls: Any, values: dict[str, object]) -> None:
    raise AssertionError((cls, values))


def test_constructor_fills_in_the_defaults() -> None:
    cls = response_class(26, 5)
    made = maker(cls, nothing_dropped)(throttle_time=0, error_code=0)
    assert made == cls(throttle_time=0, error_code=0)
    assert made.producer_id == -1


def test_constructor_of_a_message_without_fields() -> None:
    cls = request_class(18, 0)
    assert maker(cls, nothing_dropped)() == cls()
    assert encode_body(cls()) == b""


def test_constructor_reports_what_it_has_no_field_for() -> None:
    dropped: list[dict[str, object]] = []
    make = maker(request_class(18, 0), lambda _, values: dropped.append(values))
    make(client_software_name="x")
    assert dropped == [{"client_software_name": "x"}]


@pytest.mark.parametrize(
    ("message", "elements"),
    [
        (build(response_class(26, 5), throttle_time=0, error_code=0), 0),
        (
            build(
                response_class(18, 0),
                error_code=0,
                api_keys=[
                    build(
                        response_schema(18, 0).ApiVersion, api_key=k, min_version=0, max_version=1
                    )
                    for k in range(100)
                ],
            ),
            100,
        ),
    ],
    ids=["no elements", "elements"],
)
def test_steps_give_the_same_bytes(message: Any, elements: int) -> None:
    for _ in ("compiled", "found"):
        pieces: list[bytes] = []
        done = sum(encode_in_steps(message, pieces))
        assert b"".join(pieces) == encode_body(message)
        assert (done > 0) is (elements > 0)


def test_elements_of_elements_are_steps_too() -> None:
    schema = request_schema(19, 4)
    assignments = [
        build(schema.CreatableReplicaAssignment, partition_index=at, broker_ids=(1,))
        for at in range(100)
    ]
    topic = build(
        schema.CreatableTopic,
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=assignments,
        configs=(),
    )
    message = build(request_class(19, 4), topics=[topic], timeout=1)
    pieces: list[bytes] = []
    assert sum(encode_in_steps(message, pieces)) > 0
    assert b"".join(pieces) == encode_body(message)


def test_an_element_that_is_there_again_is_encoded_once_and_written_as_often() -> None:
    schema = request_schema(19, 4)
    first, second = (
        build(
            schema.CreatableTopic,
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=(),
            configs=(),
        )
        for name in ("t", "u")
    )
    message = build(request_class(19, 4), topics=(first, second, first), timeout=1)
    pieces: list[bytes] = []
    assert sum(encode_in_steps(message, pieces)) > 0
    assert b"".join(pieces) == encode_body(message)


def test_missing_value_is_an_error() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'error_code'"):
        maker(response_class(26, 5), nothing_dropped)(throttle_time=0)


def test_tag_at_its_default_is_left_out() -> None:
    cls, schema = response_class(18, 4), response_schema(18, 4)
    plain = build(cls, error_code=0, api_keys=(), throttle_time=0)
    assert encode_body(plain) == bytes.fromhex("0000010000000000")
    feature = build(schema.FinalizedFeatureKey, name="f", max_version_level=2, min_version_level=1)
    tagged = build(cls, error_code=0, api_keys=(), throttle_time=0, finalized_features=(feature,))
    assert encode_body(tagged) == bytes.fromhex("0000 01 00000000 01 02 08 02 0266 0002 0001 00")


@pytest.mark.parametrize("size", [126, 127, 128, 1022, 1023, 1024, 20000])
def test_lengths_around_their_limits(size: int) -> None:
    cls = request_class(26, 5)
    message = build(
        cls, transactional_id="x" * size, producer_id=1, producer_epoch=1, committed=False
    )
    assert entity_reader(cls)(encode_body(message), 0)[0] == message


@pytest.mark.parametrize("present", [False, True])
def test_struct_that_may_be_null_has_a_byte_before_it(*, present: bool) -> None:
    cls, schema = request_class(75, 0), request_schema(75, 0)
    cursor = build(schema.Cursor, topic_name="t", partition_index=1) if present else None
    message = build(cls, topics=(), response_partition_limit=9, cursor=cursor)
    struct = "01 0274 00000001 00" if present else "ff"
    assert encode_body(message) == bytes.fromhex(f"01 00000009 {struct} 00")


def test_ids_in_an_array_are_written_one_by_one() -> None:
    message = build(
        request_class(63, 1),
        broker_id=1,
        broker_epoch=2,
        current_metadata_offset=3,
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(UUID(int=7), None),
    )
    tag = "01 00 21 03" + "00" * 15 + "07" + "00" * 16
    assert encode_body(message).endswith(bytes.fromhex(tag))


def test_tags_are_written_in_ascending_order() -> None:
    cls = request_class(1, 17)
    message = build(
        cls,
        cluster_id="c",
        max_wait=0,
        min_bytes=0,
        isolation_level=0,
        topics=(),
        forgotten_topics_data=(),
        replica_state=build(request_schema(1, 17).ReplicaState, replica_id=1, replica_epoch=2),
    )
    tags = bytes.fromhex("02 00 02 0263 01 0d 00000001 0000000000000002 00")
    assert encode_body(message).endswith(tags)
