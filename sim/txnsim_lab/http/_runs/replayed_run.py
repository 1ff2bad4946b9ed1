"""A driven run without processes: for each command it is repeated from its beginning, with the
commands that it has obeyed.

The same seed and the same commands give the same run, so it behaves like a run that lives in a
process of its own (``scenario.driven_run``). A story of twenty steps takes some hundredths of a
second. This is for systems without fork, and for WebAssembly.
"""

from __future__ import annotations

from txnsim_lab.scenario.driven_run import run_driven
from txnsim_lab.scenario.driver_commands import Back, to_command


class _NoMore(BaseException):
    """Ends the repetition when all commands are carried out. A BaseException, so that a story that
    catches errors does not catch it.
    """


class _Return(BaseException):
    """The run goes back to an earlier moment."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count


class _Replay:
    """One repetition of a run: both ends of ``driven.DriverChannel``, and its ``driven.Kept``."""

    def __init__(self, orders: list[bytes]) -> None:
        self._orders = iter(orders)
        self.last = b""
        """The last answer: the present stop, or why the run went back."""
        self.kept = 0

    def send(self, message: bytes) -> None:
        self.last = message

    def hear(self) -> bytes:
        order = next(self._orders, None)
        if order is None:
            raise _NoMore
        return order

    def keep(self) -> bool:
        self.kept += 1
        return False

    def back(self, count: int) -> None:
        if not 1 <= count <= self.kept:
            raise ValueError(f"{self.kept} moments are kept, {count} back was asked for")
        raise _Return(count)


class Replayed:
    """A driven run that is repeated for each command, from the start up to the next stop."""

    def __init__(self) -> None:
        self._order = b""
        self._obeyed: list[bytes] = []
        """The commands up to the present stop; each can be undone."""

    def tell(self, message: bytes) -> list[bytes]:
        """Obey an order or a command, as a process would that was sent it.

        Returns:
            Its answers: where the run stands, and before it why the command was not obeyed, where
            the run had gone back for it.
        """
        if not self._order:
            self._order = message
            return self._stand([])
        return self._stand([message])

    def _stand(self, messages: list[bytes]) -> list[bytes]:
        replay = _Replay([self._order, *self._obeyed, *messages])
        try:
            run_driven(replay, replay)
        except _NoMore:
            if replay.kept > len(self._obeyed):
                self._obeyed += messages
            return [replay.last]
        except _Return as wanted:
            refusal = [] if _is_back(messages) else [replay.last]
            self._obeyed = [*self._obeyed, *messages][: replay.kept - wanted.count]
            return [*refusal, *self._stand([])]
        return [replay.last]


def _is_back(messages: list[bytes]) -> bool:
    return bool(messages) and isinstance(to_command(messages[0]), Back)
