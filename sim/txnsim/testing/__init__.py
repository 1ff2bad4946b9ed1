"""A simulated Kafka cluster for your tests: the modules that users' tests import.

- ``cluster``: ``AsyncSimulatedKafka``, in the caller's event loop; its blocking form in
  ``_blocking`` runs in a thread (``event_loop``). ``options`` has their arguments,
  ``rebuilt_cluster`` the cluster that they control.
- ``faults``, ``_clock_and_brokers`` (clock, brokers, leaders), ``_topics`` (and transactions),
  ``_members``, ``_recording`` (the trace): the features of a cluster.
- ``_verdict_assertions``: the assertions; observations for judges come from the lab.
- ``_virtual``: a test with an asynchronous client in virtual time.
- ``plugin``: the pytest plugin; ``_session`` has its state, ``_report`` the report of a failing
  test, ``_repeating`` the command that repeats its virtual run, ``_foreign_cluster`` other brokers
  under the same tests.
- ``container``: the program of the container image; ``testcontainers`` starts it.

The names below are public; they are imported when they are first used: pytest loads the plugin in
every run where txnsim is installed, and most tests need no cluster. ``run_scenario`` comes with the
lab.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from txnsim.client.inspection.topic_reading import Fate, ReadRecord
    from txnsim.faults.plan import FaultRule
    from txnsim.runtime.virtual.reproducible_process import arrange_process
    from txnsim.testing._blocking import Clock, Fault, Faults, SimulatedKafka
    from txnsim.testing._clock_and_brokers import AsyncClock
    from txnsim.testing._virtual import run_virtual
    from txnsim.testing.cluster import AsyncSimulatedKafka
    from txnsim.testing.faults import AsyncFault, AsyncFaults, FaultState
    from txnsim_lab.testing.scenarios import run_scenario

__all__ = [
    "AsyncClock",
    "AsyncFault",
    "AsyncFaults",
    "AsyncSimulatedKafka",
    "Clock",
    "Fate",
    "Fault",
    "FaultRule",
    "FaultState",
    "Faults",
    "ReadRecord",
    "SimulatedKafka",
    "arrange_process",
    "run_scenario",
    "run_virtual",
]

_DEFINING_MODULES: Final = {
    "AsyncClock": "txnsim.testing._clock_and_brokers",
    "AsyncFault": "txnsim.testing.faults",
    "AsyncFaults": "txnsim.testing.faults",
    "AsyncSimulatedKafka": "txnsim.testing.cluster",
    "Clock": "txnsim.testing._blocking",
    "Fate": "txnsim.client.inspection.topic_reading",
    "Fault": "txnsim.testing._blocking",
    "FaultRule": "txnsim.faults.plan",
    "FaultState": "txnsim.testing.faults",
    "Faults": "txnsim.testing._blocking",
    "ReadRecord": "txnsim.client.inspection.topic_reading",
    "SimulatedKafka": "txnsim.testing._blocking",
    "arrange_process": "txnsim.runtime.virtual.reproducible_process",
    "run_scenario": "txnsim_lab.testing.scenarios",
    "run_virtual": "txnsim.testing._virtual",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    module_name = _DEFINING_MODULES.get(name)
    if module_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if module_name.startswith("txnsim."):
        return getattr(import_module(module_name), name)
    from txnsim.on_demand_imports import borrowed

    return getattr(borrowed(module_name, f"txnsim.testing.{name}"), name)
