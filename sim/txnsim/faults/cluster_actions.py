"""The actions that a fault can apply to the cluster, at a fault point or at once (point ``now``).

Each is a value whose ``str`` describes it in words. ``server._cluster_control`` carries them out. A
lasting effect (a crashed broker, a partition, a full disk, a wrong clock, a lagging replica) ends
after its ``…_after_ms`` (monotonic), or when its rule is released or disarmed. By default
``broker`` is the one at which the rule struck.
"""

from __future__ import annotations

from typing import Final

from txnsim.faults.actions import BoundedAction

CLOCK_MS_MAX: Final = 10 * 366 * 86_400_000
"""Ten years; the clock's own arithmetic goes no further."""


class _ClusterAction(BoundedAction, frozen=True, kw_only=True):
    """An action on the cluster; the struck crossing waits for it and then passes, or gets the
    rule's ``then``.
    """

    @property
    def ends_after_ms(self) -> int | None:
        """Milliseconds until the effect ends by itself; None if it does not, or has no duration."""
        duration_names = (name for name in self.__struct_fields__ if name.endswith("_after_ms"))
        return next((getattr(self, name) for name in duration_names), None)


class Crash(_ClusterAction, frozen=True, kw_only=True, tag_field="do", tag="crash"):
    """Kill a broker, as ``kill -9`` does."""

    broker: int | None = None
    lose_unflushed: bool = False
    """Lose unflushed records, as after a power failure."""
    restart_after_ms: int | None = None

    def __str__(self) -> str:
        loss_text = ", unflushed data lost" if self.lose_unflushed else ""
        restart = _duration_text("restart", self.restart_after_ms)
        return f"crash {_broker_text(self.broker)}{loss_text}{restart}"


class MoveLeader(_ClusterAction, frozen=True, kw_only=True, tag_field="do", tag="move-leader"):
    """Make another replica the leader of a partition."""

    topic: str
    partition: int
    to: int | None = None
    """The new leader's broker id; if None the controller picks one of the ISR."""

    def __str__(self) -> str:
        target_words = "another replica" if self.to is None else f"broker {self.to}"
        return f"move-leader {self.topic}-{self.partition} to {target_words}"


class ResignLeader(_ClusterAction, frozen=True, kw_only=True, tag_field="do", tag="resign-leader"):
    """Make a leader resign and be elected again in a new leader epoch, so that a coordinator
    reloads its state.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"resign-leader {self.topic}-{self.partition}"


class Partition(_ClusterAction, frozen=True, kw_only=True, tag_field="do", tag="partition"):
    """Cut every link between brokers of different groups; brokers in no group keep theirs.

    The controller counts as a broker with the id 3000: to cut brokers off from it, put them in
    another group.
    """

    groups: tuple[tuple[int, ...], ...]
    heal_after_ms: int | None = None

    def __post_init__(self) -> None:
        members = [broker for group in self.groups for broker in group]
        if len(self.groups) < 2 or not all(self.groups):
            raise ValueError(
                f"groups {_groups_text(self.groups)}: a partition has two sides or more"
            )
        if len(set(members)) < len(members):
            raise ValueError(
                f"groups {_groups_text(self.groups)}: a broker can be on one side only"
            )
        super().__post_init__()

    def __str__(self) -> str:
        return f"partition {_groups_text(self.groups)}{_duration_text('heal', self.heal_after_ms)}"


class ClockJump(_ClusterAction, frozen=True, kw_only=True, tag_field="do", tag="clock"):
    """Set the clock of one broker or of the whole cluster forward or back. No time passes: periodic
    scans run when they would have run, and then see the new time.
    """

    by_ms: int
    broker: int | None = None
    """None for all brokers."""

    def __post_init__(self) -> None:
        if self.by_ms == 0:
            raise ValueError("by_ms is 0: the clock would not move")
        if abs(self.by_ms) > CLOCK_MS_MAX:
            raise ValueError(
                f"by_ms is {self.by_ms}, expected {-CLOCK_MS_MAX} to {CLOCK_MS_MAX}: ten years"
            )

    def __str__(self) -> str:
        clock = "every clock" if self.broker is None else f"the clock of broker {self.broker}"
        return f"clock {self.by_ms:+} ms on {clock}"


class FillDisk(_ClusterAction, frozen=True, kw_only=True, tag_field="do", tag="fill-disk"):
    """Fill a broker's disk: the next write, within five seconds, fails with KAFKA_STORAGE_ERROR and
    takes its log directory offline. When there is room again the broker is restarted, because
    nothing else brings a failed directory back.
    """

    broker: int | None = None
    free_after_ms: int | None = None

    def __str__(self) -> str:
        return f"fill-disk {_broker_text(self.broker)}{_duration_text('free', self.free_after_ms)}"


class LagReplica(_ClusterAction, frozen=True, kw_only=True, tag_field="do", tag="lag-replica"):
    """Make a follower lag in one partition: its Fetches wait until the rule is released."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"lag-replica {self.topic}-{self.partition} on broker {self.broker}"


ClusterAction = Crash | MoveLeader | ResignLeader | Partition | ClockJump | FillDisk | LagReplica


def _broker_text(broker_id: int | None) -> str:
    return "the broker struck" if broker_id is None else f"broker {broker_id}"


def _groups_text(groups: tuple[tuple[int, ...], ...]) -> str:
    return " | ".join(" ".join(map(str, group)) for group in groups)


def _duration_text(event: str, after_ms: int | None) -> str:
    return "" if after_ms is None else f", {event} after {after_ms} ms"
