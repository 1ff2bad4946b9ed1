"""Whether the gate holds on a busy machine: what waits for a clock, a process or a browser is asked
again and again beside processes that burn CPU::

    python -m tests.ci.patience http --times 20 --load 8
    python -m tests.ci.patience gate --times 3 --load 4

As many burn as the machine's load lacks: what others do counts, and so do other runs, with
``--at-once``. Each run has its line here and in
``.cache/patience/runs.jsonl``, with the commit, the seconds and the mean load. The first run that
fails, or takes an hour, ends it with exit status 1; its output is kept beside that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time  # noqa: TID251 - minutes on the real machine
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean
from typing import Any, Final

from tests.check import FULL_MARKERS
from tests.ci.asking import PYTHON
from tests.ci.passed import commit
from tests.ci.process import REPOSITORY, Deadline, ProgramResult, run
from tests.support.console import say

KEPT: Final = REPOSITORY / ".cache" / "patience"
MINUTES_MAX: Final = 60.0
TOO_LATE_MINUTES: Final = 90.0
"""Minutes after which a run is stopped."""
_LOOKS_EVERY_S: Final = 5.0
_LOADED_WITHIN_S: Final = 180.0
_BURNS: Final = (
    "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(10**6))"
)

_CHECK: Final = (PYTHON, "-m", "tests.check", "--only")
_TESTS: Final = (PYTHON, "-m", "pytest", "-q", "-m", FULL_MARKERS)
_PART: Final = (sys.executable, "-m", "tests.ci.run", "--only")

QUESTIONS: Final[Mapping[str, Sequence[str]]] = {
    "gate": (sys.executable, "-m", "tests.ci.run"),
    "test": ("make", "test"),
    "clients": (*_CHECK, "clients"),
    "plugin": (*_CHECK, "lab-plugin"),
    "http": (*_TESTS, "tests/lab/control_port", "tests/broker/http", "tests/lab/http"),
    "cli": (*_TESTS, "tests/broker/cli", "tests/lab/cli", "tests/spark/cli"),
    "wheel": (*_PART, "wheel"),
    "page": (*_PART, "page"),
    "languages": (*_PART, "client per language"),
    "spark": (*_PART, "Spark"),
}
"""Questions and their commands; the gate counts as one."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.ci.patience",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("question", nargs="+", choices=QUESTIONS, metavar="QUESTION")
    parser.add_argument("--times", type=int, default=20, metavar="N", help="in a row")
    parser.add_argument("--load", type=float, default=8, metavar="L", help="of the machine")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="side by side")
    options = parser.parse_args(argv)
    questions = [question for question in options.question for _ in range(options.times)]
    failed_event = threading.Event()

    def ask(question: str) -> None:
        if failed_event.is_set():
            return
        run_record = ask_under_load(question, load)
        outcome = "ok" if run_record["ok"] else "FAILED"
        say(
            f"{question}: {outcome}, {run_record['seconds']} s, {run_record['commit']}, "
            f"load {run_record['load']}"
        )
        if not run_record["ok"]:
            failed_event.set()
            say(f"  {run_record['output']}")

    with Load(options.load) as load, ThreadPoolExecutor(options.at_once) as pool:
        list(pool.map(ask, questions))
    return int(failed_event.is_set())


def ask_under_load(question: str, load: Load) -> dict[str, Any]:
    KEPT.mkdir(parents=True, exist_ok=True)
    first_look_index = load.wait()
    started_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    begun_s = time.monotonic()
    program_result = run(QUESTIONS[question], deadline=Deadline(TOO_LATE_MINUTES))
    seconds = time.monotonic() - begun_s
    is_ok = program_result.code == 0 and seconds < MINUTES_MAX * 60
    run_record = {
        "question": question,
        "commit": commit(),
        "begun": started_at,
        "seconds": round(seconds),
        "wanted_load": load.wanted_load,
        "load": round(load.mean(first_look_index), 1),
        "ok": is_ok,
    }
    if not is_ok:
        run_record["output"] = keep_output(question, started_at, program_result)
    with (KEPT / "runs.jsonl").open("a") as file:
        file.write(f"{json.dumps(run_record)}\n")
    return run_record


def keep_output(question: str, started_at: str, program_result: ProgramResult) -> str:
    """Write the output of a failed run to a file, and return its path."""
    file = KEPT / f"{question}-{started_at}.txt"
    file.write_text(program_result.output)
    return str(file)


class Load:
    """Keeps the machine's load at the wanted level within a block."""

    def __init__(self, wanted_load: float) -> None:
        self.wanted_load = wanted_load
        self._burning: list[subprocess.Popen[bytes]] = []
        self._seen: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for process in self._burning:
            process.kill()
            process.wait()

    def wait(self) -> int:
        """Wait until the load is reached, for some minutes at most. Returns the index of the next
        sample of it.
        """
        end_s = time.monotonic() + _LOADED_WITHIN_S
        while os.getloadavg()[0] < self.wanted_load and time.monotonic() < end_s:
            self._over.wait(_LOOKS_EVERY_S)
        return len(self._seen)

    def mean(self, since: int) -> float:
        """The mean load since that sample."""
        return fmean(self._seen[since:] or [os.getloadavg()[0]])

    def _keep(self) -> None:
        while not self._over.wait(_LOOKS_EVERY_S):
            load = os.getloadavg()[0]
            self._seen.append(load)
            if load < self.wanted_load and len(self._burning) < self.wanted_load:
                self._burning.append(subprocess.Popen([sys.executable, "-c", _BURNS]))
            elif load > self.wanted_load + 1 and self._burning:
                process = self._burning.pop()
                process.kill()
                process.wait()


if __name__ == "__main__":
    sys.exit(main())
