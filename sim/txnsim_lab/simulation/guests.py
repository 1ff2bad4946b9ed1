"""A workload of the user's: a coroutine with any asyncio client, in the place of our clients."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable

import msgspec

from txnsim.client.cluster import Cluster
from txnsim.errors import ConfigError
from txnsim.runtime.environment import Environment
from txnsim.server.cluster import SimCluster
from txnsim.types import INTERNAL_TOPICS
from txnsim.wire.batch import COMMIT, iter_batches, read_control_record
from txnsim_lab.scenario.call_results import NONE
from txnsim_lab.scenario.recorder import Recorder


class Guest(msgspec.Struct, frozen=True):
    """The surroundings of a user's workload."""

    bootstrap: str
    environment: Environment
    """Its ``clock`` is the run's, and so is ``rng``: ``rng.stream("mine").random()``."""
    recorder: Recorder
    """Takes the workload's answers, for those it wants judged."""
    client: Callable[[str], Cluster]
    """Connections of txnsim's own client, by a client id; any asyncio client will do."""


Workload = Callable[[Guest], Awaitable[object]]


def workload_named(name: str) -> Workload:
    """The coroutine at ``package.module:name``.

    Raises:
        ConfigError: There is none.
    """
    module, colon, function = name.partition(":")
    try:
        candidate = getattr(importlib.import_module(module), function, None) if colon else None
    except ImportError as error:
        raise ConfigError(f"workload {name}: {error}") from None
    if not callable(candidate):
        raise ConfigError(f"workload {name}: expected package.module:coroutine")
    workload: Workload = candidate
    return workload


async def end_of(workload: Awaitable[object]) -> str:
    """How it ends: with the name of an error of its client's that it let through, or with none.

    A client library that gives up is no finding. What Python itself raises is one, an assertion
    above all: then the workload is wrong, or has found something.
    """
    try:
        await workload
    except OSError as error:  # a broker that is down; also a TimeoutError
        return type(error).__name__
    except Exception as error:  # whose library that is, is not known
        if type(error).__module__ == "builtins":
            raise
        return type(error).__name__
    return NONE


def commit_markers(cluster: SimCluster) -> int:
    """How many commits there are in the topics of clients, each counted once a partition."""
    return sum(
        record is not None and record.type == COMMIT
        for broker in cluster.brokers.values()
        for partition, log in broker.replicas.led.items()
        if partition.topic not in INTERNAL_TOPICS
        for chunk in log.batches(log.log_start_offset)
        for position, header in iter_batches(chunk)
        if header.is_control
        for record in (read_control_record(chunk, position),)
    )
