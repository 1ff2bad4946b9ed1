"""A run is a function of its seed: the trace repeats, also under another hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clusters import run_cluster
from tests.support.virtual_story import (
    Outcome,
    own_trace_hashes,
    trace_hash,
    two_transactions_and_an_idle_hour,
)
from txnsim.runtime.trace import TraceLevel

ROOT = Path(__file__).resolve().parents[2]


def story(seed: int) -> Outcome:
    return run_cluster(two_transactions_and_an_idle_hour, seed=seed, trace_level=TraceLevel.FULL)


def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    first, second = story(seed), story(seed)
    assert first.events == second.events
    assert first == second


def test_another_seed_gives_another_trace() -> None:
    assert trace_hash(1) != trace_hash(2)


def test_our_own_client_repeats_in_the_old_flow_and_in_v2() -> None:
    first = own_trace_hashes(3)
    assert own_trace_hashes(3) == first
    assert len(set(first)) == 2


@pytest.mark.slow
def test_the_trace_does_not_depend_on_the_hash_seed() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-m", "tests.support.virtual_story", "7"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert found == {" ".join(own_trace_hashes(7))}
