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
_ELEMENTS_PER_ANSWER: Final = 4
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
_REQUESTS: Final = {
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
    lookup_count: int = 0
    """How often its coordinator was looked up in vain."""
    send_count: int = 0
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
        self._waiting_commands: dict[tuple[BrokerId, int], dict[str, list[_PendingCommand]]] = {}
        """(broker, API key) -> group -> commands of its next request."""
        self._request_count_by_target: dict[tuple[BrokerId, int], int] = {}
        """Number of requests in flight; further ones queue behind them."""
        self._pause_timers: dict[_PendingCommand, TimerHandle] = {}
        self._is_stopped = False

    def stop(self) -> None:
        """Answer waiting commands with an error, because the broker has stopped."""
        self._is_stopped = True
        pending_commands = [
            pending_command
            for commands_by_group in self._waiting_commands.values()
            for group_commands in commands_by_group.values()
            for pending_command in group_commands
        ]
        self._waiting_commands.clear()
        for pending_command, timer in self._pause_timers.items():
            timer.cancel()
            pending_commands.append(pending_command)
        self._pause_timers.clear()
        for pending_command in pending_commands:
            self._fail_command(pending_command, ErrorCode.coordinator_not_available, _STOPPED)

    # Requests: one answer for each command, in their order

    def initialize(
        self, commands: Iterable[InitializeShareState]
    ) -> list[Pending[ShareStateError]]:
        return self._queue_new_commands(INITIALIZE_SHARE_GROUP_STATE, commands)

    def read(self, commands: Iterable[ReadShareState]) -> list[Pending[ShareState]]:
        return self._queue_new_commands(READ_SHARE_GROUP_STATE, commands)

    def write(self, commands: Iterable[WriteShareState]) -> list[Pending[ShareStateError]]:
        return self._queue_new_commands(WRITE_SHARE_GROUP_STATE, commands)

    def delete(self, commands: Iterable[DeleteShareState]) -> list[Pending[ShareStateError]]:
        return self._queue_new_commands(DELETE_SHARE_GROUP_STATE, commands)

    def summarize(self, commands: Iterable[ReadShareState]) -> list[Pending[ShareStateSummary]]:
        return self._queue_new_commands(READ_SHARE_GROUP_STATE_SUMMARY, commands)

    # Parts

    def _queue_new_commands(
        self, api_key: int, commands: Iterable[ShareCommand]
    ) -> list[Pending[Any]]:
        pending_commands = [
            _PendingCommand(api_key, command, Pending(self._tasks)) for command in commands
        ]
        self._queue_commands(pending_commands)
        return [pending_command.answer for pending_command in pending_commands]

    def _queue_commands(self, pending_commands: Iterable[_PendingCommand]) -> None:
        """Find the coordinator of each command; send those that need not wait."""
        for pending_command in pending_commands:
            broker = self._coordinator_of(pending_command.command.key.coordinator_key)
            if broker is None:
                self._make_topic()
                pending_command.lookup_count += 1
                error = ErrorCode.coordinator_not_available
                self._retry_command(
                    pending_command,
                    pending_command.lookup_count,
                    error,
                    "find coordinator",
                    "find coordinator",
                )
            else:
                pending_command.lookup_count = 0
                commands_by_group = self._waiting_commands.setdefault(
                    (broker, pending_command.api_key), {}
                )
                commands_by_group.setdefault(pending_command.command.key.group_id, []).append(
                    pending_command
                )
        for broker_and_api in tuple(self._waiting_commands):
            self._send_group_requests(broker_and_api)

    def _send_group_requests(self, broker_and_api: tuple[BrokerId, int]) -> None:
        """Send one request for each group with commands for a broker, unless requests are in flight
        to it.
        """
        if self._is_stopped or self._request_count_by_target.get(broker_and_api):
            return
        broker, api_key = broker_and_api
        for pending_commands in self._waiting_commands.pop(broker_and_api, {}).values():
            self._request_count_by_target[broker_and_api] = (
                self._request_count_by_target.get(broker_and_api, 0) + 1
            )
            pending_reply = self._peers.share_state(
                broker, api_key, [pending_command.command for pending_command in pending_commands]
            )
            pending_reply.on_done(partial(self._on_answer, broker_and_api, pending_commands))

    def _on_answer(
        self,
        broker_and_api: tuple[BrokerId, int],
        pending_commands: list[_PendingCommand],
        pending_reply: Pending[Sequence[ShareAnswer]],
    ) -> None:
        self._request_count_by_target[broker_and_api] -= 1
        if not self._request_count_by_target[broker_and_api]:
            del self._request_count_by_target[broker_and_api]
        resolving_steps = self._resolve_answers(broker_and_api, pending_commands, pending_reply)
        if len(pending_commands) <= SHARE_COMMANDS_AT_ONCE:
            run_to_end(resolving_steps)
        else:
            pace = Pace(self._tasks.turns, self._clock.stopwatch_ns)
            self._tasks.drive(pace.run(resolving_steps), ignore_end, name="share.persist")

    def _resolve_answers(
        self,
        broker_and_api: tuple[BrokerId, int],
        pending_commands: list[_PendingCommand],
        pending_reply: Pending[Sequence[ShareAnswer]],
    ) -> Generator[int, None, None]:
        """Pass on the answer of each command; then send the commands that have come meanwhile."""
        if pending_reply.error is None:
            # An answer names topic and partition, and not the group.
            answer_by_key = {
                (answer.key.topic_id, answer.key.partition): answer
                for answer in pending_reply.result()
            }
            for pending_command in pending_commands:
                key = pending_command.command.key
                self._resolve_answer(
                    pending_command, answer_by_key.get((key.topic_id, key.partition))
                )
                yield _ELEMENTS_PER_ANSWER
        else:
            for pending_command in pending_commands:
                self._handle_failure(pending_command, pending_reply.error)
                yield _ELEMENTS_PER_ANSWER
        self._send_group_requests(broker_and_api)

    def _resolve_answer(self, pending_command: _PendingCommand, answer: ShareAnswer | None) -> None:
        if answer is None:
            error = ErrorCode.unknown_server_error
            self._fail_command(
                pending_command,
                error,
                f"Error in {self._request_words(pending_command)} RPC. It is not answered.",
            )
            return
        error = ErrorCode(answer.error)
        if not error:
            key = pending_command.command.key
            pending_command.answer.resolve(
                answer if answer.key == key else msgspec.structs.replace(answer, key=key)
            )
        elif error in _RETRIED:
            self._retry_later(pending_command, error)
        else:
            self._fail_command(
                pending_command,
                error,
                f"Error in {self._request_words(pending_command)} RPC."
                f" {answer.message or error.name}",
            )

    def _handle_failure(self, pending_command: _PendingCommand, failure: BaseException) -> None:
        match failure:
            case PeerAnsweredError():
                self._fail_command(
                    pending_command,
                    ErrorCode(failure.error),
                    f"Error in {self._request_words(pending_command)} RPC.",
                )
            case PeerTimeoutError():
                self._retry_later(pending_command, ErrorCode.request_timed_out)
            case PeerError():
                self._retry_later(pending_command, ErrorCode.network_exception)
            case _:
                raise failure

    def _retry_later(self, pending_command: _PendingCommand, error: ErrorCode) -> None:
        pending_command.send_count += 1
        request_words = self._request_words(pending_command)
        self._retry_command(
            pending_command,
            pending_command.send_count,
            error,
            f"{request_words} RPC",
            f"complete {request_words} RPC",
        )

    def _retry_command(
        self,
        pending_command: _PendingCommand,
        attempt_count: int,
        error: ErrorCode,
        failed_step: str,
        task_words: str,
    ) -> None:
        """Look up the coordinator and retry after a pause, or give up."""
        if attempt_count >= ATTEMPTS:
            failure_text = (
                f"Error in {failed_step}. Exhausted max retries to {task_words} without success."
            )
            self._fail_command(pending_command, error, failure_text)
            return
        if self._is_stopped:
            self._fail_command(pending_command, error, _STOPPED)
            return
        pause_ms = BACKOFF_MS * 2**attempt_count * self._draw(1 - JITTER, 1 + JITTER)

        def ask_again() -> None:
            del self._pause_timers[pending_command]
            self._queue_commands((pending_command,))

        self._pause_timers[pending_command] = self._clock.call_later(
            int(min(pause_ms, BACKOFF_MAX_MS)), ask_again
        )

    def _fail_command(
        self, pending_command: _PendingCommand, error: ErrorCode, message: str
    ) -> None:
        _, answer_class = _REQUESTS[pending_command.api_key]
        pending_command.answer.resolve(
            answer_class(key=pending_command.command.key, error=error, message=message)
        )

    @staticmethod
    def _request_words(pending_command: _PendingCommand) -> str:
        return _REQUESTS[pending_command.api_key][0]
