"""A history: all observations of clients while a cluster was used, in order.

Clients add observations as their answers arrive; checkers only read. A history is written and read
as JSON lines, so histories from other sources can be judged, for example of a real cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from txnsim.types import TopicPartition
from txnsim_lab.check.observations import (
    Added,
    Began,
    Ended,
    Isolation,
    Outcome,
    Read,
    Seen,
    SentOffsets,
    ShareFetched,
    Wrote,
)

SeenT = TypeVar("SeenT", bound=Seen)
DerivedT = TypeVar("DerivedT")

_ENCODER: Final = msgspec.json.Encoder()


@cache
def _make_decoder() -> msgspec.json.Decoder[Seen]:
    return msgspec.json.Decoder(Seen)


class HistoryError(Exception):
    """The file is no history, or a history that can't be judged; the message says where and why."""


def require_answers(history: History) -> None:
    """Refuse a history that no judge could object to, because no broker answered anything in it.

    Raises:
        HistoryError: It is empty, or holds only calls and requests without an answer.
    """
    if not len(history):
        raise HistoryError("no observation in it: nothing was judged")
    if not any(_is_answer(observation) for observation in history):
        raise HistoryError("no answer of a broker in it: nothing was judged")


def _is_answer(observation: Seen) -> bool:
    outcome = getattr(observation, "outcome", Outcome.OK)
    return not isinstance(observation, Began) and outcome is not Outcome.UNKNOWN


