"""The watch over tests that hang, in runs of pytest inside of pytest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import hang_watch

PLUGINS = ("-p", "tests.support.hang_watch", "-p", "no:randomly")


@pytest.fixture(autouse=True)
def make_plugin_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))


def run(pytester: pytest.Pytester, test: str, *limits: str) -> pytest.RunResult:
    pytester.makepyfile(test)
    options = [option for limit in limits for option in ("-o", limit)]
    return pytester.runpytest_subprocess(*PLUGINS, *options)


@pytest.mark.slow
def test_a_test_that_stands_still_ends_the_run_with_its_stack(pytester: pytest.Pytester) -> None:
    run_result = run(
        pytester,
        """
        import subprocess, sys, threading
        def test_it():
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            threading.Event().wait()
        """,
        "hang_idle_s=2",
    )
    assert run_result.ret == 1
    run_result.stderr.fnmatch_lines(
        ["*in test_it*", "*time.sleep(600)*", "*::test_it hangs: its processes stood still for 2 s"]
    )


@pytest.mark.costly
@pytest.mark.slow
def test_a_test_that_computes_without_end_ends_the_run(pytester: pytest.Pytester) -> None:
    run_result = run(
        pytester,
        """
        def test_it():
            while True:
                pass
        """,
        "hang_idle_s=4",
        "hang_busy_s=1",
    )
    assert run_result.ret == 1
    run_result.stderr.fnmatch_lines(["*::test_it hangs: it used more than 1 s of processors"])


@pytest.mark.costly
@pytest.mark.slow
def test_a_test_whose_child_works_does_not_hang(pytester: pytest.Pytester) -> None:
    """Its own process stands still for longer than the limit, which is some seconds: within one, a
    busy machine may give a child no turn.
    """
    run_result = run(
        pytester,
        """
        import subprocess, sys
        BURN = "import time\\nwhile time.process_time() < 2.8: pass"
        def test_it():
            subprocess.run([sys.executable, "-c", BURN], check=True)
            subprocess.run([sys.executable, "-c", BURN], check=True)
        """,
        "hang_idle_s=5",
    )
    assert run_result.ret == 0


def test_what_children_have_used_counts_when_they_have_ended(pytester: pytest.Pytester) -> None:
    processor_use = hang_watch.ProcessorUse()
    processor_use.look()
    pytester.run(sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass")
    processor_use.look()
    assert processor_use.used_s > 0.25


def test_a_child_that_leaves_with_all_it_has_used_does_not_hide_what_others_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parent of such a child has ended. CI once took the next test for a hang."""
    used_s_by_process = {1: 1.0, 2: 90.0}
    monkeypatch.setattr(hang_watch, "used_by_process_s", lambda: dict(used_s_by_process))
    processor_use = hang_watch.ProcessorUse()
    processor_use.look()
    del used_s_by_process[2]
    for _ in range(hang_watch.LOOKS):
        assert not processor_use.stood_still(300.0)
        used_s_by_process[1] += 1.0
        processor_use.look()
    assert not processor_use.stood_still(300.0)
    for _ in range(hang_watch.LOOKS):
        processor_use.look()
    assert processor_use.stood_still(300.0)
