"""What workers are forked from, without Spark; tests/spark/pipeline runs real ones."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from tests.support.fragment_model import Act, segment_of
from txnsim_spark import daemon
from txnsim_spark.scan import kernel, kernel_crc, kernel_fragments
from txnsim_spark.scan.crcs import crcs_are_right
from txnsim_spark.scan.walk import Bounds, batch_rows, ending_rows, fragment_rows

THREADS: Final = """
import os, sys
from txnsim_spark.daemon import load_kernels
os.environ["OPENBLAS_NUM_THREADS"] = "1"
load_kernels()
print(len(os.listdir("/proc/self/task")), *sorted({"pyarrow", "pandas"} & set(sys.modules)))
"""


def signatures() -> dict[str, int]:
    compiled: dict[str, Any] = {
        "batches": kernel.scan_batches,
        "fragments": kernel_fragments.scan_fragments,
        "enter": kernel_fragments.enter_all,
        "crc by instruction": kernel_crc.check_by_instruction,
        "crc by tables": kernel_crc.check_by_tables,
    }
    return {name: len(function.signatures) for name, function in compiled.items()}


def test_workers_find_everything_compiled_for_what_they_call_it_with(tmp_path: Path) -> None:
    daemon.load_kernels()
    before = signatures()
    acts = [
        Act(kind=kind, producer=at, epoch=0, sequence=0, records=1, value_bytes=9, timestamp_ms=1)
        for at in range(9)
        for kind in ("data", "commit")
    ]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(segment_of(acts))
    bounds = Bounds(producers=4096)
    (table,) = batch_rows(path, on_damage=print, bounds=bounds)
    list(fragment_rows(path, on_damage=print, bounds=bounds))
    list(ending_rows(path, on_damage=print, bounds=bounds))
    assert crcs_are_right(path, table).all()
    assert signatures() == before


@pytest.mark.slow
def test_nothing_is_loaded_that_starts_a_thread() -> None:
    """A fork takes one thread along; what the others held stays held."""
    done = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1"]


def test_it_ends_as_pysparks_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(daemon, "load_kernels", lambda: calls.append("load"))
    monkeypatch.setattr("pyspark.daemon.worker", lambda sock, authenticated: 0)
    monkeypatch.setattr("pyspark.daemon.manager", lambda: calls.append("manage"))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    daemon.main()
    assert calls == ["load", "manage"]


GOODBYE: Final = """
import runpy, socket, sys
from types import ModuleType
from pyspark import daemon
import txnsim_spark.daemon as ours

def worker_main(infile, outfile):
    {doing}

sys.modules["pyspark.worker"] = ModuleType("pyspark.worker")
sys.modules["pyspark.worker"].main = worker_main
{hushed}
near, far = socket.socketpair()
far.close()
try:
    daemon.worker(near, True)
except Exception:
    daemon.traceback.print_exc()
"""
"""PySpark's loop of one worker, whose other end Spark has closed."""


def said(doing: str, hushed: str = "ours.end_quietly(daemon)") -> str:
    script = GOODBYE.format(doing=doing, hushed=hushed)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    return done.stderr


@pytest.mark.slow
def test_a_worker_ends_quietly_where_spark_has_hung_up() -> None:
    doing = "outfile.write(b'bye')"
    assert "BrokenPipeError" in said(doing, hushed=""), "PySpark says nothing itself"
    assert said(doing) == ""
    assert "BrokenPipeError" in said("raise BrokenPipeError", hushed="")
    assert said("raise BrokenPipeError") == ""


@pytest.mark.slow
def test_what_else_goes_wrong_in_a_worker_is_heard() -> None:
    assert "ValueError: a bug" in said("raise ValueError('a bug')")


def test_only_pysparks_own_program_is_hushed(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", program)
    for name, is_hushed in (("pytest", False), ("pyspark.daemon", True)):
        program.__spec__ = ModuleSpec(name, None)
        daemon.end_quietly()
        assert ("print" in vars(program)) is is_hushed
