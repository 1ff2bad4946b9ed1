"""Snapshots and resets between tests: name the current state of the cluster, and return to it.

A reset calls ``SimCluster.reset``: the ports stay, everything else is new.
"""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request

from txnsim.http.messages import Fault, fault
from txnsim.http.operation import PREFIX, ClusterNoun, Operation
from txnsim.http.replies import Body, OptionalBody, RefusedError
from txnsim.server.cluster import SimCluster
from txnsim.server.snapshot import Snapshot

START: Final = "start"
"""The state in which the cluster was started; this snapshot always exists."""
SNAPSHOTS_MAX: Final = 100


class TakeSnapshot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Name the current state; an existing snapshot of that name is replaced."""

    name: str


class SnapshotView(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of the cluster for a reset."""

    name: str
    topics: tuple[str, ...]
    features: dict[str, int]


class Reset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reset the cluster to a snapshot."""

    to: str = START
    """Name of a snapshot; ``start`` is the state in which the cluster was started."""


class WasReset(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a reset."""

    to: str
    bootstrap: str
    took_ms: float
    connections_closed: int
    faults: tuple[Fault, ...]
    """The rules that were armed before the reset, with their effects."""


class SnapshotRoutes(ClusterNoun):
    """Routes that take snapshots of one cluster and reset it."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster)
        self._snapshots: dict[str, Snapshot] = {START: cluster.snapshot()}

    @Operation("get", f"{PREFIX}/snapshots")
    async def snapshots(self, _request: Request) -> list[SnapshotView]:
        """All snapshots; ``start`` always exists."""
        return [
            _view(snapshot_name, snapshot) for snapshot_name, snapshot in self._snapshots.items()
        ]

    @Operation("post", f"{PREFIX}/snapshots", status="201", refusals=("409", "422"))
    async def take(self, _request: Request, body: Body[TakeSnapshot]) -> SnapshotView:
        """Name the current state: topics with their configs, features, dynamic configs, quotas,
        ACLs, users, releases. Records and transactions are not part of it.
        """
        snapshot_name = (await body.read()).name
        if not snapshot_name or snapshot_name == START:
            raise RefusedError(422, f"name is {snapshot_name!r}: give it one other than {START!r}")
        if snapshot_name not in self._snapshots and len(self._snapshots) >= SNAPSHOTS_MAX:
            raise RefusedError(
                409, f"there are {SNAPSHOTS_MAX} snapshots: give it the name of one to replace it"
            )
        snapshot = self._snapshots[snapshot_name] = self._cluster.snapshot()
        return _view(snapshot_name, snapshot)

    @Operation("post", f"{PREFIX}/reset", refusals=("404", "409", "422"))
    async def reset(self, _request: Request, body: OptionalBody[Reset]) -> WasReset:
        """Turn the cluster into a fresh one on the same ports: clients are disconnected, records,
        transactions, producers and groups dropped, faults disarmed, clocks and links restored, and
        every broker runs.
        """
        snapshot_name = (await body.read()).to
        snapshot = self._snapshots.get(snapshot_name)
        if snapshot is None:
            raise RefusedError(
                404, f"there is no snapshot {snapshot_name!r}, only {', '.join(self._snapshots)}"
            )
        cluster = self._cluster
        clock = cluster.environment.clock
        faults = tuple(fault(armed_rule) for armed_rule in cluster.injector.rules())
        connection_count = sum(len(listener.connections) for listener in cluster.listeners)
        began_us = clock.monotonic_us()
        try:
            await cluster.reset(snapshot)
        except OSError as error:
            raise RefusedError(
                409, f"{error}: a broker is down and its port was taken meanwhile; free it"
            ) from error
        return WasReset(
            to=snapshot_name,
            bootstrap=cluster.bootstrap,
            took_ms=(clock.monotonic_us() - began_us) / 1_000,
            connections_closed=connection_count,
            faults=faults,
        )


def _view(snapshot_name: str, snapshot: Snapshot) -> SnapshotView:
    return SnapshotView(
        name=snapshot_name,
        topics=tuple(topic.name for topic in snapshot.topics),
        features=dict(sorted(snapshot.image.features.items())),
    )
