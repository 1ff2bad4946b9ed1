"""Each judge beside its definition: who convicts, and a smallest history where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tests.lab.checkers.brute_force import (
    producers,
    promises,
    reads_and_writes,
    share_groups,
    what_goes_on,
)
from tests.lab.checkers.brute_force.facts import (
    FAILED,
    NOT_TOLD,
    Observations,
    every,
    with_distinct_names,
)
from tests.lab.checkers.brute_force.small_histories import small_history
from txnsim.runtime.rng import RandomStreams
from txnsim_lab.check.anomaly import Kind
from txnsim_lab.check.history import History, HistoryError
from txnsim_lab.check.judge import judge
from txnsim_lab.check.observations import Seen, Wrote

REFUSED: Final = "refused"
"""Instead of a verdict: the history gives one name to two records."""

DEFINITIONS: Final[Mapping[Kind, Callable[[Observations], bool]]] = MappingProxyType(
    {
        Kind.DIRTY_WRITE: reads_and_writes.dirty_write,
        Kind.ABORTED_READ: lambda lines: (
            reads_and_writes.aborted_read(lines) or share_groups.aborted_delivery(lines)
        ),
        Kind.INTERMEDIATE_READ: reads_and_writes.intermediate_read,
        Kind.CIRCULAR_INFORMATION_FLOW: reads_and_writes.circular_information_flow,
        Kind.LOST_UPDATE: reads_and_writes.lost_update,
        Kind.READ_SKEW: reads_and_writes.read_skew,
        Kind.LOST_WRITE: promises.lost_write,
        Kind.LOST_COMMIT: promises.lost_commit,
        Kind.TORN_TRANSACTION: promises.torn_transaction,
        Kind.DUPLICATE: promises.duplicate,
        Kind.OUT_OF_ORDER: promises.out_of_order,
        Kind.POSITIONS_BEFORE_DECISION: promises.positions_before_decision,
        Kind.SKIPPED_INPUT: promises.skipped_input,
        Kind.BEYOND_DELIVERY_LIMIT: share_groups.beyond_delivery_limit,
        Kind.DELIVERED_AFTER_ACKNOWLEDGEMENT: share_groups.delivered_after_acknowledgement,
        Kind.TWO_OWNERS: share_groups.two_owners,
        Kind.NEVER_DELIVERED: share_groups.never_delivered,
        Kind.READER_WENT_BACK: what_goes_on.reader_went_back,
        Kind.STARVING_READER: lambda lines: (
            what_goes_on.starving_reader(lines) or share_groups.starving_group(lines)
        ),
        Kind.STUCK_LAST_STABLE_OFFSET: what_goes_on.stuck_last_stable_offset,
        Kind.STUCK_COORDINATOR: what_goes_on.stuck_coordinator,
        Kind.FALSE_FENCING: producers.false_fencing,
        Kind.REFUSED_PRODUCER: producers.refused_producer,
        Kind.UNCLEANABLE_LOG: what_goes_on.uncleanable_log,
    }
)


def by_definition(observations: Observations) -> set[str]:
    """The anomalies of a history by the written definitions."""
    distinct_lines = with_distinct_names(observations)
    if _names_two_records(distinct_lines):
        return {REFUSED}
    return {
        str(definition_name)
        for definition_name, convicts in DEFINITIONS.items()
        if convicts(distinct_lines)
    }


def _names_two_records(observations: Observations) -> bool:
    writes = [
        observed_write
        for _, observed_write in every(observations, Wrote)
        if observed_write.outcome is not FAILED
    ]
    return any(
        observed_write.place == other_write.place
        and observed_write.value == other_write.value is not None
        and (
            observed_write.transaction != other_write.transaction
            or (
                NOT_TOLD not in (observed_write.offset, other_write.offset)
                and observed_write.offset != other_write.offset
            )
        )
        for observed_write in writes
        for other_write in writes
    )


def by_the_judges(observations: Observations) -> set[str]:
    try:
        return {str(observation_kind) for observation_kind in judge(History(observations)).kinds}
    except HistoryError:
        return {REFUSED}


def difference(observations: Observations) -> set[str]:
    return by_definition(observations) ^ by_the_judges(observations)


def shrunk(observations: Observations, kind: str) -> list[Seen]:
    """A history that differs in the same kind, of which no line can be left out."""
    kept_lines = list(observations)
    index = 0
    while index < len(kept_lines):
        fewer = [*kept_lines[:index], *kept_lines[index + 1 :]]
        if kind in difference(fewer):
            kept_lines, index = fewer, 0
        else:
            index += 1
    return kept_lines


def shown_difference(observations: Sequence[Seen], kind: str) -> str:
    """A history on which judge and definition differ, as text that can be judged again."""
    convicting_side = "the definition" if kind in by_definition(observations) else "the judge"
    return f"{kind}: only {convicting_side} convicts\n{History(observations).to_lines().decode()}"


# Many of them

SHOWN_MAX: Final = 3
"""Differences of one kind that are shrunk and shown."""


class Comparison:
    """Compares the judges with the definitions over many histories."""

    def __init__(self) -> None:
        self.histories = 0
        self.convicted: Counter[str] = Counter()
        """How many of them each judge has convicted."""
        self.differences: Counter[str] = Counter()
        self.shown: list[str] = []

    @property
    def idle(self) -> list[str]:
        """Judges that convicted no history, or all of them: the comparison proves nothing about
        them.
        """
        return [
            definition_name
            for definition_name in (*DEFINITIONS, REFUSED)
            if self.convicted[definition_name] in (0, self.histories)
        ]

    def add(self, seed: int) -> None:
        """Compare the judges with their definitions on one more history."""
        lines = small_history(RandomStreams(seed).stream("history"))
        defined, judged_kinds = by_definition(lines), by_the_judges(lines)
        self.histories += 1
        self.convicted.update(judged_kinds)
        for kind in sorted(defined ^ judged_kinds):
            self.differences[kind] += 1
            if self.differences[kind] <= SHOWN_MAX:
                self.shown.append(f"seed {seed}, {shown_difference(shrunk(lines, kind), kind)}")


def compare(seeds: Iterable[int]) -> Comparison:
    """Compare the judges with their definitions on the histories of these seeds."""
    comparison = Comparison()
    for seed in seeds:
        comparison.add(seed)
    return comparison
