"""Pools of processes that end with what they work for."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import Future
from pathlib import Path

import pytest

from txnsim.runtime.process_pool import interrupts_kept_back, process_pool


def waits_for_ever(pipe: str) -> None:
    Path(pipe).read_text()


def blocked_signals() -> set[int]:
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


@pytest.mark.costly
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_an_error_ends_work_that_would_last_for_ever(method: str, tmp_path: Path) -> None:
    pipe_file = tmp_path / "pipe"
    os.mkfifo(pipe_file)
    work_future: Future[None]

    def break_off() -> None:
        nonlocal work_future
        with process_pool(1, context=multiprocessing.get_context(method)) as pool:
            with interrupts_kept_back():
                work_future = pool.submit(waits_for_ever, str(pipe_file))
            with pipe_file.open("w"):  # until the work reads it
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert work_future.done()
    assert multiprocessing.active_children() == []


@pytest.mark.costly
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_ctrl_c_of_a_terminal_reaches_none_of_them(method: str) -> None:
    signals_before = blocked_signals()
    with process_pool(1, context=multiprocessing.get_context(method)) as pool:
        with interrupts_kept_back():
            blocked_future = pool.submit(blocked_signals)
        assert signal.SIGINT in blocked_future.result()
    assert blocked_signals() == signals_before
