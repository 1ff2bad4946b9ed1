"""What the five requests to a share coordinator share: each lists partitions of one group, by
topic.

Each partition becomes a command, and gets its own answer. Fields of the same name in a message and
its command, or in an answer and its message, are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
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
    command: Callable[..., ShareCommand], *, needs_partitions: bool = True
) -> Callable[[Request], Coroutine[Any, Any, Reply]]:
    """Make a handler.

    Args:
        command: Class of the command for each partition.
        needs_partitions: If True, one topic without partitions makes the answer empty; otherwise
            such a topic is skipped.
    """

    async def handle(request: Request) -> Reply:
        message = request.message
        is_complete = all(topic.partitions for topic in message.topics) or not needs_partitions
        if not message.group_id or not is_complete:
            return _answer(request, {})
        keys = [
            (topic, part, ShareKey(message.group_id, uuid_text(topic.topic_id), part.partition))
            for topic in message.topics
            for part in topic.partitions
        ]
        request.expect(len(keys))
        commands = []
        for _, part, key in keys:
            values = _values(command, part)
            if hasattr(part, "state_batches"):
                values["batches"] = tuple(await request.map_each(state_batch, part.state_batches))
            commands.append(command(key=key, **values))
            await request.have_done(1)
        answers = await request.broker.share_state(request.api_key, commands)
        # Of what is named twice the last answer counts.
        results_by_topic: dict[Any, dict[int, Any]] = {}
        for (topic, part, _), answer in zip(keys, answers, strict=True):
            results_by_topic.setdefault(topic.topic_id, {})[part.partition] = _result(
                request, answer
            )
            request.expect(len(getattr(answer, "batches", ())))
            await request.have_done(1)
        return _answer(request, results_by_topic)

    return handle


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    zero = {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": ()}
    result = request.schema.PartitionResult
    zero_fields = {
        name: value for name, value in zero.items() if name in result.__dataclass_fields__
    }
    return _answer(
        request,
        {
            topic.topic_id: {
                part.partition: result(
                    partition=part.partition,
                    error_code=error,
                    error_message=error.name,
                    **zero_fields,
                )
                for part in topic.partitions
            }
            for topic in request.message.topics
        },
    )


def subject(request: Request) -> Subject:
    """The partitions of topics that exist."""
    names = request.broker.image.topic_names
    return Subject(
        partitions=tuple(
            TopicPartition(names[topic.topic_id], part.partition)
            for topic in request.message.topics
            if topic.topic_id in names
            for part in topic.partitions
        )
    )


def _values(command: Any, part: Any) -> dict[str, Any]:
    return {name: getattr(part, name) for name in command.__struct_fields__ if hasattr(part, name)}


def _result(request: Request, answer: ShareAnswer) -> Any:
    schema = request.schema
    values = msgspec.structs.asdict(answer)
    key, batches = values.pop("key"), values.pop("batches", None)
    if batches is not None:
        values["state_batches"] = batches  # they have the fields of the message's
    return codec.build(
        schema.PartitionResult,
        partition=key.partition,
        error_code=ErrorCode(values.pop("error")),
        error_message=values.pop("message"),
        **values,
    )


def _answer(request: Request, results_by_topic: dict[Any, dict[int, Any]]) -> Reply:
    """Build the answer. The class of its topics is the one whose name ends with Result, besides
    PartitionResult.
    """
    schema = request.schema
    (topic_result,) = (
        getattr(schema, name)
        for name in vars(schema)
        if name.endswith("Result") and name != "PartitionResult"
    )
    return codec.response_class(request.api_key, request.api_version)(
        results=tuple(
            topic_result(topic_id=topic_id, partitions=tuple(partitions.values()))
            for topic_id, partitions in results_by_topic.items()
        )
    )
