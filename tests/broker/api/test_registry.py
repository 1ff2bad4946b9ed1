"""Which versions are answered and which are told."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import msgspec
import pytest

from txnsim.api import _configs as configs
from txnsim.api import _groups as groups
from txnsim.api import _identities as identities
from txnsim.api import _partitions as partitions
from txnsim.api import _records as records
from txnsim.api import _transactions as transactions
from txnsim.api import nodes
from txnsim.api.registry import ACCEPTED, ADVERTISED, HANDLERS, _accepted, shipped
from txnsim.releases import RELEASES
from txnsim.releases.kafka import REFERENCE, RELEASE_4_0
from txnsim.wire import codec
from txnsim.wire.registry import version_range


def test_each_handler_module_has_its_row() -> None:
    found = {}
    for folder in (configs, groups, identities, nodes, partitions, records, transactions):
        for one in iter_modules(folder.__path__, f"{folder.__name__}."):
            module = import_module(one.name)
            if hasattr(module, "KEY"):
                found[module.KEY] = module
    assert found.keys() == HANDLERS.keys()
    for key, handler in HANDLERS.items():
        assert handler.handle is found[key].handle
        assert handler.refuse is found[key].refuse


PROGRAM = """
import sys
from txnsim.api.registry import SHIPPED
print([one for one in sys.modules if one.startswith("txnsim.api._transactions")])
print(SHIPPED.handlers[26].name, SHIPPED.handlers[26].handle.__module__)
"""


def test_a_handler_is_imported_when_it_is_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "EndTxn txnsim.api._transactions.end_txn"]
    with pytest.raises(AttributeError):
        _ = HANDLERS[26].nothing


def test_what_is_advertised_lies_within_the_release() -> None:
    for key, (low, high) in ADVERTISED.items():
        least, most = REFERENCE.api_versions[key]
        assert least <= low <= high <= most, key


def test_only_produce_is_advertised_lower_than_it_is_answered() -> None:
    assert {key for key in ADVERTISED if ADVERTISED[key] != ACCEPTED[key]} == {0}
    assert (ADVERTISED[0], ACCEPTED[0]) == ((0, 13), (3, 13))


def test_unstable_versions_are_answered_only_where_they_are_opened() -> None:
    assert ACCEPTED[22] == (0, 5), "InitProducerId v6 is unstable"
    opened = shipped(REFERENCE, unstable=True)
    assert opened.accepted[22] == opened.advertised[22] == (0, 6)
    assert {**opened.accepted, 22: (0, 5)} == ACCEPTED
    assert shipped(RELEASE_4_0, unstable=True).accepted[22] == (0, 5)


def test_client_metrics_are_listed_only_where_telemetry_is_on() -> None:
    assert not {71, 72} & ADVERTISED.keys()
    taken = shipped(RELEASE_4_0, telemetry=True)
    assert taken.advertised[71] == taken.accepted[72] == (0, 0)
    before = shipped(RELEASES["3.6"], telemetry=True)
    assert not {71, 72} & before.advertised.keys(), "KIP-714 came with Kafka 3.7"


def test_what_is_answered_follows_from_messages_and_release() -> None:
    versions = {**REFERENCE.api_versions, 66: (0, 9)}
    newer = msgspec.structs.replace(REFERENCE, api_versions=versions)
    answered = _accepted(newer, unstable=False, telemetry=False)
    assert answered[66] == HANDLERS[66].versions == version_range(66)
    assert answered[66][1] < 9
    assert {**answered, 66: ACCEPTED[66]} == ACCEPTED


@pytest.mark.parametrize("key", sorted(HANDLERS))
def test_every_answered_version_has_its_messages(key: int) -> None:
    handler = HANDLERS[key]
    assert handler.key == key
    low, high = shipped(REFERENCE, telemetry=True).accepted[key]
    for version in range(low, high + 1):
        assert codec.request_class(key, version).__version__ == version
        assert codec.response_class(key, version).__version__ == version
