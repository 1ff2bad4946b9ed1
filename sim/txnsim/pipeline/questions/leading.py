"""For each partition of one topic, the replica that counts, read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from txnsim.pipeline.forensics.identity import identities_in
from txnsim.pipeline.forensics.replica_state import ReplicaState, notes_of, state_or_none
from txnsim.pipeline.forensics.verdicts import leading
from txnsim.pipeline.scan.log_dirs import OnProblem
from txnsim.pipeline.scan.segments import replicas_in


def leading_states(
    paths: Iterable[Path], topic: str, on_problem: OnProblem
) -> Iterator[ReplicaState]:
    """The state of each partition's leading replica, by partition.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        topic: Which topic.
        on_problem: Called with what can't be read.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
    """
    named = [path.absolute() for path in paths]
    identities = identities_in(named, frozenset({topic}), on_problem)
    for doubt in identities.undecided.values():
        on_problem(doubt)
    by_partition: dict[int, list[ReplicaState]] = {}
    for replica in replicas_in(named, frozenset({topic})):
        if identities.is_stale(replica):
            continue
        notes = notes_of(Path(replica.log_dir), on_problem)
        state = state_or_none(replica, notes, on_problem)
        if state is not None:
            by_partition.setdefault(replica.partition, []).append(state)
    for _, states in sorted(by_partition.items()):
        first = leading([state.ends for state in states])
        yield next(state for state in states if state.ends is first)
