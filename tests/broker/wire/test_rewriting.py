from __future__ import annotations

from typing import Any

from txnsim.wire import codec
from txnsim.wire.rewriting import (
    BOOLEAN_FIELD,
    LIST_FIELD,
    NUMBER_FIELD,
    OTHER_FIELD,
    element_misfit,
    response_field_kinds,
    rewrite_field,
    with_list_element,
)
from txnsim.wire.values import LazyRows

PRODUCE, FETCH, OFFSET_FETCH, METADATA = 0, 1, 9, 3


def test_an_answers_fields_are_those_of_all_versions_and_rows() -> None:
    fields = response_field_kinds(FETCH)
    assert fields["aborted_transactions"] == LIST_FIELD
    assert fields["last_stable_offset"] == NUMBER_FIELD
    assert fields["topic"] == fields["topic_id"] == OTHER_FIELD  # of v12 and v13
    assert response_field_kinds(OFFSET_FETCH)["committed_offset"] == NUMBER_FIELD
    assert response_field_kinds(METADATA)["is_internal"] == BOOLEAN_FIELD


def test_a_field_is_changed_wherever_it_stands_and_nothing_else() -> None:
    schema = codec.response_schema(OFFSET_FETCH, 8)
    rows = tuple(
        codec.build(
            schema.OffsetFetchResponsePartitions,
            partition_index=partition_index,
            committed_offset=10 * partition_index,
            metadata="",
            error_code=0,
        )
        for partition_index in range(2)
    )
    topic = codec.build(schema.OffsetFetchResponseTopics, name="in", partitions=rows)
    group = codec.build(schema.OffsetFetchResponseGroup, group_id="g", topics=(topic,))
    answer = codec.build(schema.OffsetFetchResponse, throttle_time=0, groups=(group,))
    off = rewrite_field(answer, "committed_offset", lambda offset: offset + 5)
    (found_topic,) = off.groups[0].topics
    assert [row.committed_offset for row in found_topic.partitions] == [5, 15]
    assert [row.partition_index for row in found_topic.partitions] == [0, 1]
    assert rewrite_field(answer, "no_such_field", lambda _: 1) is answer
    assert codec.encode_body(off) != codec.encode_body(answer)


def test_rows_that_are_made_when_they_are_encoded_are_changed_too() -> None:
    schema = codec.response_schema(PRODUCE, 9)

    def error(batch_index: int) -> Any:
        return schema.BatchIndexAndErrorMessage(
            batch_index=batch_index, batch_index_error_message="old"
        )

    part = codec.build(
        schema.PartitionProduceResponse,
        index=0,
        error_code=0,
        base_offset=0,
        record_errors=LazyRows(error, range(3)),
    )
    changed_partition = rewrite_field(part, "batch_index_error_message", lambda _: "new")
    assert [
        record_error.batch_index_error_message for record_error in changed_partition.record_errors
    ] == ["new"] * 3
    assert [record_error.batch_index for record_error in changed_partition.record_errors] == [
        0,
        1,
        2,
    ]


def test_an_entry_is_put_behind_those_of_a_list_also_where_there_are_none() -> None:
    schema = codec.response_schema(FETCH, 12)
    entry = {"producer_id": 7, "first_offset": 3}

    def answer(aborted: tuple[Any, ...] | None) -> Any:
        partition = codec.build(
            schema.PartitionData,
            partition_index=0,
            error_code=0,
            high_watermark=9,
            aborted_transactions=aborted,
            records=None,
        )
        topic = codec.build(schema.FetchableTopicResponse, topic="t", partitions=(partition,))
        return codec.build(
            schema.FetchResponse, throttle_time=0, error_code=0, session_id=0, responses=(topic,)
        )

    def aborted_rows(message: Any) -> list[tuple[int, int]]:
        (topic,) = message.responses
        rows = topic.partitions[0].aborted_transactions
        return [(row.producer_id, row.first_offset) for row in rows]

    old_entry = codec.build(schema.AbortedTransaction, producer_id=1, first_offset=0)
    for entries, entries_after in ((None, []), ((), []), ((old_entry,), [(1, 0)])):
        changed_answer = with_list_element(answer(entries), "aborted_transactions", entry)
        assert aborted_rows(changed_answer) == [*entries_after, (7, 3)]
        assert codec.encode_body(changed_answer)
    assert with_list_element(old_entry, "aborted_transactions", entry) is old_entry


def test_an_entry_that_a_list_can_not_have_is_named() -> None:
    assert (
        element_misfit(FETCH, "aborted_transactions", {"producer_id": 7, "first_offset": 3}) is None
    )
    assert (
        element_misfit(FETCH, "aborted_transactions", {"producer_id": 7})
        == "first_offset is missing"
    )
    misfit = element_misfit(FETCH, "aborted_transactions", {"producer": 7, "first_offset": 3})
    assert misfit is not None
    assert misfit.startswith("no field 'producer'; did you mean producer_id?")
    text = element_misfit(FETCH, "aborted_transactions", {"producer_id": "x", "first_offset": 3})
    assert text == "producer_id is a number"
    assert element_misfit(METADATA, "replica_nodes", {"a": 1}) == "it is no list of rows"
