"""The public names, listed: what somebody else's code may import. Changing a line here is a change
that CHANGELOG.md tells.
"""

from __future__ import annotations

import importlib
from typing import Final

import pytest

from tests.test_tidy import ROOT, source

PUBLIC: Final = {
    "txnsim.config": ["Configuration", "load", "settings_of"],
    "txnsim.errors": [
        "BadInputError",
        "ClientError",
        "ConfigError",
        "CorruptBatchError",
        "CorruptLogRecordError",
        "DeadlockError",
        "ErrorCode",
        "InvariantViolation",
        "LivelockError",
        "MalformedFrameError",
        "MissingExtraError",
        "NotSimulatedError",
        "PeerAnsweredError",
        "PeerDisconnectedError",
        "PeerError",
        "PeerTimeoutError",
        "Rejection",
        "SimulationError",
        "TxnsimError",
        "UnpacksTooLargeError",
        "UnsupportedRequestError",
    ],
    "txnsim.testing": [
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
    ],
}


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_a_module_exports_what_is_listed(module: str) -> None:
    assert sorted(importlib.import_module(module).__all__) == PUBLIC[module]


def test_the_package_tells_users_that_it_is_typed() -> None:
    assert (ROOT / "sim/txnsim/py.typed").exists()
    assert "Typing :: Typed" in source("pyproject.toml")
