"""The kept counts of calls hold: a request takes no step more than ``benchmarks/calls.json`` says.

A change that has to take more writes the file anew (``python -m benchmarks.calls --write``) and
says in its message why. Fewer are always right; then write it, so that they stay won.
"""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.call_counts import (
    CallRecorder,
    count_calls_by_function,
    group_by_package,
    make_call_profile,
)
from benchmarks.calls import (
    BROKERS,
    COUNTS_FILE,
    PYTHON,
    TXN_FLOWS,
    count_exactly,
    count_in_virtual_time,
)
from txnsim.txn import transitions
from txnsim.wire import varint

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.version_info[:2] != PYTHON, reason="other versions of Python make other calls"
    ),
]


def test_no_step_and_no_file_more_is_taken_than_is_kept() -> None:
    stored_counts = json.loads(COUNTS_FILE.read_text())
    counts = count_exactly()
    assert counts.keys() == stored_counts.keys()
    excess = {
        f"{title}: {name}": (stored_counts[title].get(name, 0), calls)
        for title, values in counts.items()
        for name, calls in values.items()
        if (name == "all" or title.startswith(("requests", "way")))
        and calls > stored_counts[title].get(name, 0)
    }
    assert not excess, f"(kept, found): {excess}; python -m benchmarks.calls --top 60 says where"


@pytest.mark.parametrize("txn_flow", TXN_FLOWS)
def test_the_count_repeats(txn_flow: str) -> None:
    assert count_in_virtual_time(BROKERS[0], txn_flow) == count_in_virtual_time(
        BROKERS[0], txn_flow
    )


def test_what_is_not_ours_does_not_count() -> None:
    profile = make_call_profile()
    profile.enable()
    json.dumps({"a": 1}, indent=1)
    profile.disable()
    assert count_calls_by_function(profile) == {}


def test_a_way_counts_files_and_changes_of_file_up_to_a_call() -> None:
    recorder = CallRecorder()
    recorder.start()
    transitions.is_epoch_exhausted(1)
    transitions.is_epoch_exhausted(1)
    varint.uvarint(1)
    transitions.is_epoch_exhausted(1)
    recorder.stop()
    whole_counts = recorder.counts_until()
    assert (
        whole_counts.file_count,
        whole_counts.function_count,
        whole_counts.file_change_count,
        whole_counts.call_count,
    ) == (
        2,
        2,
        2,
        4,
    )
    first_part_counts = recorder.counts_until("wire/varint.py:uvarint")
    assert (
        first_part_counts.file_count,
        first_part_counts.file_change_count,
        first_part_counts.call_count,
    ) == (2, 1, 3)


def test_packages_are_summed() -> None:
    counts = {"log/_segment.py:a": 2, "log/answers.py:b": 1, "types.py:c": 3}
    assert group_by_package(counts) == {"log": 3, "types": 3}
