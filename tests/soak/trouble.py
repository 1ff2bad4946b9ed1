"""Trouble for the cluster during a soak: brokers die and come back, leaders move, clocks jump.

One thing after the other, drawn from a seed. At most one broker is away at a time, so that
``min.insync.replicas=2`` goes on. A kill that loses what was not flushed is one of them.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from tests.clients.streams.control import ControlError, ControlPort

BROKERS: Final = (1, 2, 3)
PAUSE_S: Final = (3.0, 12.0)
AWAY_S: Final = (0.5, 5.0)
ADVANCE_MS: Final = (5_000, 90_000)
"""The longer ones end transactions that are open: their timeout is a minute."""
SET_BY_MS: Final = 3_000
LAST: Final = 8


WEIGHTS: Final = {
    "kill": 4,
    "kill_unflushed": 2,
    "stop_cleanly": 2,
    "move_leaders": 5,
    "isolate": 1,
    "advance": 3,
    "set_clock": 1,
}
"""Acts and the weights with which they are drawn."""


def draw_act(rng: random.Random) -> str:
    """Draw the next act."""
    return rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]


class Trouble(threading.Thread):
    """Makes trouble until it is stopped, then restores the cluster."""

    def __init__(self, control: ControlPort, *, seed: int, pause_s: tuple[float, float]) -> None:
        super().__init__(daemon=True, name="trouble")
        self._control = control
        self._rng = random.Random(seed)
        self._pause_s = pause_s
        self._stopped = threading.Event()
        self.act_counts: Counter[str] = Counter()
        self.last_acts: deque[str] = deque(maxlen=LAST)
        """The latest acts, each with its second of the run."""
        self.refusal_counts: Counter[str] = Counter()
        self.failure: Exception | None = None

    def run(self) -> None:
        begun_s = time.monotonic()
        try:
            while not self._stopped.wait(self._rng.uniform(*self._pause_s)):
                act_name = draw_act(self._rng)
                try:
                    getattr(self, act_name)()
                except ControlError as error:
                    # A leader that has moved meanwhile, say: told, and counted.
                    self.refusal_counts[f"{act_name}: {str(error)[:120]}"] += 1
                else:
                    self.act_counts[act_name] += 1
                    self.last_acts.append(f"{act_name} at {time.monotonic() - begun_s:.0f} s")
        except Exception as error:  # noqa: BLE001 - a thread's end is told by who started it
            self.failure = error

    def stop(self) -> None:
        """Stop making trouble, and bring every broker up."""
        self._stopped.set()
        self.join()

    # Acts

    def kill(self) -> None:
        """Kill a broker without a clean shutdown, and start it again."""
        self._away(self._control.kill)

    def kill_unflushed(self) -> None:
        """Kill a broker and lose its unflushed writes, as when its machine breaks down."""
        self._away(lambda broker: self._control.kill(broker, lose_unflushed=True))

    def stop_cleanly(self) -> None:
        """A controlled shutdown."""
        self._away(self._control.stop)

    def _away(self, end: Callable[[int], None]) -> None:
        broker = self._rng.choice(BROKERS)
        end(broker)
        time.sleep(self._rng.uniform(*AWAY_S))  # how long it is away, not how long it takes
        self._control.start(broker)
        self._await_isr()

    def _await_isr(self) -> None:
        """Wait until every replica is in sync. Otherwise the next kill may hit the only replica
        with a record.
        """
        deadline_s = time.monotonic() + 120.0
        while any(
            len(led_partition.isr) < len(BROKERS) for led_partition in self._control.partitions()
        ):
            if time.monotonic() > deadline_s:
                raise TimeoutError("replicas are not in sync two minutes after a broker's start")
            time.sleep(0.25)

    def move_leaders(self) -> None:
        """Move the leaders of a third of all partitions, including internal ones."""
        for led_partition in self._control.partitions():
            other_brokers = [
                broker for broker in led_partition.isr if broker != led_partition.leader
            ]
            if other_brokers and self._rng.random() < 1 / 3:
                self._control.move_leader(
                    led_partition.topic, led_partition.partition, self._rng.choice(other_brokers)
                )

    def isolate(self) -> None:
        """Isolate a broker from the other brokers for a moment. Clients still reach it."""
        broker = self._rng.choice(BROKERS)
        self._control.isolate(broker)
        time.sleep(self._rng.uniform(*AWAY_S))
        self._control.heal(broker)
        self._await_isr()

    def advance(self) -> None:
        """Advance the clocks of all brokers."""
        self._control.advance(self._rng.randint(*ADVANCE_MS))

    def set_clock(self) -> None:
        """Set one broker's clock to a wrong time, and back."""
        broker = self._rng.choice(BROKERS)
        by_ms = self._rng.randint(-SET_BY_MS, SET_BY_MS)
        self._control.set_clock(broker, by_ms)
        time.sleep(self._rng.uniform(*AWAY_S))
        self._control.set_clock(broker, -by_ms)
