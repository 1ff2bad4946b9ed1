"""A program that writes hypotheses, one after the other: nothing of 200 stays behind."""

from __future__ import annotations

import gc
import json
import os
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from txnsim.cli.main import main
from txnsim.runtime.rng import RandomStreams
from txnsim_lab.scenario.hypothesis import HypothesisVerdict

STORIES: Final = 200
WARM: Final = 50
"""Stories after which all that is loaded once has been loaded."""
GROWTH_KIB_MAX: Final = 16_384
"""Of the process, within 150 stories: 110 KiB each would be a leak."""
MODES: Final = ("V-", "V+", "TV2", "TV2+")
CLAIMS: Final = ("healthy", "healthy", "stuck-last-stable-offset", "lost-write")
MISTAKES: Final = ("produc", "committ", "begn")


def story(seed: int) -> dict[str, Any]:
    """A drawn hypothesis: a few steps in some order, some of them refused or misspelt."""
    random_draw = RandomStreams(seed).stream("stories")
    steps: list[dict[str, Any]] = [{"call": {"who": "app", "do": "init-producer-id"}}]
    is_held = random_draw.randrange(4) == 0
    if is_held:
        steps.append({"hold": {"id": "m", "point": "peer.request", "api": "WriteTxnMarkers"}})
    for transaction in range(1 + random_draw.randrange(3)):
        steps.append({"call": {"who": "app", "do": "begin"}})
        for record in range(1 + random_draw.randrange(2)):
            value = f"r{transaction}-{record}"
            produce = {"who": "app", "do": "produce", "partition": "t-0", "value": value}
            steps.append({"call": produce})
        steps.append(random_draw.choice([
            {"call": {"who": "app", "do": random_draw.choice(("commit", "abort"))}},
            {"cluster": {"do": "move-leader", "partition": "t-0", "to": 2}},
            {"advance": "90s"},
        ]))  # fmt: skip
    if is_held:
        steps.append({"release": "m"})
    if random_draw.randrange(5) == 0:
        steps.append({"call": {"who": "app", "do": random_draw.choice(MISTAKES)}})
    mode = random_draw.choice(MODES)
    return {
        "name": f"machine-{seed}",
        "title": "A story of a machine",
        "goal": "See whether it is so.",
        "method": "Steps are drawn.",
        "topics": {"t": {"partitions": 1, "leaders": [1]}},
        "actors": {"app": {"plays": "wire", "transaction-timeout": "60s"}},
        "runs": {mode: {"mode": mode, "verdict": random_draw.choice(CLAIMS)}},
        "steps": steps,
    }


def open_files_and_threads() -> tuple[int, int]:
    """Open files, sockets among them, and threads."""
    return len(os.listdir("/dev/fd")), threading.active_count()


def resident_kib() -> int:
    gc.collect()
    page_count = int(Path("/proc/self/statm").read_text().split()[1])
    return page_count * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.mark.costly
def test_two_hundred_stories_of_a_machine_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    file = tmp_path / "story.json"  # JSON is YAML, too
    verdict_counts = Counter[str]()
    for number in range(STORIES):
        if number == WARM:
            objects_before, resident = open_files_and_threads(), resident_kib()
        file.write_text(json.dumps(story(number)))
        status = main(["check-hypothesis", str(file), "--json"])
        report = json.loads(capsys.readouterr().out)
        verdict_counts[report["verdict"]] += 1
        assert status == {"reproduced": 0, "wrong file": 2}.get(report["verdict"], 1)
    file.unlink()
    assert {path.name for path in tmp_path.rglob("*")} == {"temporary"}
    assert open_files_and_threads() == objects_before
    assert resident_kib() - resident < GROWTH_KIB_MAX
    assert verdict_counts.keys() == {*HypothesisVerdict, "wrong file"}, verdict_counts
    assert min(verdict_counts.values()) >= STORIES // 20, verdict_counts
