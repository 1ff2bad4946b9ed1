"""Runs the processes that fuzz, and gathers what they have found."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from select import select
from typing import Final

import msgspec

from tests.fuzz import corpus
from tests.fuzz.corpus import COUNTS
from tests.fuzz.judge import Find, Judge, name_of
from tests.fuzz.roster import load
from tests.fuzz.target import Target
from tests.support.apache_kafka import REPOSITORY

INPUT_S_MAX: Final = 25
"""An input that takes longer has no end."""
RESIDENT_MIB_MAX: Final = 2_500
_POLL_S: Final = 1.0
_COVERAGE: Final = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_LEFT_BY_LIBFUZZER: Final = re.compile(r"(crash|timeout|oom|leak)-[0-9a-f]+")
_DOUBTFUL: Final = ("time", "memory")
"""Kinds that are held against the code as it is, without the fuzzer's counters in it."""


class KeptFind(msgspec.Struct, frozen=True, kw_only=True):
    """A find of a run."""

    kind: str
    path: str
    replay: str
    """The command that plays it again."""
    reason: str
    """The last line of what is known of it."""
    input: bytes


class FuzzOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run over one target."""

    target: str
    seconds: float
    inputs: int
    coverage: int
    """Edges of the code that were taken."""
    features: int
    """Edges by how often they were taken."""
    corpus: int
    """Inputs that reach something new."""
    slowest_ms: float
    most_mib: float
    figures: dict[str, float]
    """What the target has measured besides."""
    finds: tuple[KeptFind, ...]
    trouble: str = ""
    """Why it ended early, if it did."""


class Workers:
    """The process that has imported the targets and forks a child per task, while it is entered."""

    def __init__(self, target_names: Sequence[str]) -> None:
        self._names = target_names

    def __enter__(self) -> Workers:
        command = [sys.executable, "-m", "tests.fuzz.worker", *self._names]
        corpus.WORKING.mkdir(parents=True, exist_ok=True)
        with (corpus.WORKING / "output").open("wb") as output:
            self._parent = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                bufsize=0,
                start_new_session=True,
            )
        self._line(lambda: None)  # all is imported
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._parent.pid, signal.SIGKILL)
        self._parent.communicate()

    def run(self, task: Mapping[str, object], on_poll: Callable[[], object]) -> int:
        """Run a task in a worker; return the exit status of its process."""
        assert self._parent.stdin is not None
        self._parent.stdin.write(msgspec.json.encode(task) + b"\n")
        self._line(on_poll)  # the process id of the child
        return int(self._line(on_poll))

    def _line(self, on_poll: Callable[[], object]) -> bytes:
        assert self._parent.stdout is not None
        while not select([self._parent.stdout], (), (), _POLL_S)[0]:
            on_poll()
        line = self._parent.stdout.readline()
        if not line:
            raise RuntimeError(f"no worker can be started: see {corpus.WORKING / 'output'}")
        return line


def fuzz(
    name: str,
    workers: Workers,
    *,
    seconds: float | None,
    input_count: int | None,
    on_progress: Callable[[str], object],
) -> FuzzOutcome:
    """Fuzz one target for a time or for a number of inputs, whichever limit comes first."""
    target = load(name)
    folder = begin_folder = corpus.unpack(target, name)
    if seconds is not None and target.seeds_a_second is not None:
        begin_folder = corpus.sample_inputs(folder, int(seconds * target.seeds_a_second) + 1)
    work_folder = corpus.WORKING / name
    for folder_name in ("finds", "left"):
        shutil.rmtree(work_folder / folder_name, ignore_errors=True)
    (work_folder / "left").mkdir()
    dictionary_lines = "".join(f'"{_quote_word(word)}"\n' for word in target.words)
    _dictionary(work_folder).write_text(dictionary_lines)
    begun_s = time.monotonic()
    inputs_done, slowest_ms, most_mib = 0, 0.0, 0.0
    coverage, problem_text = (0, 0, 0), ""

    def tell(running_inputs: int) -> None:
        on_progress(f"{name}: {inputs_done + running_inputs} inputs")

    while True:
        remaining_s = None if seconds is None else seconds - (time.monotonic() - begun_s)
        if (remaining_s is not None and remaining_s < 1) or (
            input_count is not None and inputs_done >= input_count
        ):
            break
        options = [str(begin_folder), *_options(target, work_folder)]
        if input_count is not None:
            options.append(f"-runs={input_count - inputs_done}")
        task = {
            "target": name,
            "directory": str(work_folder),
            "until_s": None if seconds is None else begun_s + seconds,
            "options": options,
        }
        code = workers.run(task, lambda: tell(_count(work_folder)))
        counts = (work_folder / "counts").read_bytes()
        task_inputs, task_slowest_ms, task_most_mib = COUNTS.unpack(counts)
        inputs_done += task_inputs
        slowest_ms, most_mib = max(slowest_ms, task_slowest_ms), max(most_mib, task_most_mib)
        coverage_lines = [*_COVERAGE.finditer((work_folder / "output").read_text(errors="replace"))]
        if coverage_lines:
            coverage = tuple(int(number) for number in coverage_lines[-1].groups())  # type: ignore[assignment]
        if code == 0:
            break
        problem_text = _last_line(work_folder / "output")
        if not task_inputs:
            break
    if begin_folder is not folder:
        shutil.copytree(begin_folder, folder, dirs_exist_ok=True)
    figures_file = work_folder / "figures.json"
    return FuzzOutcome(
        target=name,
        seconds=time.monotonic() - begun_s,
        inputs=inputs_done,
        coverage=coverage[0],
        features=coverage[1],
        corpus=coverage[2],
        slowest_ms=slowest_ms,
        most_mib=most_mib,
        figures=msgspec.json.decode(figures_file.read_bytes()) if figures_file.exists() else {},
        finds=tuple(_finds(name, work_folder)),
        trouble=problem_text,
    )


def _options(target: Target, work_folder: Path) -> list[str]:
    """libFuzzer's options that are the same in each run of a target."""
    return [
        f"-artifact_prefix={work_folder / 'left'}/",
        f"-max_len={target.length_max}",
        f"-timeout={INPUT_S_MAX}",
        f"-rss_limit_mb={RESIDENT_MIB_MAX}",
        "-print_final_stats=1",
        "-reload=0",
        *([f"-dict={_dictionary(work_folder)}"] if target.words else []),
    ]