class History:
    """Observations in order; more can be added."""

    __slots__ = ("_derived_by_function", "_observations")

    def __init__(self, observations: Iterable[Seen] = ()) -> None:
        self._observations: list[Seen] = list(observations)
        self._derived_by_function: dict[object, tuple[int, Any]] = {}

    def add(self, observation: Seen) -> None:
        """Add an observation, which is later than all before."""
        self._observations.append(observation)

    # As a sequence

    def __len__(self) -> int:
        return len(self._observations)

    def __iter__(self) -> Iterator[Seen]:
        return iter(self._observations)

    def __getitem__(self, index: int) -> Seen:
        return self._observations[index]

    def until(self, observation_count: int) -> History:
        """The first observations of the history, up to a number."""
        return History(self._observations[:observation_count])

    # Queries

    def derived(self, derive: Callable[[History], DerivedT]) -> DerivedT:
        """The function's result for this history, computed once for all judges."""
        length, derived_value = self._derived_by_function.get(derive, (-1, None))
        if length != len(self):
            derived_value = derive(self)
            self._derived_by_function[derive] = (len(self), derived_value)
        value: DerivedT = derived_value
        return value

    def all_of(self, kind: type[SeenT]) -> Iterator[tuple[int, SeenT]]:
        """Every observation of one kind, with its index."""
        return _observations_of(kind, enumerate(self._observations))

    def writes(self) -> Iterator[tuple[int, Wrote]]:
        """Every record that was sent."""
        return self.all_of(Wrote)

    def reads(
        self, partition: TopicPartition | None = None, *, isolation: Isolation | None = None
    ) -> Iterator[tuple[int, Read]]:
        """Every Fetch that brought no error."""
        candidates = self.derived(_reads).get(partition, ()) if partition else self.all_of(Read)
        for index, read in candidates:
            if read.error:
                continue
            if isolation in (None, read.isolation):
                yield index, read

    def committed_reads(
        self, partition: TopicPartition | None = None
    ) -> Iterator[tuple[int, Read]]:
        """Every read_committed Fetch that brought no error."""
        return self.reads(partition, isolation=Isolation.READ_COMMITTED)

    def unread_partitions(self) -> list[TopicPartition]:
        """The partitions with an acknowledged record that no reader was given anything of, sorted:
        whether their records are lost, repeated or torn is not seen.
        """
        written = {write.place for _, write in self.writes() if write.outcome is Outcome.OK}
        read = {read.place for _, read in self.reads()}
        shared = {
            fetch.place for _, fetch in self.all_of(ShareFetched) if fetch.outcome is Outcome.OK
        }
        return sorted(written - read - shared)

    def transactions(self) -> Mapping[str, Transaction]:
        """Every transaction by its label, in the order of their first observation."""
        return self.derived(_build_transactions)

    def transaction_of(
        self, observation: Added | Wrote | SentOffsets | Ended
    ) -> Transaction | None:
        """The transaction that an observation is about; None outside of one."""
        return (
            None
            if observation.transaction is None
            else self.transactions()[observation.transaction]
        )

    # JSON lines

    def to_lines(self) -> bytes:
        """The history as JSON lines."""
        return b"".join(_ENCODER.encode(observation) + b"\n" for observation in self._observations)

    @classmethod
    def from_lines(cls, json_lines: bytes) -> History:
        """Read a history from JSON lines; empty lines and lines with ``#`` are skipped.

        Raises:
            HistoryError: A line is no observation.
        """
        history = cls()
        for line_number, line in enumerate(json_lines.split(b"\n"), 1):
            if not line.strip() or line.lstrip().startswith(b"#"):
                continue
            try:
                history.add(_make_decoder().decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise HistoryError(f"line {line_number}: {error}") from None
        return history


def _observations_of(
    kind: type[SeenT], indexed_observations: Iterable[tuple[int, Seen]]
) -> Iterator[tuple[int, SeenT]]:
    return (
        (index, observation)
        for index, observation in indexed_observations
        if isinstance(observation, kind)
    )


def _reads(history: History) -> dict[TopicPartition, list[tuple[int, Read]]]:
    by_partition: dict[TopicPartition, list[tuple[int, Read]]] = defaultdict(list)
    for index, read in history.all_of(Read):
        by_partition[read.place].append((index, read))
    return by_partition


def _build_transactions(history: History) -> dict[str, Transaction]:
    by_label: dict[str, list[tuple[int, Seen]]] = defaultdict(list)
    for index, observation in enumerate(history):
        label = getattr(observation, "transaction", None)
        if label is not None:
            by_label[label].append((index, observation))
    return {
        label: _build_transaction(label, observations) for label, observations in by_label.items()
    }


def _build_transaction(label: str, observations: Sequence[tuple[int, Seen]]) -> Transaction:
    heard_of, first_observation = observations[0]
    owners = [
        begin_observation.transactional_id
        for _, begin_observation in _observations_of(Began, observations)
    ]
    return Transaction(
        label=label,
        transactional_id=owners[-1] if owners else None,
        first_known_index=heard_of,
        heard_of_ms=first_observation.at_ms,
        writes=tuple(_observations_of(Wrote, observations)),
        positions=tuple(_observations_of(SentOffsets, observations)),
        reads=tuple(_observations_of(Read, observations)),
        ends=tuple(_observations_of(Ended, observations)),
    )


class TransactionFate(msgspec.Struct, frozen=True):
    """The end of a transaction, according to the answers to its producer."""

    is_committed: bool = False
    """Whether a commit was acknowledged."""
    may_be_committed: bool = False
    """Whether a commit was requested and it is unknown whether it took effect."""
    is_aborted: bool = False
    """Whether the transaction was to end and no commit can have taken effect: the commit was
    refused, or an abort was requested. The answer to the abort does not matter.
    """

    @property
    def is_undecided(self) -> bool:
        """Whether no observation requests an end."""
        return not (self.is_committed or self.may_be_committed or self.is_aborted)


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction as its producer saw it; each observation with its index in the history."""

    label: str
    transactional_id: str | None
    """None if no observation shows the beginning of the transaction."""
    first_known_index: int
    """Index of the first observation that names it."""
    heard_of_ms: int
    writes: tuple[tuple[int, Wrote], ...]
    positions: tuple[tuple[int, SentOffsets], ...]
    reads: tuple[tuple[int, Read], ...]
    ends: tuple[tuple[int, Ended], ...]

    @property
    def acknowledged(self) -> tuple[tuple[int, Wrote], ...]:
        """The records that were acknowledged."""
        return tuple(
            index_and_write
            for index_and_write in self.writes
            if index_and_write[1].outcome is Outcome.OK
        )

    @property
    def fate(self) -> TransactionFate:
        """The end of the transaction, according to the answers to its producer."""
        commit_outcomes = {
            end_observation.outcome for _, end_observation in self.ends if end_observation.commit
        }
        if Outcome.OK in commit_outcomes:
            return TransactionFate(is_committed=True)
        if Outcome.UNKNOWN in commit_outcomes:
            return TransactionFate(may_be_committed=True)
        return TransactionFate(is_aborted=bool(self.ends))
