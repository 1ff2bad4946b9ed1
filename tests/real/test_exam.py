"""The exam on a real Kafka behind the fault proxy: ``txnsim exam run --on``."""

from __future__ import annotations

import asyncio

import pytest

from tests.clients.exam_drivers import command_of
from tests.real.conftest import ClusterUnderTest
from txnsim_lab.exam.real_targets import RealTargets
from txnsim_lab.exam.results import SituationOutcome
from txnsim_lab.exam.run import choose_situations, run_exam
from txnsim_lab.exam.situations import SITUATIONS

SOME = ("fenced-by-newer", "timed-out", "commit-answer-lost", "commit-while-coordinator-moves",
        "produce-not-leader", "reads-", "level-raised")  # fmt: skip


@pytest.mark.clients
@pytest.mark.nightly  # a minute for each target
def test_a_library_sits_some_of_the_exam_on_a_cluster_that_is_there(
    target: ClusterUnderTest,
) -> None:
    async def sat() -> dict[str, tuple[str, ...]]:
        targets = await RealTargets.connect(target.bootstrap, report_progress=lambda _: None)
        assert targets.levels == (target.level,)
        exam_run = await run_exam(
            command_of("confluent-kafka"),
            choose_situations(SITUATIONS, SOME),
            levels=targets.levels,
            targets=targets,
        )
        assert exam_run.count(SituationOutcome.PASSED) > len(SOME)
        return {
            result.situation: result.because
            for result in exam_run.results
            if result.outcome is not SituationOutcome.PASSED
        }

    wrong_situations = asyncio.run(sat())
    one_broker = {name for name in wrong_situations if "leader" in name or "coordinator" in name}
    assert wrong_situations.keys() - one_broker <= {"level-raised", "reads-compacted"}, (
        wrong_situations
    )
