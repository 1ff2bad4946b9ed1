"""A figure that grows without end is found, one that goes up and down is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.soak.samples import RestSamples, Sample, grown_figures, per_thousand, plot, sample
from tests.soak.soaking import logged_errors


def _sample(
    at_s: int,
    *,
    memory_mib: float = 100.0,
    held_mib: float = 0.0,
    task_count: int = 5,
    file_count: int = 200,
) -> Sample:
    return Sample(
        at_s=at_s,
        memory_mib=memory_mib,
        held_mib=held_mib,
        own_mib=memory_mib - held_mib,
        tasks=task_count,
        files=file_count,
        gap_ms=1.0,
        busy_ms=1.0,
    )


def test_flat_is_flat() -> None:
    samples = [
        _sample(second, memory_mib=100 + second % 17, file_count=200 + second % 50)
        for second in range(600)
    ]
    assert grown_figures(samples) == []


def test_what_a_start_needs_does_not_count() -> None:
    samples = [_sample(second, memory_mib=40 + min(second, 150)) for second in range(600)]
    assert grown_figures(samples) == []


def test_what_logs_keep_is_no_leak() -> None:
    """As observed: growth of 39 MiB in two minutes by batches in segments that were not full."""
    samples = [
        _sample(second, memory_mib=100 + second / 3, held_mib=second / 3) for second in range(120)
    ]
    assert grown_figures(samples) == []
    assert per_thousand(samples, "held_mib", 31_000) == pytest.approx(1.3, abs=0.3)
    assert per_thousand(samples, "own_mib", 31_000) == pytest.approx(0.0, abs=0.01)
    leaking_samples = [
        _sample(second, memory_mib=100 + second / 2, held_mib=second / 3) for second in range(600)
    ]
    assert [finding_text.partition(":")[0] for finding_text in grown_figures(leaking_samples)] == [
        "own_mib"
    ]


def test_what_was_freed_stays_with_the_process(tmp_path: Path) -> None:
    counts_file = tmp_path / "counts.json"
    cluster_counts = {"trace_bytes": 0, "logs_bytes": 3 << 20, "segments": 2}
    counts_file.write_text(
        json.dumps({"tasks": 1, "gap_ms": 0, "busy_ms": 0, "held": [cluster_counts]})
    )
    sample_now = sample(os.getpid(), counts_file, 1.0)
    sample_later = sample(os.getpid(), counts_file, 2.0, held_before_mib=10.0)
    assert (sample_now.held_mib, sample_now.segments) == (3.0, 2)
    assert sample_now.own_mib == pytest.approx(sample_now.memory_mib - 3)
    assert sample_later.own_mib == pytest.approx(sample_later.memory_mib - 10)


def test_growth_is_found() -> None:
    samples = [
        _sample(second, memory_mib=100 + second, task_count=second, file_count=200 + second)
        for second in range(600)
    ]
    findings = grown_figures(samples)
    assert [finding_text.partition(":")[0] for finding_text in findings] == [
        "own_mib",
        "tasks",
        "files",
    ]


def test_files_are_fewer_while_a_broker_is_down() -> None:
    """As observed: a broker was down during the early samples, and all were up at the end."""
    files = [236] * 20 + [160] * 40 + [185] * 40 + [236] * 20
    samples = [_sample(second, file_count=count) for second, count in enumerate(files)]
    assert grown_figures(samples) == []
    leak = [count + second // 2 for second, count in enumerate(files)]
    findings = grown_figures(
        [_sample(second, file_count=count) for second, count in enumerate(leak)]
    )
    assert findings == ["files: 245, then 295; allowed 280"]


def test_what_clients_leave_behind_is_found() -> None:
    samples = [_sample(second) for second in range(100)]
    rest_samples = RestSamples(
        sample_before=_sample(0, file_count=20), sample_after=_sample(110, file_count=25)
    )
    assert grown_figures(samples, rest_samples) == []
    rest_samples = RestSamples(
        sample_before=_sample(0, file_count=20, task_count=2),
        sample_after=_sample(110, file_count=26, task_count=13),
    )
    assert grown_figures(samples, rest_samples) == [
        "tasks: 2 before the clients came, 13 when they had gone; allowed 12",
        "files: 20 before the clients came, 26 when they had gone; allowed 25",
    ]


def test_a_plot_has_the_greatest_value_of_each_moment() -> None:
    lines = plot(
        [_sample(second, task_count=80 if second == 30 else 1) for second in range(100)], "tasks"
    )
    assert lines[0] == "tasks, 0 to 80, 99 s"
    assert lines[1].count("█") == 1
    assert len(lines) == 10


def test_errors_of_the_log_are_told_once_a_kind() -> None:
    log = '{"level":"error","event":"bug","n":1}\n{"level":"info","event":"x"}\n' * 2
    assert logged_errors(log) == ('2x {"level":"error","event":"bug","n":1}',)
    assert logged_errors("Traceback (most recent call last):\n")
