from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from txnsim_lab.scenario.forked_processes import Child, ForkServer, ProcessEndedError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")

HELPER = """
from txnsim_lab.scenario.forked_processes import Channel, Checkpoints, serve

def handle(channel: Channel) -> None:
    kept, said = Checkpoints(), []
    while True:
        channel.send(" ".join(said).encode() + b"|")
        word = channel.hear().decode()
        if word.isdigit():
            try:
                kept.back(int(word))
            except ValueError as error:
                said = [str(error)]
        elif word == "crash":
            raise SystemExit(3)
        elif not kept.keep():
            said.append(word)

def main() -> None:
    serve(handle)

if __name__ == "__main__":
    main()
"""

FORKED = """
import asyncio, helper_of_this_test, os, sys, threading
from txnsim_lab.scenario.forked_processes import ForkServer

helper_of_this_test.handle = lambda channel: channel.send(b"as it was imported here")

async def hear(fork_server):
    child = await asyncio.to_thread(fork_server.begin)
    print((await child.hear()).decode())

fork_server = ForkServer("helper_of_this_test")
fork_server.fork()
asyncio.run(hear(fork_server))
fork_server.close()
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no process is left")
"""
FORKED_SAYS = "as it was imported here\nno process is left\n"


@asynccontextmanager
async def child_of(fork_server: ForkServer) -> AsyncIterator[Child]:
    child = await asyncio.to_thread(fork_server.begin)
    assert await child.hear() == b"|"
    try:
        yield child
    finally:
        child.kill()


@pytest.fixture
def fork_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    (tmp_path / "helper_of_this_test.py").write_text(HELPER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    server = ForkServer("helper_of_this_test")
    yield server
    server.close()


async def test_a_helper_that_was_forked_early_imports_nothing_again(tmp_path: Path) -> None:
    (tmp_path / "helper_of_this_test.py").write_text(HELPER)
    helper = await asyncio.to_thread(
        partial(
            subprocess.run,
            [sys.executable, "-W", "error::DeprecationWarning", "-c", FORKED],
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    )
    assert (helper.stdout, helper.stderr, helper.returncode) == (FORKED_SAYS, "", 0)


async def talk_to_child(child: Child, message: str) -> str:
    await child.send(message.encode())
    return (await child.hear()).decode()


async def test_a_child_goes_back_to_any_moment_that_it_kept(fork_server: ForkServer) -> None:
    async with child_of(fork_server) as child:
        assert await talk_to_child(child, "a") == "a|"
        assert await talk_to_child(child, "b") == "a b|"
        assert await talk_to_child(child, "c") == "a b c|"
        assert await talk_to_child(child, "1") == "a b|"
        assert await talk_to_child(child, "d") == "a b d|"
        assert await talk_to_child(child, "3") == "|"
        assert await talk_to_child(child, "1") == "0 moments are kept, 1 back was asked for|"


async def test_children_know_nothing_of_each_other(fork_server: ForkServer) -> None:
    async with child_of(fork_server) as first_child, child_of(fork_server) as second_child:
        assert await talk_to_child(first_child, "a") == "a|"
        assert await talk_to_child(second_child, "b") == "b|"


async def test_a_crash_and_a_kill_end_the_child_with_its_checkpoints(
    fork_server: ForkServer,
) -> None:
    async with child_of(fork_server) as child:
        await talk_to_child(child, "a")
        with pytest.raises(ProcessEndedError):
            await talk_to_child(child, "crash")
    async with child_of(fork_server) as child:
        await talk_to_child(child, "a")
        child.kill()
        with pytest.raises(ProcessEndedError):
            await child.hear()


async def test_a_kill_before_the_first_message_ends_the_child(fork_server: ForkServer) -> None:
    child = fork_server.begin()
    child.kill()
    with pytest.raises(ProcessEndedError, match="was ended"):
        await child.send(b"a")


async def test_a_kill_amid_the_first_message_ends_the_child(fork_server: ForkServer) -> None:
    child = fork_server.begin()
    asyncio.get_running_loop().call_soon(child.kill)
    await child.send(b"a")
    with pytest.raises(ProcessEndedError):
        await child.hear()


async def test_a_helper_that_can_not_be_started_is_an_error() -> None:
    fork_server = ForkServer("txnsim.no_such_module")
    with pytest.raises(ProcessEndedError, match="helper process"):
        await asyncio.to_thread(fork_server.begin)
    fork_server.close()


LARGE = """
from txnsim_lab.scenario import forked_processes
from txnsim_lab.scenario.forked_processes import Channel, serve

forked_processes.CHILD_BYTES_MAX = 256 << 20

def handle(channel: Channel) -> None:
    channel.send(b"|")
    try:
        channel.send(str(len(bytearray(1 << 30))).encode())
    except MemoryError:
        channel.send(b"too much")
    forked_processes.Channel.hear(channel)

if __name__ == "__main__":
    serve(handle)
"""


async def test_a_child_may_not_take_all_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large_helper_of_this_test.py").write_text(LARGE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    fork_server = ForkServer("large_helper_of_this_test")
    try:
        async with child_of(fork_server) as child:
            assert await child.hear() == b"too much"
    finally:
        fork_server.close()


STOPPED = """
import helper_of_this_test, os, signal
from txnsim_lab.scenario import forked_processes

forked_processes.END_S = 0.05
fork_server = forked_processes.ForkServer("helper_of_this_test")
fork_server.fork() if %(forked)r else fork_server.warm_up()
os.kill(getattr(fork_server._process, "pid", 0) or fork_server._process._pid, signal.SIGSTOP)
fork_server.close()
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no process is left")
"""


@pytest.mark.parametrize("is_forked", [True, False])
def test_a_helper_that_does_not_end_is_not_waited_for_without_an_end(
    tmp_path: Path, *, is_forked: bool
) -> None:
    """A server has five seconds to end: on a busy machine it waited for that of 200 processes, and
    was cut off.
    """
    (tmp_path / "helper_of_this_test.py").write_text(HELPER)
    process = subprocess.run(
        [sys.executable, "-c", STOPPED % {"forked": is_forked}],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (process.stdout, process.returncode) == ("no process is left\n", 0), process.stderr
