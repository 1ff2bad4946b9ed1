"""Answers about a trace after an event: the cluster's state, why each last stable offset stands
where it does, which producers leader and coordinator disagree about.

It is read from the trace alone, by the functions of ``txnsim explain``, in a thread beside the
brokers. A page asks about the newest event of a live cluster again and again, so the state is kept
between answers: reading a whole ring anew takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request

from txnsim.errors import BadInputError
from txnsim.http.operation import PREFIX, Noun, Operation, Query
from txnsim.http.replies import RefusedError, number_of
from txnsim.http.work_thread import WorkThread
from txnsim.runtime.trace import Event, Tracer
from txnsim.shell_text import ShellText
from txnsim.trace.trace_file import Recording, RecordingStream
from txnsim.txn.open_txn_verdict import program_at
from txnsim.verdict.facts import ClusterFacts, WrongData
from txnsim.verdict.judge import Verdict, judge_cluster
from txnsim_lab.trace.explain import (
    LsoExplanation,
    Mismatch,
    explained_partitions,
    lso_explanation,
    lso_of,
    mismatches,
)
from txnsim_lab.trace.followed_trace import FollowedTrace
from txnsim_lab.trace.payload_error import PayloadError
from txnsim_lab.trace.picture_words import PictureWords, picture_words
from txnsim_lab.trace.state import TraceState

T = TypeVar("T")

_encode_state: Final = msgspec.json.encode
_decode_state: Final = msgspec.json.Decoder(TraceState).decode
PARTITIONS_MAX: Final = 200
"""Maximum number of explained partitions, unless the request names one."""

RunTrace = Callable[[Request], bytes | None]
"""The trace of the run named in a request; None for the cluster's own trace."""


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's state after an event of the trace."""

    at: int
    """Position of the event."""
    partitions: tuple[LsoExplanation, ...]
    open: tuple[Mismatch, ...]
    """Open transactions as leader and coordinator see them."""
    state: TraceState
    verdict: Verdict
    """What the judge says of the whole cluster."""
    words: PictureWords
    """What a picture has to say of it."""


class ExplainRoutes(Noun):
    """The route that explains the cluster's own trace, and the traces of runs."""

    def __init__(self, tracer: Tracer, bootstrap: str, run_trace: RunTrace) -> None:
        """Args:
        tracer: Of the cluster.
        bootstrap: Where the cluster is; advice names it.
        run_trace: Finds runs.
        """
        self._tracer = tracer
        self._live_trace = _LiveTraceReader(program_at(bootstrap))
        self._run_trace = run_trace
        self._thread = WorkThread("explain")
        self._is_closed = False

    def close(self) -> None:
        """Stop the thread; the control port closes."""
        self._is_closed = True
        self._thread.close()

    @Operation(
        "get",
        f"{PREFIX}/explain",
        query=(
            Query("at", "Position of the event; the last one unless given"),
            Query("partition", "Only this one, as orders-0", "string"),
            Query(
                "of", "Id of a request to run a scenario; the cluster itself unless given", "string"
            ),
            Query("run", "Label of that run; the only one unless given", "string"),
            Query("take", "armed unless given", "string"),
        ),
        refusals=("404", "409", "422", "503"),
    )
    async def explain(self, request: Request) -> Explained:
        """Explain the trace after an event: why each last stable offset stands where it does, open
        transactions with both views, the whole state.
        """
        position = number_of(request, "at", default=-1, minimum=0)
        partition = request.query_params.get("partition")
        run_trace = self._run_trace(request)
        tracer = self._tracer
        if run_trace is None and len(tracer) == 0:
            raise RefusedError(
                409, f'nothing is recorded: POST {PREFIX}/trace {{"level": "brief"}}'
            )
        asked_position = None if position < 0 else position
        if run_trace is None:
            read = partial(
                _explanation, partition_name=partition, repair_program=self._live_trace.program
            )
            return await self._read_live(asked_position, read)
        return await self._do_in_thread(
            partial(
                _read_pieces,
                iter([run_trace]),
                asked_position,
                partial(_explanation, partition_name=partition, repair_program=program_at(None)),
            )
        )

    async def facts_at(self, position: int) -> ClusterFacts:
        """What the cluster's own trace tells after an event, for the judge.

        Raises:
            RefusedError: There is no such event.
        """
        if len(self._tracer) == 0:
            raise RefusedError(409, "nothing is recorded")
        return await self._read_live(position, FollowedTrace.facts)

    async def wrong_data(self) -> tuple[WrongData, ...]:
        """Where the trace so far tells that records have another end than their application was
        answered, or their coordinator has decided.
        """
        return await self._read_live(
            None, lambda followed_trace: tuple(followed_trace.wrong_data())
        )

    async def _read_live(self, asked_position: int | None, read: Callable[[FollowedTrace], T]) -> T:
        return await self._do_in_thread(
            self._live_trace.make_task(self._tracer, asked_position, read)
        )

    async def _do_in_thread(self, task: Callable[[], T]) -> T:
        if self._is_closed:
            raise RefusedError(503, "the control port is closing")
        try:
            return await self._thread.do(task)
        except PayloadError:
            raise  # the cluster itself has written its trace: a bug of txnsim
        except BadInputError as error:
            raise RefusedError(404, str(error)) from error


