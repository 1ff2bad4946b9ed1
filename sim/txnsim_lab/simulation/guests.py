"""Runs a user's workload instead of our clients: a coroutine that uses any asyncio client."""

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
    """What a user's workload gets from the run."""

    bootstrap: str
    environment: Environment
    """The run's environment, with its ``clock`` and its ``rng``:
    ``rng.stream("mine").random()``.
    """
    recorder: Recorder
    """Takes the answers that the workload wants to be judged."""
    client: Callable[[str], Cluster]
    """Client id -> a txnsim client; any other asyncio client can be used."""


Workload = Callable[[Guest], Awaitable[object]]


def workload_named(workload_path: str) -> Workload:
    """Import the coroutine at ``package.module:name``.

    Raises:
        ConfigError: There is no such coroutine.
    """
    module, separator, function = workload_path.partition(":")
    try:
        imported_object = (
            getattr(importlib.import_module(module), function, None) if separator else None
        )
    except ImportError as error:
        raise ConfigError(f"workload {workload_path}: {error}") from None
    if not callable(imported_object):
        raise ConfigError(f"workload {workload_path}: expected package.module:coroutine")
    workload: Workload = imported_object
    return workload


async def end_of(workload: Awaitable[object]) -> str:
    """Await the workload; returns the name of its client's error if it ended with one, else NONE. A
    client library that gives up is no finding. Exceptions of Python itself are findings, above all
    a failed assertion: then the workload is wrong, or has found something.
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


def count_commit_markers(cluster: SimCluster) -> int:
    """Number of COMMIT markers in topics of clients, each counted once per partition."""
    return sum(
        control_record is not None and control_record.type == COMMIT
        for broker in cluster.brokers.values()
        for partition, log in broker.replicas.led.items()
        if partition.topic not in INTERNAL_TOPICS
        for batches_of_chunk in log.batches(log.log_start_offset)
        for position, header in iter_batches(batches_of_chunk)
        if header.is_control
        for control_record in (read_control_record(batches_of_chunk, position),)
    )
