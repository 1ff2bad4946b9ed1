"""Which replicas and segments a query asks for."""

from __future__ import annotations

import msgspec

from txnsim_spark.log_query import Wanted
from txnsim_spark.scan.segments import Replica, SegmentFile

REPLICA = Replica(log_dir="/b1", broker=1, topic="orders", partition=2, path="/b1/orders-2")
SEGMENT = SegmentFile(
    replica=REPLICA, path="/b1/orders-2/10.log", base_offset=10, next_base_offset=20, size=1
)


def test_a_replica_is_chosen_by_each_part_of_its_place() -> None:
    assert Wanted().has_replica(REPLICA)
    right = {"log_dirs": "/b1", "brokers": 1, "topics": "orders", "partitions": 2}
    for field, value in right.items():
        found = msgspec.structs.replace(Wanted(), **{field: frozenset({value})})
        assert found.has_replica(REPLICA)
        other = msgspec.structs.replace(Wanted(), **{field: frozenset()})
        assert not other.has_replica(REPLICA)


def test_a_segment_is_left_out_only_where_it_can_not_hold_the_offset() -> None:
    assert Wanted(offset_max=10).has_segment(SEGMENT)
    assert not Wanted(offset_max=9).has_segment(SEGMENT)
    assert Wanted(offset_min=19).has_segment(SEGMENT)
    assert not Wanted(offset_min=20).has_segment(SEGMENT)
    last = msgspec.structs.replace(SEGMENT, next_base_offset=None)
    recovered = msgspec.structs.replace(SEGMENT, is_recovered=True)
    assert Wanted(offset_min=20).has_segment(last)
    assert Wanted(offset_min=20).has_segment(recovered)
