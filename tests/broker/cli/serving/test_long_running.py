"""What long-running commands share is asked for by the same words; their ends are tried where they
run (``test_serve.py``, ``test_proxy.py``).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.slow_machine import SLOW_S
from txnsim.cli.serving.long_running import LongRunning


def test_the_arguments_of_all_of_them() -> None:
    parser = argparse.ArgumentParser()
    LongRunning.add_log_arguments(parser)
    args = parser.parse_args([])
    assert (args.log_level, args.log_format) == ("info", "console")


@pytest.mark.skipif(sys.platform != "linux", reason="epoll refuses what can't be waited for")
async def test_a_standard_input_that_can_t_be_waited_for_is_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Path(os.devnull).open() as null_input:  # noqa: ASYNC230 - it never blocks
        monkeypatch.setattr(sys, "stdin", null_input)
        stop_event = LongRunning.stop_of(argparse.Namespace(until_eof=True))
        await asyncio.wait_for(stop_event.wait(), SLOW_S)


async def test_ctrl_c_is_left_to_the_process_that_holds_the_other_end_of_standard_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, write = os.pipe()
    with os.fdopen(read) as standard_input:
        monkeypatch.setattr(sys, "stdin", standard_input)
        stop_event = LongRunning.stop_of(argparse.Namespace(until_eof=True))
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not stop_event.is_set()
        os.close(write)
        await asyncio.wait_for(stop_event.wait(), SLOW_S)
