"""What of a process decides the order of hashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from txnsim.runtime.virtual import process
from txnsim.runtime.virtual.process import (
    ADDRESSES,
    STRINGS,
    arrange_process,
    limits_of_process,
)

PROGRAM = """
import json, os, sys
from txnsim.runtime.virtual.process import arrange_process, limits_of_process
before = limits_of_process()
limits = arrange_process()
print(json.dumps([sys.argv[1:], hash("a"), hash(None), limits, limits_of_process()]))
"""

FIXED_SINCE_3_12 = sys.version_info >= (3, 12)


def program(*options: str, hash_seed: str) -> list[object]:
    """What the program prints, started under a hash seed."""
    environ = {name: value for name, value in os.environ.items() if name != process.ARRANGED}
    done = subprocess.run(
        [sys.executable, *options, "-c", PROGRAM, "an argument", "--more"],
        env={**environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[object] = json.loads(done.stdout)
    return found


def refuses(monkeypatch: pytest.MonkeyPatch, answer: int | None) -> None:
    """The system's call answers that."""
    monkeypatch.setattr(process, "_personality", lambda _wanted: answer)


def test_an_arranged_process_hashes_alike_whatever_it_was_started_with() -> None:
    first, second = program(hash_seed="1"), program(hash_seed="random")
    assert first == second
    assert first[0] == ["an argument", "--more"]
    assert first[3:] == [[], []]


def test_where_variables_are_not_read_the_limit_is_named() -> None:
    environ = {name: value for name, value in os.environ.items() if name != process.ARRANGED}
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from txnsim.runtime.virtual.process import arrange_process\n"
        "print(*arrange_process())"
    )
    done = subprocess.run(
        [sys.executable, "-E", "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == STRINGS


@pytest.mark.skipif(FIXED_SINCE_3_12, reason="None hashes by a constant since Python 3.12")
def test_addresses_count_before_python_3_12(monkeypatch: pytest.MonkeyPatch) -> None:
    refuses(monkeypatch, 0)
    assert ADDRESSES in limits_of_process()
    refuses(monkeypatch, 0x0040000)
    assert ADDRESSES not in limits_of_process()
    refuses(monkeypatch, None)
    assert ADDRESSES in limits_of_process()


def test_a_program_is_started_again_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []
    asked: list[int] = []

    def execve(_path: str, argv: list[str], env: dict[str, str]) -> None:
        started.append((argv, env))
        raise SystemExit(0)

    monkeypatch.setattr(os, "execve", execve)

    def personality(wanted: int) -> int:
        asked.append(wanted)
        return 0

    monkeypatch.setattr(process, "_personality", personality)
    monkeypatch.setattr(process, "limits_of_process", lambda: (STRINGS,))
    monkeypatch.delenv(process.ARRANGED, raising=False)
    with pytest.raises(SystemExit):
        arrange_process()
    argv, env = started.pop()
    assert argv == [sys.executable, *sys.orig_argv[1:]]
    assert (env["PYTHONHASHSEED"], env[process.ARRANGED]) == ("0", "1")
    assert asked == [0xFFFFFFFF, 0x0040000]
    monkeypatch.setenv(process.ARRANGED, "1")
    assert arrange_process() == (STRINGS,)
    assert started == []


def test_an_arranged_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "limits_of_process", tuple)
    assert arrange_process() == ()


def test_elsewhere_than_on_linux_there_is_no_such_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert process._personality(0) is None
