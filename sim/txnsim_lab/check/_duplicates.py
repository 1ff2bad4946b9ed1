"""One unit of work, visible twice.

For a reader of the output, exactly-once means that each item has one effect on a topic (KIP-98,
KIP-129). So the checker compares ``item``, the writer's name for the unit of work, and not the
bytes. A program that repeats its work after an unknown outcome writes other records for the same
items. A record without an item is an item of its own.
"""

from __future__ import annotations

from collections import defaultdict

from txnsim.types import TopicPartition
from txnsim_lab.check._visibility import visibility
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History


def duplicates(history: History) -> tuple[Anomaly, ...]:
    """Items of which read_committed readers got more than one record of a topic."""
    record_visibility = visibility(history)
    sights_by_item: dict[str, dict[tuple[TopicPartition, int], tuple[int, str]]] = defaultdict(dict)
    for (partition, value), sights in record_visibility.sights.items():
        writes_of_value = record_visibility.writers.get((partition, value), ())
        written_items = {write.item for _, write in writes_of_value}
        written_item = written_items.pop() if len(written_items) == 1 else None
        if written_item is None and len({write.transaction for _, write in writes_of_value}) != 1:
            continue  # of no program that was seen, or of several that used one name
        record_name = (
            f"{value!r} on {partition}"
            if written_item is None
            else f"item {written_item!r} on {partition.topic}"
        )
        for sight in sights:
            sights_by_item[record_name].setdefault((partition, sight.offset), (sight.index, value))
    anomalies = []
    for record_name, sight_by_offset in sorted(sights_by_item.items()):
        if len(sight_by_offset) > 1:
            offset_list = ", ".join(
                f"{value!r} at {partition}@{offset}"
                for (partition, offset), (_, value) in sight_by_offset.items()
            )
            evidence_indexes = [index for index, _ in sight_by_offset.values()]
            reason = f"{record_name} is visible {len(sight_by_offset)} times: {offset_list}"
            anomalies.append(convict(Kind.DUPLICATE, reason, *evidence_indexes))
    return tuple(anomalies)
