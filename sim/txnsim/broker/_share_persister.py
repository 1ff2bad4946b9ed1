"""A broker's requests to share coordinators: for the share partitions that it leads, and for its
group coordinator.

A command goes to the broker that the image names as coordinator of its key. Commands that come
while a request of the same kind is in flight to that broker wait, and go together in the next one.
Errors that may pass are retried after a pause, ``ATTEMPTS`` times in all; so is the search for the
coordinator, which first has the topic created.

Counterparts in Kafka: DefaultStatePersister, PersisterStateManager.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from txnsim.errors import ErrorCode, PeerAnsweredError, PeerError, PeerTimeoutError
from txnsim.interbroker.share_state import (
    DeleteShareState,
    InitializeShareState,
    ReadShareState,
    ShareState,
    ShareStateError,
    ShareStateSummary,
    WriteShareState,
)
from txnsim.node.peers import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
    Peers,
    ShareAnswer,
    ShareCommand,
)
from txnsim.runtime.environment import Clock, Tasks, TimerHandle
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.tasks import Pending, ignore_end
from txnsim.types import BrokerId
from txnsim.wire.codec import run_to_end

ATTEMPTS: Final = 5
BACKOFF_MS: Final = 1_000
BACKOFF_MAX_MS: Final = 30_000
JITTER: Final = 0.2
"""Relative jitter of a pause: it is longer or shorter by up to this share (ExponentialBackoff)."""

SHARE_COMMANDS_AT_ONCE: Final = 128
"""Number of answers in a response that are processed without a break."""
_WEIGHT: Final = 4
"""Number of elements that an answer counts as."""
_STOPPED: Final = "The broker has stopped."

_RETRIED: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.unknown_topic_or_partition,
    }
)
"""Errors of a share partition after which its command is retried."""
_WORDS: Final = {
    INITIALIZE_SHARE_GROUP_STATE: ("initialize state", ShareStateError),
    READ_SHARE_GROUP_STATE: ("read state", ShareState),
    WRITE_SHARE_GROUP_STATE: ("write state", ShareStateError),
    DELETE_SHARE_GROUP_STATE: ("delete state", ShareStateError),
    READ_SHARE_GROUP_STATE_SUMMARY: ("read state summary", ShareStateSummary),
}
"""API key -> what the request does, for error texts, and the class of its answers."""


class _PendingCommand(msgspec.Struct, eq=False):
    """A command in flight, and the callers that wait for its answer."""

    api_key: int
    command: ShareCommand
    answer: Pending[Any]
    lookups: int = 0
    """How often its coordinator was looked up in vain."""
    sends: int = 0
    """How often it was answered with an error that may pass."""


class SharePersister:
    """Sends one broker's requests to share coordinators."""

    def __init__(
        self,
        *,
        peers: Peers,
        coordinator_of: Callable[[str], BrokerId | None],
        make_topic: Callable[[], object],
        clock: Clock,
        tasks: Tasks,
        draw: Callable[[float, float], float],
    ) -> None:
        """Begin without requests in flight.

        Args:
            peers: Sends the requests.
            coordinator_of: The live broker that coordinates a key; None where there is none.
            make_topic: Has ``__share_group_state`` created if it is missing.
            clock: Its monotonic clock times the pauses.
            tasks: Owns the tasks that send requests.
            draw: Draws a random number between two numbers.
        """
        self._peers = peers
        self._coordinator_of = coordinator_of
        self._make_topic = make_topic
        self._clock = clock
        self._tasks = tasks
        self._draw = draw
        self._waiting: dict[tuple[BrokerId, int], dict[str, list[_PendingCommand]]] = {}
        """(broker, API key) -> group -> commands of its next request."""
        self._in_flight: dict[tuple[BrokerId, int], int] = {}
        """Number of requests in flight; further ones queue behind them."""
        self._pauses: dict[_PendingCommand, TimerHandle] = {}
        self._is_stopped = False

    def stop(self) -> None:
        """Answer waiting commands with an error, because the broker has stopped."""
        self._is_stopped = True
        questions = [
            question
            for groups in self._waiting.values()
            for group in groups.values()
            for question in group
        ]
        self._waiting.clear()
        for question, timer in self._pauses.items():
            timer.cancel()
            questions.append(question)
        self._pauses.clear()
        for question in questions:
            self._fail(question, ErrorCode.coordinator_not_available, _STOPPED)

    # Requests: one answer for each command, in their order

    def initialize(
        self, commands: Iterable[InitializeShareState]
    ) -> list[Pending[ShareStateError]]:
        return self._ask(INITIALIZE_SHARE_GROUP_STATE, commands)

    def read(self, commands: Iterable[ReadShareState]) -> list[Pending[ShareState]]:
        return self._ask(READ_SHARE_GROUP_STATE, commands)

    def write(self, commands: Iterable[WriteShareState]) -> list[Pending[ShareStateError]]:
        return self._ask(WRITE_SHARE_GROUP_STATE, commands)

    def delete(self, commands: Iterable[DeleteShareState]) -> list[Pending[ShareStateError]]:
        return self._ask(DELETE_SHARE_GROUP_STATE, commands)

    def summarize(self, commands: Iterable[ReadShareState]) -> list[Pending[ShareStateSummary]]:
        return self._ask(READ_SHARE_GROUP_STATE_SUMMARY, commands)

    # Parts

    def _ask(self, api_key: int, commands: Iterable[ShareCommand]) -> list[Pending[Any]]:
        questions = [
            _PendingCommand(api_key, command, Pending(self._tasks)) for command in commands
        ]
        self._line_up(questions)
        return [question.answer for question in questions]

    def _line_up(self, questions: Iterable[_PendingCommand]) -> None:
        """Find the coordinator of each command; send those that need not wait."""
        for question in questions:
            broker = self._coordinator_of(question.command.key.coordinator_key)
            if broker is None:
                self._make_topic()
                question.lookups += 1
                error = ErrorCode.coordinator_not_available
                self._try_again(
                    question, question.lookups, error, "find coordinator", "find coordinator"
                )
            else:
                question.lookups = 0
                groups = self._waiting.setdefault((broker, question.api_key), {})
                groups.setdefault(question.command.key.group_id, []).append(question)
        for where in tuple(self._waiting):
            self._send(where)

    def _send(self, where: tuple[BrokerId, int]) -> None:
        """Send one request for each group with commands for a broker, unless requests are in flight
        to it.
        """
        if self._is_stopped or self._in_flight.get(where):
            return
        broker, api_key = where
        for questions in self._waiting.pop(where, {}).values():
            self._in_flight[where] = self._in_flight.get(where, 0) + 1
            sent = self._peers.share_state(
                broker, api_key, [question.command for question in questions]
            )
            sent.on_done(partial(self._on_answer, where, questions))

    def _on_answer(
        self,
        where: tuple[BrokerId, int],
        questions: list[_PendingCommand],
        answer: Pending[Sequence[ShareAnswer]],
    ) -> None:
        self._in_flight[where] -= 1
        if not self._in_flight[where]:
            del self._in_flight[where]
        taking = self._take_all(where, questions, answer)
        if len(questions) <= SHARE_COMMANDS_AT_ONCE:
            run_to_end(taking)
        else:
            pace = Pace(self._tasks.turns, self._clock.stopwatch_ns)
            self._tasks.drive(pace.run(taking), ignore_end, name="share.persist")

    def _take_all(
        self,
        where: tuple[BrokerId, int],
        questions: list[_PendingCommand],
        reply: Pending[Sequence[ShareAnswer]],
    ) -> Generator[int, None, None]:
        """Pass on the answer of each command; then send the commands that have come meanwhile."""
        if reply.error is None:
            # An answer names topic and partition, and not the group.
            answers = {
                (answer.key.topic_id, answer.key.partition): answer for answer in reply.result()
            }
            for question in questions:
                key = question.command.key
                self._take(question, answers.get((key.topic_id, key.partition)))
                yield _WEIGHT
        else:
            for question in questions:
                self._take_failure(question, reply.error)
                yield _WEIGHT
        self._send(where)

    def _take(self, question: _PendingCommand, answer: ShareAnswer | None) -> None:
        if answer is None:
            error = ErrorCode.unknown_server_error
            self._fail(
                question, error, f"Error in {self._words(question)} RPC. It is not answered."
            )
            return
        error = ErrorCode(answer.error)
        if not error:
            key = question.command.key
            question.answer.resolve(
                answer if answer.key == key else msgspec.structs.replace(answer, key=key)
            )
        elif error in _RETRIED:
            self._retry_later(question, error)
        else:
            self._fail(
                question,
                error,
                f"Error in {self._words(question)} RPC. {answer.message or error.name}",
            )

    def _take_failure(self, question: _PendingCommand, failure: BaseException) -> None:
        match failure:
            case PeerAnsweredError():
                self._fail(
                    question, ErrorCode(failure.error), f"Error in {self._words(question)} RPC."
                )
            case PeerTimeoutError():
                self._retry_later(question, ErrorCode.request_timed_out)
            case PeerError():
                self._retry_later(question, ErrorCode.network_exception)
            case _:
                raise failure

    def _retry_later(self, question: _PendingCommand, error: ErrorCode) -> None:
        question.sends += 1
        words = self._words(question)
        self._try_again(question, question.sends, error, f"{words} RPC", f"complete {words} RPC")

    def _try_again(
        self, question: _PendingCommand, tried: int, error: ErrorCode, where: str, task: str
    ) -> None:
        """Look up the coordinator and retry after a pause, or give up."""
        if tried >= ATTEMPTS:
            text = f"Error in {where}. Exhausted max retries to {task} without success."
            self._fail(question, error, text)
            return
        if self._is_stopped:
            self._fail(question, error, _STOPPED)
            return
        pause_ms = BACKOFF_MS * 2**tried * self._draw(1 - JITTER, 1 + JITTER)

        def ask_again() -> None:
            del self._pauses[question]
            self._line_up((question,))

        self._pauses[question] = self._clock.call_later(
            int(min(pause_ms, BACKOFF_MAX_MS)), ask_again
        )

    def _fail(self, question: _PendingCommand, error: ErrorCode, message: str) -> None:
        _, answer = _WORDS[question.api_key]
        question.answer.resolve(answer(key=question.command.key, error=error, message=message))

    @staticmethod
    def _words(question: _PendingCommand) -> str:
        return _WORDS[question.api_key][0]
