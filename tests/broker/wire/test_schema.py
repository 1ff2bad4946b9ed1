from __future__ import annotations

from txnsim.wire._schema import ENTITY, REQUIRED, describe
from txnsim.wire.codec import request_class, response_class, response_schema


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
    transactional_id, acks, *_ = describe(request_class(0, 9)).plain
    assert transactional_id.nullable
    assert transactional_id.default is None
    assert not acks.nullable
    assert acks.default is REQUIRED


def test_tagged_fields_ascend_and_always_have_a_default() -> None:
    rows = describe(response_class(18, 4))
    assert [row.tag for row in rows.tagged] == [0, 1, 2, 3]
    assert [row.default for row in rows.tagged] == [(), -1, (), False]


def test_tagged_field_without_written_default_has_the_types_own() -> None:
    [leader] = describe(response_class(82, 0)).tagged
    assert leader.default == response_schema(82, 0).CurrentLeader(host="", port=0)
