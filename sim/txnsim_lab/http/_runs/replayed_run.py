"""A driven run without processes: for each command it is repeated from its beginning, with the
commands that it has obeyed.

The same seed and the same commands give the same run, so it behaves like a run that lives in a
process of its own (``scenario.driven_run``). A story of twenty steps takes some hundredths of a
second. This is for systems without fork, and for WebAssembly.
"""

from __future__ import annotations

from txnsim_lab.scenario.driven_run import run_driven
from txnsim_lab.scenario.driver_commands import Back, to_command


class _CommandsDone(BaseException):
    """Ends the repetition when all commands are carried out. A BaseException, so that a story that
    catches errors does not catch it.
    """


class _GoBack(BaseException):
    """The run goes back to an earlier moment."""

    def __init__(self, moments_back: int) -> None:
        super().__init__()
        self.moments_back = moments_back


class _Replay:
    """One repetition of a run: both ends of ``DriverChannel``, and its ``CheckpointStore``."""

    def __init__(self, messages: list[bytes]) -> None:
        self._messages = iter(messages)
        self.last_answer = b""
        """The last answer: the present stop, or why the run went back."""
        self.checkpoint_count = 0

    def send(self, message: bytes) -> None:
        self.last_answer = message

    def hear(self) -> bytes:
        message = next(self._messages, None)
        if message is None:
            raise _CommandsDone
        return message

    def keep(self) -> bool:
        self.checkpoint_count += 1
        return False

    def back(self, moments_back: int) -> None:
        if not 1 <= moments_back <= self.checkpoint_count:
            raise ValueError(
                f"{self.checkpoint_count} moments are kept, {moments_back} back was asked for"
            )
        raise _GoBack(moments_back)


class ReplayedRun:
    """A driven run that is repeated for each command, from the start up to the next stop."""

    def __init__(self) -> None:
        self._run_order = b""
        self._obeyed_commands: list[bytes] = []
        """The commands up to the present stop; each can be undone."""

    def send_message(self, message: bytes) -> list[bytes]:
        """Obey an order or a command, as a process would that was sent it.

        Returns:
            Its answers: where the run stands, and before it why the command was not obeyed, where
            the run had gone back for it.
        """
        if not self._run_order:
            self._run_order = message
            return self._replay_with([])
        return self._replay_with([message])

    def _replay_with(self, new_messages: list[bytes]) -> list[bytes]:
        replay = _Replay([self._run_order, *self._obeyed_commands, *new_messages])
        try:
            run_driven(replay, replay)
        except _CommandsDone:
            if replay.checkpoint_count > len(self._obeyed_commands):
                self._obeyed_commands += new_messages
            return [replay.last_answer]
        except _GoBack as going_back:
            refusal_messages = [] if _is_back_command(new_messages) else [replay.last_answer]
            self._obeyed_commands = [*self._obeyed_commands, *new_messages][
                : replay.checkpoint_count - going_back.moments_back
            ]
            return [*refusal_messages, *self._replay_with([])]
        return [replay.last_answer]


def _is_back_command(new_messages: list[bytes]) -> bool:
    return bool(new_messages) and isinstance(to_command(new_messages[0]), Back)
