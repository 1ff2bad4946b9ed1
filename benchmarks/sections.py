"""``python -m benchmarks.sections``: what it gains to read one segment of 1 GB in sections.

CPU seconds of the walk of ``find-hanging``, CRCs included, in this process: over the whole segment,
and over each of six sections. From these follows what two cores gain that take turns, without what
Spark spends per task. The figures are CPU time, as other load disturbs it less.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.log_data import TOPIC, make_small_batches_log
from benchmarks.log_growth import LARGE_CASES
from txnsim_spark.forensics._read_compiled import walk_segments
from txnsim_spark.scan.sections import in_sections
from txnsim_spark.scan.segments import SegmentFile, replicas_in, segments_of

SECTIONS = 6
ROUNDS = 5


def main() -> None:
    directory = Path(make_small_batches_log(LARGE_CASES[0].scale).directory)
    (replica,) = replicas_in([directory], frozenset({TOPIC}))
    whole_segments = list(segments_of(replica))
    assert len(whole_segments) == 1
    began_s = time.process_time()
    segment_sections = in_sections(whole_segments, whole_segments[0].size // SECTIONS)
    planning_s = time.process_time() - began_s
    assert len(segment_sections) == SECTIONS
    _time_walk_s(segment_sections[:1])  # compiled now, if it was not
    speedups = []
    for _ in range(ROUNDS):
        whole_s = _time_walk_s(whole_segments)
        section_times_s = [_time_walk_s([segment_section]) for segment_section in segment_sections]
        busier_core_s = max(sum(section_times_s[0::2]), sum(section_times_s[1::2])) + planning_s
        speedups.append(whole_s / busier_core_s)
        sys.stdout.write(
            f"whole {whole_s:.2f} s, sections {sum(section_times_s):.2f} s in all,"
            f" {busier_core_s:.2f} s on the busier of two cores: {speedups[-1]:.2f} times as fast\n"
        )
        sys.stdout.flush()
    sys.stdout.write(
        f"median: {statistics.median(speedups):.2f} times; planned in {planning_s:.3f} s\n"
    )


def _time_walk_s(segments_or_sections: Sequence[SegmentFile]) -> float:
    began_s = time.process_time()
    for _ in walk_segments(segments_or_sections):
        pass
    return time.process_time() - began_s


if __name__ == "__main__":
    main()
