"""The inputs that a run goes on from: small, in the repository, one text file per target.

Each line is an input in base64. What fuzzing finds lies below ``.cache/fuzz`` as libFuzzer keeps
it, one file per input; ``minimise`` carries over those that reach a line or a jump between lines
that no shorter one reaches.
"""

from __future__ import annotations

import base64
import contextlib
import random
import shutil
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tests.fuzz.judge import name_of
from tests.fuzz.target import Target
from tests.support.apache_kafka import REPOSITORY

CORPUS_FOLDER: Final = Path(__file__).with_name("corpus")
WORKING: Final = REPOSITORY / ".cache" / "fuzz"
BYTES_MAX: Final = 24_000
"""Of a target's inputs in the repository."""
COUNTS: Final = struct.Struct("=qdd")
"""What a worker notes of itself: inputs, the slowest in ms, the most memory in MiB."""
_OURS: Final = "/sim/txnsim/"

Jump = tuple[int, int, int]
"""Code object, line before, line."""


def read(name: str) -> list[bytes]:
    """The inputs that the repository keeps for a target."""
    path = CORPUS_FOLDER / f"{name}.txt"
    if not path.exists():
        return []
    return [base64.b64decode(line) for line in path.read_text().splitlines()]


def unpack(target: Target, file_name: str) -> Path:
    """The folder of a run's first inputs: seeds, the kept corpus, and finds of earlier runs."""
    folder = WORKING / file_name / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    for data in (*target.seeds(), *read(file_name)):
        (folder / name_of(data)).write_bytes(data)
    return folder


def sample_inputs(folder: Path, count: int) -> Path:
    """A folder with a drawn part of the inputs, another part each time."""
    sample_folder = folder.with_name("begin")
    shutil.rmtree(sample_folder, ignore_errors=True)
    sample_folder.mkdir()
    inputs = sorted(folder.iterdir())
    for path in random.sample(inputs, min(count, len(inputs))):
        shutil.copy(path, sample_folder)
    return sample_folder


def minimise(target: Target, name: str) -> tuple[int, int]:
    """Keep of all inputs those that are needed; (how many there were, how many are kept)."""
    folder = unpack(target, name)
    inputs = sorted(
        (data.read_bytes() for data in folder.iterdir()), key=lambda data: (len(data), data)
    )
    seeds = set(target.seeds())
    reached_jumps: set[Jump] = set()
    for seed_data in seeds:
        reached_jumps |= _reach(target, seed_data)
    needed: list[bytes] = []
    size = 0
    for seed_data in inputs:
        new_jumps = _reach(target, seed_data) - reached_jumps
        if new_jumps and seed_data not in seeds and size + len(seed_data) <= BYTES_MAX:
            reached_jumps |= new_jumps
            needed.append(seed_data)
            size += len(seed_data)
    _write(name, needed)
    return len(inputs), len(needed)


def _write(name: str, inputs: Iterable[bytes]) -> None:
    CORPUS_FOLDER.mkdir(exist_ok=True)
    lines = sorted(base64.b64encode(input_data).decode() for input_data in inputs)
    (CORPUS_FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def _reach(target: Target, file_bytes: bytes) -> set[Jump]:
    """The jumps between lines of ours that an input makes."""
    jumps: set[Jump] = set()
    last_lines: dict[FrameType, int] = {}

    def line(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            jumps.add((id(frame.f_code), last_lines.get(frame, 0), frame.f_lineno))
            last_lines[frame] = frame.f_lineno
        elif event == "return":
            last_lines.pop(frame, None)
        return line

    def call(frame: FrameType, _event: str, _argument: Any) -> Any:
        return line if _OURS in frame.f_code.co_filename else None

    sys.settrace(call)
    try:
        with contextlib.suppress(Exception):
            target.play(file_bytes)
    finally:
        sys.settrace(None)
    return jumps
