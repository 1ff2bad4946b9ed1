"""What an open transaction waits for, as the trace of a whole cluster explains it."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.runtime.trace import TraceLevel
from txnsim.trace.trace_file import Recording
from txnsim_lab.trace.cause_chains import by_position
from txnsim_lab.trace.explain import LsoExplanation, explain_lso


@pytest.mark.parametrize("transaction_version", [0, 2])
@pytest.mark.parametrize(
    ("held_names", "names"), [((), []), (("other",), []), (("app", "other"), ["app"])]
)
def test_a_held_end_of_another_transaction_is_no_cause(
    held_names: tuple[str, ...], names: list[str], transaction_version: int
) -> None:
    lines: list[bytes] = []

    async def main(cluster: VirtualCluster) -> None:
        async with (
            cluster.client("app") as first_cluster,
            cluster.client("other") as other_cluster,
            asyncio.TaskGroup() as ends,
        ):
            if held_names:
                cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST, api="EndTxn")
            for number, (client, transactional_id) in enumerate(
                ((first_cluster, "app"), (other_cluster, "other"))
            ):
                producer = await begin_transaction(client, transactional_id)
                await producer.send("orders", number, transactional_id.encode())
                if transactional_id in held_names:
                    ends.create_task(producer.commit())
                    await cluster.wait_until_struck(count=held_names.index(transactional_id) + 1)
            lines.extend(b"".join(cluster.env.tracer.pieces()).splitlines())
            if held_names:
                cluster.injector.disarm("f")

    run_cluster(main, trace_level=TraceLevel.BRIEF, level=transaction_version)
    recording = Recording.from_lines("run", lines)
    assert hits_in(recording, explain_lso(recording, "orders-0")) == names


def hits_in(recording: Recording, lso_explanation: LsoExplanation) -> list[str]:
    """Transactional ids of the strikes that an explanation names."""
    events = [by_position(recording.events)[position] for position in lso_explanation.evidence]
    hits = [event.d for event in events if event.k == "fault.hit"]
    return [subject["id"] for data in hits if isinstance(data, dict) for subject in data["about"]]
