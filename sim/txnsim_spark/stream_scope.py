"""Records in a checkpoint what a stream of ``kafka_log`` reads. A stream offset says how far a
stream has read. It means nothing for a stream of another table or cluster, or of rows that the
first stream left out: such a stream would silently skip rows. So an offset has a scope, and a
stream whose scope is not within it is refused. Offsets of older releases have no scope, and are
accepted. More topics or partitions are no mismatch: a partition that an offset does not name is
read from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from txnsim_spark.options import FORMAT, STARTING_OFFSETS, KafkaLogError, KafkaLogOptions


class CheckpointMismatchError(KafkaLogError):
    """A stream was started on the checkpoint of another one; the message names the difference."""


class StreamScope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rows that a stream reads."""

    table: str
    clusters: tuple[str, ...] = ()
    """Cluster ids of the log directories, as far as they are known."""
    producer_ids: tuple[int, ...] = ()
    """Ids of the producers that it reads; empty for all."""
    start_ms: int | None = None
    """Timestamp of the earliest rows; None for any."""
    starting_offsets: Mapping[str, int] = {}
    """Partition, such as ``orders-0`` -> the first offset that it reads; 0 where it
    is not named.
    """

    @classmethod
    def of(cls, options: KafkaLogOptions, clusters: frozenset[str]) -> StreamScope:
        return cls(
            table=options.table,
            clusters=tuple(sorted(clusters)),
            producer_ids=tuple(sorted(options.producer_ids)),
            start_ms=options.start_ms,
            starting_offsets={
                f"{topic}-{partition}": offset
                for topic, partitions in sorted(options.starting_offsets.items())
                for partition, offset in sorted(partitions.items())
            },
        )


def refuse_mismatch(checkpoint_scope: StreamScope | None, scope: StreamScope) -> None:
    """Refuse a stream that does not match its checkpoint.

    Args:
        checkpoint_scope: The scope in the checkpoint; None if an older release wrote it.
        scope: The scope of the stream.

    Raises:
        CheckpointMismatchError: The stream reads rows that the checkpoint has skipped.
    """
    for difference in () if checkpoint_scope is None else _differences(checkpoint_scope, scope):
        raise CheckpointMismatchError(
            f"format {FORMAT}: the checkpoint is of another stream: {difference}. Rows would be"
            " passed over: give this stream a checkpoint of its own"
        )


def refuse_other_logs(
    read_place_by_name: Mapping[str, int], place_by_name: Mapping[str, object]
) -> None:
    """Refuse directories without any partition of the checkpoint. (A topic that was created again
    has the old name; its old log does not matter here.)

    Raises:
        CheckpointMismatchError: They have none; the message names a log of each side.
    """
    if (
        read_place_by_name
        and place_by_name
        and _partition_names(read_place_by_name).isdisjoint(_partition_names(place_by_name))
    ):
        raise CheckpointMismatchError(
            f"format {FORMAT}: the checkpoint is of other directories: it has read"
            f" {min(read_place_by_name)}, and these hold {min(place_by_name)}. Give this stream a"
            " checkpoint of its own"
        )


def _partition_names(places: Iterable[str]) -> set[str]:
    """Partitions of log places: ``orders-0`` of ``orders-0:TOPICID@1``."""
    return {place.partition("@")[0].partition(":")[0] for place in places}


def _differences(checkpoint_scope: StreamScope, scope: StreamScope) -> Iterator[str]:
    if checkpoint_scope.table != scope.table:
        yield f"table {checkpoint_scope.table}, not {scope.table}"
    if checkpoint_scope.clusters and scope.clusters:
        unknown_clusters = sorted(set(checkpoint_scope.clusters) - set(scope.clusters))
        if unknown_clusters and not set(checkpoint_scope.clusters) & set(scope.clusters):
            yield f"cluster {unknown_clusters[0]}, not {scope.clusters[0]}"
    if checkpoint_scope.producer_ids and not (
        scope.producer_ids and set(scope.producer_ids) <= set(checkpoint_scope.producer_ids)
    ):
        yield (
            f"producerIds {_id_list(checkpoint_scope.producer_ids)}, not"
            f" {_id_list(scope.producer_ids)}"
        )
    if checkpoint_scope.start_ms is not None and (
        scope.start_ms is None or scope.start_ms < checkpoint_scope.start_ms
    ):
        yield f"startTimestamp {checkpoint_scope.start_ms}, not {scope.start_ms or 'the earliest'}"
    for partition, checkpoint_offset in checkpoint_scope.starting_offsets.items():
        start_offset = scope.starting_offsets.get(partition, 0)
        if start_offset < checkpoint_offset:
            yield f"{STARTING_OFFSETS} {checkpoint_offset} of {partition}, not {start_offset}"


def _id_list(producer_ids: tuple[int, ...]) -> str:
    return ",".join(map(str, producer_ids)) or "all"
