"""What the five requests to a share coordinator share: each lists partitions of one group, by
topic.

Each partition becomes a command, and gets its own answer. Fields of the same name in a message and
its command, or in an answer and its message, are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject
from txnsim.interbroker.share_state import ShareKey
from txnsim.node.peers import ShareAnswer, ShareCommand
from txnsim.share_state.log_format import state_batch
from txnsim.types import TopicPartition, uuid_text
from txnsim.wire import codec


def handler_of(
    command_class: Callable[..., ShareCommand], *, needs_partitions: bool = True
) -> Callable[[Request], Coroutine[Any, Any, Reply]]:
    """Make a handler.

    Args:
        command_class: Class of the command for each partition.
        needs_partitions: If True, one topic without partitions makes the answer empty; otherwise
            such a topic is skipped.
    """
    return partial(_handle, command_class=command_class, needs_partitions=needs_partitions)


async def _handle(
    request: Request, *, command_class: Callable[..., ShareCommand], needs_partitions: bool
) -> Reply:
    message = request.message
    is_complete = all(topic.partitions for topic in message.topics) or not needs_partitions
    if not message.group_id or not is_complete:
        return _answer(request, {})
    requested_partitions = [
        (
            topic,
            partition_row,
            ShareKey(message.group_id, uuid_text(topic.topic_id), partition_row.partition),
        )
        for topic in message.topics
        for partition_row in topic.partitions
    ]
    request.expect(len(requested_partitions))
    commands = []
    for _, partition_row, share_key in requested_partitions:
        command_fields = _command_fields(command_class, partition_row)
        if hasattr(partition_row, "state_batches"):
            command_fields["batches"] = tuple(
                await request.map_each(state_batch, partition_row.state_batches)
            )
        commands.append(command_class(key=share_key, **command_fields))
        await request.note_done(1)
    share_answers = await request.broker.peer_requests.share_state(request.api_key, commands)
    # Of what is named twice the last answer counts.
    results_by_topic: dict[Any, dict[int, Any]] = {}
    for (topic, partition_row, _), share_answer in zip(
        requested_partitions, share_answers, strict=True
    ):
        results_by_topic.setdefault(topic.topic_id, {})[partition_row.partition] = (
            _partition_result(request, share_answer)
        )
        request.expect(len(getattr(share_answer, "batches", ())))
        await request.note_done(1)
    return _answer(request, results_by_topic)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    zero_values = {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": ()}
    result_class = request.schema.PartitionResult
    zero_fields = {
        field_name: zero_value
        for field_name, zero_value in zero_values.items()
        if field_name in result_class.__dataclass_fields__
    }
    return _answer(
        request,
        {
            topic.topic_id: {
                partition_row.partition: result_class(
                    partition=partition_row.partition,
                    error_code=error,
                    error_message=error.name,
                    **zero_fields,
                )
                for partition_row in topic.partitions
            }
            for topic in request.message.topics
        },
    )


def subject(request: Request) -> Subject:
    """For fault rules: the partitions of topics that exist."""
    name_by_topic_id = request.broker.image.topic_names
    return Subject(
        partitions=tuple(
            TopicPartition(name_by_topic_id[topic.topic_id], partition_row.partition)
            for topic in request.message.topics
            if topic.topic_id in name_by_topic_id
            for partition_row in topic.partitions
        )
    )


def _command_fields(command_class: Any, partition_row: Any) -> dict[str, Any]:
    return {
        field_name: getattr(partition_row, field_name)
        for field_name in command_class.__struct_fields__
        if hasattr(partition_row, field_name)
    }


def _partition_result(request: Request, share_answer: ShareAnswer) -> Any:
    schema = request.schema
    answer_fields = msgspec.structs.asdict(share_answer)
    share_key, state_batches = answer_fields.pop("key"), answer_fields.pop("batches", None)
    if state_batches is not None:
        answer_fields["state_batches"] = state_batches  # they have the fields of the message's
    return codec.build(
        schema.PartitionResult,
        partition=share_key.partition,
        error_code=ErrorCode(answer_fields.pop("error")),
        error_message=answer_fields.pop("message"),
        **answer_fields,
    )


def _answer(request: Request, results_by_topic: dict[Any, dict[int, Any]]) -> Reply:
    """Build the answer. The class of its topics is the one whose name ends with Result, besides
    PartitionResult.
    """
    schema = request.schema
    (topic_class,) = (
        getattr(schema, class_name)
        for class_name in vars(schema)
        if class_name.endswith("Result") and class_name != "PartitionResult"
    )
    return codec.response_class(request.api_key, request.api_version)(
        results=tuple(
            topic_class(topic_id=topic_id, partitions=tuple(row_by_index.values()))
            for topic_id, row_by_index in results_by_topic.items()
        )
    )
