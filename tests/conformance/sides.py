"""The two brokers of a random play, and when their answers may be compared.

This is the one place that knows what may differ in time between two correct brokers:

- A broker takes producer ids in blocks and answers COORDINATOR_LOAD_IN_PROGRESS while the next one
  is on its way (``RPCProducerIdManager``): InitProducerId is asked again.
- Markers are written after EndTxn, or the InitProducerId that fences, has been answered; until
  CompleteX is in the log everybody is told CONCURRENT_TRANSACTIONS. After whatever may have started
  that, both are waited for until they show neither PrepareX nor, where the transaction was made to
  time out, Ongoing. PrepareX that lasts on both is no delay: a marker was refused, and the
  coordinator has given up (``TransactionMarkerRequestCompletionHandler``).
- A new level of ``transaction.version`` is waited for in ApiVersions.

Everything else must be equal at once. What is normalised in an answer is in
``tests.support.transcript``.
"""

from __future__ import annotations

import time  # noqa: TID251 - waits for processes on the real machine
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from sim.errors import ErrorCode
from tests.conformance.model import ABSENT, ONGOING, PREPARED, World
from tests.conformance.operations import Operation, Values, resolved
from tests.real.stories.player import Player, Topic
from tests.support.transcript import differences

PATIENCE_S: Final = 15.0
LASTS_S: Final = 0.5
"""PrepareX that both sides show unchanged for that long is taken for good."""
_PAUSE_S: Final = 0.002
_ASKED_AGAIN: Final = {"InitProducerId": ErrorCode.coordinator_load_in_progress}


class Side:
    """One broker."""

    def __init__(self, address: str, *, scene: str, level: int) -> None:
        self.player = Player(address, scene=scene, level=level)
        self._pids: list[int] = []
        self._topics: dict[str, Topic] = {}

    def pid(self, number: int) -> int:
        """The n-th producer id that it handed out."""
        return self._pids[number]

    def topic_id(self, name: str) -> Any:
        """The id that it gave to a topic."""
        return self._topics[name][1]

    def number(self, pid: int) -> int:
        """Which of its producer ids this is; a new one is added."""
        if pid not in self._pids:
            self._pids.append(pid)
        return self._pids.index(pid)

    def prepare(self, world: World, partitions: int) -> None:
        """Make what the world says."""
        for name in world.topics:
            short = name.removeprefix(f"{world.prefix}-")
            # Records carry a time long past, which retention must not notice.
            self._topics[name] = self.player.topic(short, partitions, retention_ms="-1")
        for producer in world.producers:
            assert producer.name is not None
            self.player.coordinator(producer.name)

    def ask(self, operation: Operation) -> Any:
        """Its answer, written down."""
        values = resolved(operation.values, self)
        again = _ASKED_AGAIN.get(operation.api)
        deadline_s = time.monotonic() + PATIENCE_S
        answer = self.player.quiet(operation.api, operation.version, **values)
        while again is not None and getattr(answer, "error_code", None) is again:
            assert time.monotonic() < deadline_s, f"{operation} stays {answer}"
            time.sleep(_PAUSE_S)
            answer = self.player.quiet(operation.api, operation.version, **values)
        self.player.note(f"{operation.api} ({operation.mode})", answer)
        return answer

    def quiet(self, api: str, version: int, **values: Any) -> Any:
        """Ask without writing it down."""
        return self.player.quiet(api, version, **values)


class Pair:
    """Both brokers; every question goes to both.

    Args:
        addresses: Of the real one and of ours.
        scene: Prefix of all names.
        level: Finalized level of ``transaction.version``.
    """

    def __init__(self, addresses: tuple[str, str], *, scene: str, level: int) -> None:
        self.real, self.ours = (Side(one, scene=scene, level=level) for one in addresses)

    def close(self) -> None:
        """Close the connections."""
        self.real.player.close()
        self.ours.player.close()

    def prepare(self, world: World, partitions: int) -> None:
        """Make the world on both."""
        self.real.prepare(world, partitions)
        self.ours.prepare(world, partitions)

    def ask(self, operation: Operation) -> tuple[Any, Any]:
        """Both answers."""
        return self.real.ask(operation), self.ours.ask(operation)

    def differences(self) -> list[str]:
        """Where the answers since the last call differ, the real one's first."""
        found = list(differences(self.real.player.transcript, self.ours.player.transcript))
        self.real.player.transcript.entries.clear()
        self.ours.player.transcript.entries.clear()
        return found

    def climb(self, transactional_id: str, epoch: int) -> None:
        """Initialize a transactional id until it has that epoch."""
        for side in (self.real, self.ours):
            side.player.climb(transactional_id, epoch)

    # Waiting

    def state_of(self, transactional_id: str, *, times_out: bool, stuck: bool) -> Any:
        """What both say of a transactional id once nothing is on its way any more, written down;
        the real answer's only row. ``stuck``: it was found to stay in PrepareX already.
        """
        on_the_way = PREPARED | {ONGOING} if times_out else PREPARED
        values: Values = {"transactional_ids": [transactional_id]}

        def rows() -> tuple[Any, Any]:
            real, ours = (
                side.quiet("DescribeTransactions", 0, **values).transaction_states[0]
                for side in (self.real, self.ours)
            )
            return real, ours

        begun_s = unchanged_s = time.monotonic()
        before = None
        while True:
            real, ours = rows()
            states = {real.transaction_state, ours.transaction_state}
            now_s = time.monotonic()
            if (real, ours) != before:
                before, unchanged_s = (real, ours), now_s
            seems_done = stuck or now_s - unchanged_s > LASTS_S
            lasts = seems_done and len(states) == 1 and states <= PREPARED
            if not states & on_the_way or lasts or now_s - begun_s > PATIENCE_S:
                break
            time.sleep(_PAUSE_S)
        self.real.player.note(f"state of {transactional_id}", real)
        self.ours.player.note(f"state of {transactional_id}", ours)
        return real

    def await_level(self, level: int) -> None:
        """Until both brokers say that this level of ``transaction.version`` is finalized."""
        for side in (self.real, self.ours):
            side.player.until(
                lambda answer: _finalized(answer) == level,
                "ApiVersions",
                4,
                client_software_name="play",
                client_software_version="1",
            )


def _finalized(answer: Any) -> int:
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    return int(levels.get("transaction.version", 0))


def state_name(row: Any) -> str:
    """The state in a row of DescribeTransactions."""
    return ABSENT if row.error_code else str(row.transaction_state)


def error_codes(answer: Any) -> Iterator[ErrorCode]:
    """Every error code in an answer."""
    if isinstance(answer, ErrorCode):
        yield answer
    elif is_dataclass(answer):
        for field in fields(answer):
            yield from error_codes(getattr(answer, field.name))
    elif isinstance(answer, tuple | list):
        for one in answer:
            yield from error_codes(one)