def _dictionary(work_folder: Path) -> Path:
    return work_folder / "words"


def replay(name: str, path: Path) -> Find | None:
    """Play one input in this process; return the broken property, or None."""
    return play_for_find(Judge(load(name)), path.read_bytes())


def play_for_find(judge: Judge, fuzz_bytes: bytes) -> Find | None:
    """Play an input, up to three times where time or memory is in doubt: the first play may import
    modules, so the best one counts.
    """
    for _ in range(3):
        find = judge.play(fuzz_bytes)
        if find is None or find.kind not in _DOUBTFUL:
            break
    return find


def _count(work_folder: Path) -> int:
    path = work_folder / "counts"
    data = path.read_bytes() if path.exists() else b""
    return int(COUNTS.unpack(data)[0]) if len(data) == COUNTS.size else 0


def _finds(name: str, work_folder: Path) -> list[KeptFind]:
    """The finds of the worker and of libFuzzer; doubtful ones are played again first."""
    finds: list[KeptFind] = []
    for story in sorted((work_folder / "finds").glob("*.txt")):
        kind = story.read_text().partition("\n")[0]
        path = story.with_suffix("")
        if kind not in _DOUBTFUL or _is_broken_again(name, path):
            finds.append(_keep_find(name, kind, path))
    for path in sorted((work_folder / "left").iterdir()):
        match = _LEFT_BY_LIBFUZZER.fullmatch(path.name)
        if match is not None:
            finds.append(_keep_find(name, match[1], path))
    return finds


def _keep_find(name: str, kind: str, path: Path) -> KeptFind:
    """Copy an input that broke a property to where later runs do not delete it."""
    folder = corpus.WORKING / "finds" / name
    folder.mkdir(parents=True, exist_ok=True)
    data = path.read_bytes()
    copied_path = folder / name_of(data)
    shutil.copy(path, copied_path)
    reason = kind
    story = path.with_name(f"{path.name}.txt")
    if story.exists():
        shutil.copy(story, copied_path.with_name(f"{copied_path.name}.txt"))
        reason = story.read_text().rstrip().rpartition("\n")[2]
    relative_path = str(copied_path.relative_to(REPOSITORY))
    replay_command = f"python -m tests.fuzz {name} --replay {relative_path}"
    return KeptFind(kind=kind, path=relative_path, replay=replay_command, reason=reason, input=data)


def _is_broken_again(name: str, path: Path) -> bool:
    command = [sys.executable, "-m", "tests.fuzz", name, "--replay", str(path)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False).returncode != 0


def _last_line(path: Path) -> str:
    lines = [line for line in path.read_text(errors="replace").splitlines() if "ERROR" in line]
    return lines[-1] if lines else "the process ended early"


def _quote_word(word: bytes) -> str:
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word
    )
