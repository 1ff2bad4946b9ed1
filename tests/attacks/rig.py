"""Plays an attack against its own server and measures the effects."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from tests.attacks.figures import Figures, NeighbourWaits
from tests.attacks.target import Attack, AttackTarget, serving
from tests.support.apache_kafka import REPOSITORY
from tests.support.lifetime import ManagedResource
from tests.support.processor_delays import delays_s, undelayed_s
from tests.support.txnsim_server import TxnsimServerError

_QUIET_S: Final = 3.0
_SETTLE_S: Final = 20.0
_LOOK_S: Final = 1.0
_NO_WAITS: Final = NeighbourWaits(answers=0, p99_ms=0.0, worst_ms=0.0)


def measure_attack(attack: Attack, *, checkout: Path | None = None) -> Figures:
    """Play one attack.

    Args:
        attack: Which.
        checkout: Whose server; this one's unless given.
    """
    figures: Figures | None = None
    try:
        with serving(attack, checkout) as target, NeighbourProcess(target) as neighbour:
            time.sleep(_QUIET_S)
            figures = _play_attack(attack, target, neighbour)
    except TxnsimServerError as error:
        if figures is None:
            raise
        reason = str(error).partition("\n")[0]
        return msgspec.structs.replace(figures, trouble=(*figures.trouble, reason))
    return figures


def _play_attack(attack: Attack, target: AttackTarget, neighbour: NeighbourProcess) -> Figures:
    quiet_waits = neighbour.waits(_SETTLE_S) or _NO_WAITS
    logged = target.log_bytes
    target.begin()
    started_s = time.monotonic()
    delays_before_s = delays_s(target.pid, os.getpid())
    player = _Player(attack, target)
    player.start()
    while player.is_alive() and attack.limit_s > undelayed_s(
        time.monotonic() - started_s, delays_s(target.pid, os.getpid()) - delays_before_s
    ):
        player.join(_LOOK_S)
    problems: list[str] = []
    if player.is_alive():
        problems.append(f"the attack did not end within {attack.limit_s:.0f} s")
    elif player.error is not None:
        problems.append(f"the attack failed: {player.error!r}")
    seconds = time.monotonic() - started_s
    if not target.settle(_SETTLE_S):
        problems.append("the loop stands still")
    attacked_waits = neighbour.waits(_SETTLE_S)
    if attacked_waits is None:
        problems.append("the neighbour is not answered any more")
        seconds_ms = (time.monotonic() - started_s) * 1000
        attacked_waits = NeighbourWaits(answers=0, p99_ms=seconds_ms, worst_ms=seconds_ms)
    gap_ms, cpu_ms = target.longest_gap_ms()
    if "the loop stands still" in problems:
        cpu_ms = gap_ms
    peak_mib = target.memory_mib("VmHWM")
    return Figures(
        name=attack.name,
        seconds=seconds,
        sent_bytes=player.sent_bytes,
        gap_ms=gap_ms,
        gap_cpu_ms=cpu_ms,
        memory_mib=max(0.0, peak_mib - target.resident_mib - player.sent_bytes / 2**20),
        kafka_stores_mib=attack.kafka_stores_mib,
        quiet=quiet_waits,
        attacked=attacked_waits,
        log_bytes=target.log_bytes - logged,
        is_refused=attack.is_refused,
        trouble=tuple(problems),
    )


class _Player(threading.Thread):
    """A thread that plays an attack, so that an endless one can be abandoned."""

    def __init__(self, attack: Attack, target: AttackTarget) -> None:
        super().__init__(daemon=True, name=attack.name)
        self._attack = attack
        self._target = target
        self.sent_bytes = 0
        self.error: Exception | None = None

    def run(self) -> None:
        """Play the attack until it ends or fails."""
        try:
            self.sent_bytes = self._attack.play(self._target)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the attack's result
            self.error = error


class NeighbourProcess(ManagedResource):
    """The process of the neighbour."""

    def __init__(self, target: AttackTarget) -> None:
        self._server_pid = target.pid
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.neighbour", target.address],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _on_exit(self, exc: BaseException | None) -> None:
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self._process.communicate(timeout=1.0)
        self._process.kill()
        self._process.wait()

    def waits(self, limit_s: float) -> NeighbourWaits | None:
        """The neighbour's waits since the last call; None if it gets no answers or has ended. The
        limit is without its and the server's waits for a processor.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(self._lines()), daemon=True)
        reader.start()
        begun_s = time.monotonic()
        pids = (self._process.pid, self._server_pid)
        delays_before_s = delays_s(*pids)
        while reader.is_alive() and limit_s > undelayed_s(
            time.monotonic() - begun_s, delays_s(*pids) - delays_before_s
        ):
            reader.join(_LOOK_S)
        return msgspec.json.decode(lines[0], type=NeighbourWaits) if lines else None

    def _lines(self) -> Iterator[str]:
        assert self._process.stdout is not None
        output = self._process.stdout.readline()
        if output:
            yield output
