"""How the work of ``logs verify`` is shared out; that it is done is in tests/spark/pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.soundness import busy_log, write_log_dir
from txnsim.errors import BadInputError
from txnsim.storage import names
from txnsim_spark.engine import EngineKind, lone_engine
from txnsim_spark.soundness.verify import plan_verification, verify
from txnsim_spark.soundness.violations import Invariant


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_log_dir(tmp_path, 4, {"orders-0": busy_log(), "payments-0": busy_log()})
    return tmp_path


def test_each_segment_has_a_task_when_a_task_takes_no_more(log_dir: Path) -> None:
    verification_plan = plan_verification([log_dir], task_bytes=1)
    assert (verification_plan.replica_count, verification_plan.segment_count) == (2, 10)
    assert [len(task) for task in verification_plan.tasks] == [1] * 10
    assert verification_plan.total_bytes == sum(
        path.stat().st_size for path in log_dir.rglob("*.log")
    )


def test_there_is_more_than_one_task_for_little_work(log_dir: Path) -> None:
    assert len(plan_verification([log_dir]).tasks) > 1


def test_topics_can_be_chosen(log_dir: Path) -> None:
    verification_plan = plan_verification([log_dir], frozenset({"payments"}))
    assert {work.segment.topic for task in verification_plan.tasks for work in task} == {"payments"}


def test_a_checkpoint_that_cannot_be_read_is_found_by_the_plan(log_dir: Path) -> None:
    (log_dir / names.FileName.HIGH_WATERMARKS).write_text("no")
    (violation,) = plan_verification([log_dir]).findings
    assert (violation.rule, violation.broker, violation.partition) == (
        Invariant.UNREADABLE_FILE,
        4,
        -1,
    )


def test_where_nobody_noted_it_the_newest_segment_is_recovered(log_dir: Path) -> None:
    (log_dir / names.FileName.RECOVERY_POINTS).unlink()
    works = [work for task in plan_verification([log_dir]).tasks for work in task]
    newest_base = max(work.segment.base_offset for work in works)
    assert {work.facts.recovery_point for work in works} == {newest_base}


def test_what_holds_nothing_of_kafka_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        plan_verification([tmp_path / "nowhere"])


def test_a_segment_that_goes_while_it_is_verified_is_a_finding(log_dir: Path) -> None:
    verification_plan = plan_verification([log_dir])
    deleted_log_file = next((log_dir / "orders-0").glob("*.log"))
    deleted_log_file.unlink()
    violations = list(verify(lone_engine(), verification_plan, EngineKind.HERE))
    unread_violations = [
        violation for violation in violations if violation.rule is Invariant.UNREADABLE_FILE
    ]
    assert (deleted_log_file.name, "No such file or directory") in {
        (violation.file, violation.found) for violation in unread_violations
    }
