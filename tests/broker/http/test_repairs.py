"""The cure of what hangs: what is not known has to be said."""

from __future__ import annotations

import httpx

from tests.support.clusters import VirtualCluster, values
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.client.requests import produce
from txnsim.client.versions import VersionRange
from txnsim.types import TopicPartition
from txnsim.wire.batch import Record, build_batch


@within(run_story, level=0, transaction_partition_verification_enable=False)
async def test_where_the_decision_is_unknown_a_repair_wants_to_be_told(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    batch = build_batch(
        [Record(value=b"of nobody")],
        timestamp_ms=0,
        producer_id=999,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    where = {"topic": "orders", "partition": 0}
    async with cluster.client() as app:
        leader = await app.leader(TopicPartition("orders", 0))
        sent = produce(
            {TopicPartition("orders", 0): batch},
            topic_ids={},
            transactional_id="nobody",
            within=VersionRange(11, 11),
        )
        await app.ask(leader.leader_id, sent)
        asked = (await client.post("/api/v1/repairs", json=where)).json()
        assert [(one["outcome"], one["marker"]) for one in asked] == [("needs a guess", "")]
        assert await values(app, "orders") == []
        wrong = await client.post("/api/v1/repairs", json={**where, "guess": "rollback"})
        assert wrong.status_code == 422
        done = (await client.post("/api/v1/repairs", json={**where, "guess": "commit"})).json()
        assert [(one["outcome"], one["marker"]) for one in done] == [("repaired", "COMMIT")]
        assert await values(app, "orders") == [b"of nobody"]
