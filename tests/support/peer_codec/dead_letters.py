"""Dead letters on their way to their topic, as Kafka's Produce; topics travel by id."""

from __future__ import annotations

from typing import Any

from txnsim.interbroker.dead_letters import DeadLettersCommand, DeadLettersReply
from txnsim.types import TopicPartition
from txnsim.wire import codec


class Request:
    """Produce of one batch, with acks=all."""

    def to_message(self, schema: Any, command: DeadLettersCommand) -> Any:
        """A command as a Produce request."""
        partition = codec.build(
            schema.PartitionProduceData,
            index=command.topic_partition.partition,
            records=command.batch,
        )
        topic = codec.build(
            schema.TopicProduceData, topic_id=command.topic_id, partition_data=(partition,)
        )
        return codec.build(
            schema.ProduceRequest,
            transactional_id=None,
            acks=-1,
            timeout=30_000,
            topic_data=(topic,),
        )

    def from_message(self, message: Any) -> DeadLettersCommand:
        """A Produce request as a command; the name of the topic is lost."""
        (topic,) = message.topic_data
        (partition,) = topic.partition_data
        return DeadLettersCommand(
            topic_id=topic.topic_id,
            topic_partition=TopicPartition("", partition.index),
            batch=bytes(partition.records),
        )


class Response:
    """The response to a Produce of dead letters."""

    def to_message(self, schema: Any, reply: DeadLettersReply) -> Any:
        """A reply as a Produce response."""
        partition = codec.build(
            schema.PartitionProduceResponse,
            index=reply.topic_partition.partition,
            error_code=reply.error,
            base_offset=-1,
            log_append_time=None,
            record_errors=(),
        )
        topic = codec.build(
            schema.TopicProduceResponse, topic_id=reply.topic_id, partition_responses=(partition,)
        )
        return codec.build(schema.ProduceResponse, responses=(topic,))

    def from_message(self, message: Any) -> DeadLettersReply:
        """A Produce response as a reply; the name of the topic is lost."""
        (topic,) = message.responses
        (partition,) = topic.partition_responses
        return DeadLettersReply(
            topic_id=topic.topic_id,
            topic_partition=TopicPartition("", partition.index),
            error=partition.error_code,
        )