class _LiveTraceReader:
    """The cluster's own trace, as far as it has been read. Only the thread reads.

    The state is as large as the cluster. What is remembered beside it is dropped together with the
    events that the ring drops.
    """

    def __init__(self, program: ShellText) -> None:
        self.program = program
        self._followed = FollowedTrace()
        self._next_position = 0
        """The position of the event that is read next."""
        self._level = ""
        """The level at which the trace was recorded when it was read from its beginning; empty
        before.
        """

    def make_task(
        self, tracer: Tracer, asked_position: int | None, read: Callable[[FollowedTrace], T]
    ) -> Callable[[], T]:
        """Work for the thread: it returns what ``read`` finds in the trace as it is now."""
        return partial(
            self._answer_at,
            asked_position,
            read,
            newer_texts=tracer.texts(self._next_position),
            whole_trace=tracer.pieces(),
            node_names=tracer.nodes,
            first_kept_position=tracer.first_index,
            level=tracer.level.value,
        )

    def _answer_at(
        self,
        asked_position: int | None,
        read: Callable[[FollowedTrace], T],
        *,
        newer_texts: Iterator[bytes],
        whole_trace: Iterator[bytes],
        node_names: Sequence[str],
        first_kept_position: int,
        level: str,
    ) -> T:
        if asked_position is not None and asked_position < self._next_position - 1:
            return _read_pieces(whole_trace, asked_position, read)
        if first_kept_position > self._next_position or level != self._level:
            stream = RecordingStream("the trace", _lines_of_pieces(whole_trace))
            self._followed = FollowedTrace(state=TraceState(level=stream.level))
            self._next_position, self._level = 0, level
            self._read_events(stream.events(), node_names, asked_position)
        else:
            event_lines = (
                event_line for newer_text in newer_texts for event_line in newer_text.splitlines()
            )
            self._read_events(map(Recording.decode_event, event_lines), node_names, asked_position)
        self._followed.forget(first_kept_position)
        position = self._next_position - 1
        if asked_position is not None and position != asked_position:
            raise Recording.missing_event_error(asked_position, first_kept_position, position)
        return read(self._followed)

    def _read_events(
        self, events: Iterable[Event], node_names: Sequence[str], last_position: int | None
    ) -> None:
        for event in events:
            if last_position is not None and event.i > last_position:
                return
            if event.i >= self._next_position:
                self._followed.follow(event, node_names)
                self._next_position = event.i + 1


def _read_pieces(
    trace_pieces: Iterator[bytes],
    asked_position: int | None,
    read: Callable[[FollowedTrace], T],
) -> T:
    """Read a trace up to a position; None for all of it. No more than a piece is held."""
    stream = RecordingStream("the trace", _lines_of_pieces(trace_pieces))
    followed_trace = FollowedTrace(state=TraceState(level=stream.level))
    first_position, newest_position = None, -1
    for event in stream.events():
        newest_position = event.i
        if first_position is None:
            first_position = event.i
        if asked_position is None or event.i <= asked_position:
            followed_trace.follow(event, stream.nodes)
        if event.i == asked_position:
            break
    if asked_position is not None and asked_position != newest_position:
        raise Recording.missing_event_error(asked_position, first_position or 0, newest_position)
    return read(followed_trace)


def _lines_of_pieces(trace_pieces: Iterable[bytes]) -> Iterator[bytes]:
    for trace_piece in trace_pieces:
        yield from trace_piece.splitlines()


def _explanation(
    followed_trace: FollowedTrace, *, partition_name: str | None, repair_program: ShellText
) -> Explained:
    cluster_facts = followed_trace.facts()
    verdict = judge_cluster(cluster_facts, program=repair_program)
    judged_partitions = judge_cluster(
        msgspec.structs.replace(cluster_facts, ignorance=None), program=repair_program
    )
    by_name = {partition.partition: partition for partition in judged_partitions.partitions}
    open_mismatches = tuple(
        mismatch
        for mismatch in mismatches(judged_partitions, followed_trace)
        if partition_name in (None, mismatch.partition)
    )
    if partition_name is None:
        partition_names = explained_partitions(followed_trace.state, open_mismatches)[
            :PARTITIONS_MAX
        ]
    else:
        partition_names = [partition_name]
    return Explained(
        at=followed_trace.position,
        partitions=tuple(
            lso_explanation(followed_trace, by_name[explained_name], cluster_facts.ignorance)
            if explained_name in by_name
            else lso_of(followed_trace, explained_name, program=repair_program)
            for explained_name in partition_names
        ),
        open=open_mismatches,
        # The state changes while the answer is sent.
        state=_decode_state(_encode_state(followed_trace.state)),
        verdict=verdict,
        words=picture_words(followed_trace, cluster_facts, judged_partitions.partitions),
    )
