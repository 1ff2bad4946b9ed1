"""Small nouns of the control port, each answered in the words of Python's."""

from __future__ import annotations

import asyncio
import base64
import io
import tarfile
import threading
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest

from tests.support.clusters import VirtualCluster, begin_transaction, real_cluster, values
from tests.support.control_port import run_story
from tests.support.within_environment import within
from txnsim.client.producer import Producer
from txnsim.client.requests import produce
from txnsim.client.versions import VersionRange
from txnsim.faults.actions import Drop, Hold
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.http._app import ControlApi
from txnsim.http._repairs import REPAIRS_MAX
from txnsim.http.messages import Advance, fault
from txnsim.injection.armed_rule import ArmedRule
from txnsim.runtime import tasks as unpacker
from txnsim.runtime.trace import TraceLevel
from txnsim.types import TopicPartition
from txnsim.wire.batch import Record, build_batch

# ``assertions``: Assertions through the control port: each is one call, answered in the words of
# Python's.


ONCE = "/api/v1/assertions/exactly-once"
HANGING = "/api/v1/assertions/no-hanging-transactions"


async def transact(cluster: VirtualCluster, *record_values: bytes, is_commit: bool = True) -> None:
    async with (
        cluster.client() as app_cluster,
        await begin_transaction(app_cluster, "app") as producer,
    ):
        for record_value in record_values:
            await producer.send("orders", 0, record_value)
        await (producer.commit() if is_commit else producer.abort())


@within(run_story)
async def test_committed_values_are_read_as_text_or_as_bytes(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await transact(cluster, b"a", b"b")
    await transact(cluster, b"c", is_commit=False)
    path = "/api/v1/topics/orders/committed"
    assert (await client.get(path)).json() == ["a", "b"]
    await transact(cluster, b"\xff")
    refusal_answer = await client.get(path)
    assert refusal_answer.status_code == 422
    assert "orders-0 at offset 5 is no UTF-8: ask with ?encoding=base64" in refusal_answer.text
    record_values = (await client.get(f"{path}?encoding=base64")).json()
    assert [base64.b64decode(record_value) for record_value in record_values] == [
        b"a",
        b"b",
        b"\xff",
    ]


@within(run_story)
async def test_exactly_once_fails_in_the_words_of_python(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await transact(cluster, b"a", b"a")
    await transact(cluster, b"c", is_commit=False)
    good_answer = await client.post(ONCE, json={"input": ["a", "a"], "output": "orders"})
    assert (good_answer.status_code, good_answer.json()) == (200, {"error": None})
    bad_answer = await client.post(ONCE, json={"input": ["a", "b"], "output": "orders"})
    assert bad_answer.status_code == 409
    assert bad_answer.json()["error"].splitlines() == [
        "not exactly once, from what was given to orders:",
        "missing: 1 record",
        "  'b'",
        "more than once: 1 record",
        "  'a'",
    ]
    encoded = [base64.b64encode(b"a").decode()] * 2
    second_answer = await client.post(
        ONCE, json={"input": encoded, "output": "orders", "encoding": "base64"}
    )
    assert second_answer.status_code == 200


@within(run_story)
async def test_who_is_alive_does_not_hang_and_silence_is_no_answer(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    assert (await client.get(HANGING)).json() == {"error": None}
    async with (
        cluster.client() as app_cluster,
        await begin_transaction(app_cluster, "app") as producer,
    ):
        await producer.send("orders", 0, b"v")
        assert (await client.get(HANGING)).status_code == 200, "it is alive"
        await producer.commit()
    cluster.arm(Drop(), FaultPoint.CLIENT_REQUEST, api="DescribeProducers")
    silent_answer = await client.get(HANGING)
    assert silent_answer.status_code == 503
    assert "the cluster did not answer" in silent_answer.json()["error"]


@pytest.mark.parametrize(
    ("request_body", "status", "advice"),
    [
        ({"input": "nope", "output": "orders"}, 404, "GET /api/v1/topics lists them"),
        ({"input": [], "output": "nope"}, 404, "GET /api/v1/topics lists them"),
        ({"input": [], "output": "orders", "settle_ms": -1}, 422, "expected 0 to"),
        ({"input": ["?"], "output": "orders", "encoding": "base64"}, 422, "no base64"),
        ({"output": "orders"}, 422, "input"),
    ],
)
@within(run_story)
async def test_what_can_not_be_compared_is_refused(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    request_body: dict[str, Any],
    status: int,
    advice: str,
) -> None:
    answer = await client.post(ONCE, json=request_body)
    assert (answer.status_code, advice in answer.text) == (status, True), answer.text


async def test_a_topic_is_read_up_to_a_bound_and_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []

    def note_thread(work: Callable[[], object]) -> object:
        threads.append(threading.current_thread().name)
        return work()

    monkeypatch.setattr(unpacker, "with_short_switch_interval", note_thread)
    async with real_cluster(brokers=1, answer_max_bytes=2_000) as sim:
        api = ControlApi(sim)
        transport = httpx.ASGITransport(app=api.app())
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=60
        ) as http_client:
            await transact(VirtualCluster(sim.environment, sim), b"a", b"b")
            assert (await http_client.get("/api/v1/topics/orders/committed")).json() == ["a", "b"]
            fields = {"input": ["a", "b"], "output": "orders"}
            assert (await http_client.post(ONCE, json=fields)).json() == {"error": None}
            assert threads
            assert all(thread_name.startswith("txnsim-unpack") for thread_name in threads)
            await transact(VirtualCluster(sim.environment, sim), b"v" * 1_500, b"v" * 1_500)
            refused_answer = await http_client.get("/api/v1/topics/orders/committed")
            assert refused_answer.status_code == 422
            assert "more than 2,000 bytes (answer_max_bytes)" in refused_answer.json()["error"]
            refused_answer = await http_client.post(ONCE, json=fields)
            assert refused_answer.status_code == 422
            assert refused_answer.json()["error"].endswith(
                "besides its key and value (answer_max_bytes)"
            )
        api.close()


# ``reset``: Between tests: snapshots and resets through the control port.


RESET = "/api/v1/reset"
SNAPSHOTS = "/api/v1/snapshots"
TOPICS = "/api/v1/topics"
HOLD = {"id": "held", "point": "client.request", "api": "Produce", "action": {"do": "hold"}}


async def names(client: httpx.AsyncClient) -> list[str]:
    return [topic["name"] for topic in (await client.get("/api/v1/topics")).json()]


@within(run_story)
async def test_a_reset_takes_the_cluster_back_to_its_start(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    bootstrap = cluster.sim.bootstrap
    await client.post("/api/v1/topics", json={"name": "more"})
    async with (
        cluster.client() as app_cluster,
        await begin_transaction(app_cluster, "app") as producer,
    ):
        await producer.send("orders", 0, b"v")
        await client.post("/api/v1/faults", json=HOLD)
        await client.post("/api/v1/clock", json={"advance_ms": 5_000})
        await client.post("/api/v1/brokers/3/kill")
        await client.post("/api/v1/brokers/2/isolate", json={"from_clients": True})
        answer = await client.post(RESET)
        assert answer.status_code == 200
        reset = answer.json()
        assert (reset["to"], reset["bootstrap"]) == ("start", bootstrap)
        assert reset["connections_closed"] > 0
        assert [rule_state["rule"]["id"] for rule_state in reset["faults"]] == ["held"]
    assert await names(client) == ["orders"]
    assert (await client.get("/api/v1/transactions")).json() == []
    assert (await client.get("/api/v1/producers")).json() == []
    assert (await client.get("/api/v1/faults")).json() == []
    assert (await client.get("/api/v1/clock")).json()["advanced_ms"] == 0
    brokers = (await client.get("/api/v1/brokers")).json()
    assert {(broker["state"], broker["fenced"], broker["isolated"]) for broker in brokers} == {
        ("running", False, False)
    }
    assert cluster.sim.bootstrap == bootstrap


@within(run_story)
async def test_a_reset_goes_to_the_snapshot_that_is_named(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post("/api/v1/topics", json={"name": "base", "partitions": 2})
    snapshot_answer = await client.post(SNAPSHOTS, json={"name": "with-base"})
    assert snapshot_answer.status_code == 201
    assert snapshot_answer.json()["topics"] == ["base", "orders"]
    await client.delete("/api/v1/topics/orders")
    assert (await client.post(RESET, json={"to": "with-base"})).status_code == 200
    assert await names(client) == ["base", "orders"]
    assert (await client.post(RESET, json={})).status_code == 200
    assert await names(client) == ["orders"]
    listed_snapshots = (await client.get(SNAPSHOTS)).json()
    assert [snapshot["name"] for snapshot in listed_snapshots] == ["start", "with-base"]
    assert listed_snapshots[0]["features"]["transaction.version"] == 2


@pytest.mark.parametrize(
    ("method", "path", "request_body", "status", "advice"),
    [
        ("POST", SNAPSHOTS, {"name": ""}, 422, "give it one"),
        ("POST", SNAPSHOTS, {"name": "start"}, 422, "other than 'start'"),
        ("POST", RESET, {"to": "nowhere"}, 404, "only start"),
        ("POST", RESET, {"two": "start"}, 422, "two"),
        ("POST", TOPICS, {"name": "orders"}, 409, "TOPIC_ALREADY_EXISTS"),
        ("POST", TOPICS, {"name": "a b"}, 422, "INVALID_TOPIC_EXCEPTION"),
        ("POST", TOPICS, {"name": "a", "replication_factor": 9}, 422, "REPLICATION_FACTOR"),
        ("POST", TOPICS, {"name": "a", "configs": {"x": "y"}}, 422, "INVALID_CONFIG"),
        ("POST", TOPICS, {"name": "a", "partition": 9}, 422, "partition"),
        ("GET", f"{TOPICS}/nope", None, 404, "GET /api/v1/topics lists them"),
        ("DELETE", f"{TOPICS}/nope", None, 404, "GET /api/v1/topics lists them"),
    ],
)
@within(run_story)
async def test_what_can_not_be_done_is_refused_with_the_reason(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    method: str,
    path: str,
    request_body: Any,
    status: int,
    advice: str,
) -> None:
    answer = await client.request(method, path, json=request_body)
    assert answer.status_code == status
    assert advice in answer.json()["error"]


@within(run_story)
async def test_there_are_only_so_many_snapshots(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for number in range(1, 100):
        assert (await client.post(SNAPSHOTS, json={"name": str(number)})).status_code == 201
    full_answer = await client.post(SNAPSHOTS, json={"name": "one more"})
    assert (full_answer.status_code, "to replace it" in full_answer.json()["error"]) == (409, True)
    assert (await client.post(SNAPSHOTS, json={"name": "7"})).status_code == 201


@within(run_story)
async def test_what_faults_have_done_to_the_cluster_is_mended(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for name, action in {
        "dead": {"do": "crash", "broker": 2},
        "back-later": {"do": "crash", "broker": 3, "restart_after_ms": 60_000},
        "apart": {"do": "partition", "groups": [[1], [2, 3]]},
        "off": {"do": "clock", "by_ms": -90_000, "broker": 1},
    }.items():
        rule = {"id": name, "point": "now", "action": action}
        assert (await client.post("/api/v1/faults", json=rule)).status_code == 201
        await client.get(f"/api/v1/faults/{name}/wait")
    reset = (await client.post(RESET)).json()
    assert [rule_state["struck"] for rule_state in reset["faults"]] == [1, 1, 1, 1]
    await asyncio.sleep(120)  # of virtual time: nothing of them comes back
    brokers = (await client.get("/api/v1/brokers")).json()
    assert {(broker["state"], broker["fenced"], broker["isolated"]) for broker in brokers} == {
        ("running", False, False)
    }
    clock = (await client.get("/api/v1/clock")).json()
    assert (clock["advanced_ms"], set(clock["brokers"].values())) == (0, {0})


# ``topics``: Topics through the control port, over a cluster in virtual time.


@within(run_story)
async def test_a_topic_is_created_shown_and_deleted(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    new_topic = {
        "name": "payments",
        "partitions": 2,
        "replication_factor": 2,
        "configs": {"cleanup.policy": "compact"},
    }
    create_answer = await client.post(TOPICS, json=new_topic)
    assert create_answer.status_code == 201
    assert len(create_answer.json()["partitions"]) == 2
    shown_topic = (await client.get(f"{TOPICS}/payments")).json()
    assert shown_topic["configs"] == {"cleanup.policy": "compact"}
    assert shown_topic["id"] == create_answer.json()["id"]
    assert [topic["name"] for topic in (await client.get(TOPICS)).json()] == ["orders", "payments"]
    assert (await client.delete(f"{TOPICS}/payments")).json() == create_answer.json()
    assert "payments" not in cluster.sim.metadata.image.topics


@within(run_story)
async def test_the_offsets_of_every_replica_are_shown(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    async with (
        cluster.client() as app_cluster,
        Producer(app_cluster) as plain_producer,
        Producer(app_cluster, transactional_id="app") as producer,
    ):
        await plain_producer.send("orders", 0, b"v")
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"w")
        (first_partition, *_) = (await client.get(f"{TOPICS}/orders")).json()["partitions"]
        leader = next(
            replica
            for replica in first_partition["replicas"]
            if replica["broker"] == first_partition["leader"]
        )
        assert leader["is_running"]
        assert leader["in_sync"]
        assert leader["size_bytes"] > 0
        names = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset")
        assert [leader[name] for name in names] == [0, 1, 2, 2]
        assert [replica["log_end_offset"] for replica in first_partition["replicas"]] == [2, 2, 2]
        await producer.abort()
    await client.post("/api/v1/brokers/3/kill")
    (first_partition, *_) = (await client.get(f"{TOPICS}/orders")).json()["partitions"]
    stopped_replica = next(
        replica for replica in first_partition["replicas"] if replica["broker"] == 3
    )
    assert (stopped_replica["is_running"], stopped_replica["log_end_offset"]) == (False, None)


# ``report``: What happened, told for the report of a failed test.


@within(run_story)
async def test_the_story_the_waits_and_the_rules_are_told(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    cluster.env.tracer.level = TraceLevel.OFF
    first_report = (await client.get("/api/v1/report")).text
    assert "nothing was recorded" in first_report
    assert 'POST /api/v1/trace with {"level": "brief"}' in first_report
    assert (
        f"3 of 3 brokers up at {cluster.sim.bootstrap}; transactional ids: 0; topics: "
        in first_report
    )
    cluster.env.tracer.level = TraceLevel.BRIEF
    cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
    async with (
        cluster.client() as app_cluster,
        await begin_transaction(app_cluster, "shop") as producer,
    ):
        await producer.send("orders", 0, b"v")
        await producer.commit()
        await cluster.wait_until_struck()
        report_text = (await client.get("/api/v1/report")).text
        assert "txnsim: what happened" in report_text
        assert "shop: the fault rule 'f' holds WriteTxnMarkers" in report_text
        assert "shop: orders-0 has no marker yet" in report_text
        assert "f: 1 matched, 1 struck, 1 held" in report_text
        assert max(map(len, report_text.splitlines())) <= 200
        cluster.sim.injector.disarm_all()
    refusal_answer = await client.get("/api/v1/report?from=x")
    assert refusal_answer.status_code == 422


@within(run_story)
async def test_names_that_a_terminal_would_obey_are_written_out(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    cluster.env.tracer.level = TraceLevel.BRIEF
    transactional_id = "id\x1b]0;taken\x07\r\nforged: all is well\u202e"
    async with (
        cluster.client() as app_cluster,
        await begin_transaction(app_cluster, transactional_id) as producer,
    ):
        await producer.send("orders", 0, b"v")
        report_text = (await client.get("/api/v1/report")).text
        await producer.abort()
    assert r"id\x1b]0;taken\x07\r\nforged" in report_text
    assert not {*report_text} & {"\x1b", "\x07", "\r", "\u202e"}
    assert not any(line.startswith("forged") for line in report_text.splitlines())


# ``overview``: The cluster as a whole through the control port.


@within(run_story)
async def test_health_says_where_the_cluster_is(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    answer = await client.get("/healthz")
    assert answer.json() == {
        "status": "ok",
        "brokers": 3,
        "bootstrap": cluster.sim.bootstrap,
    }


@within(run_story)
async def test_metrics_and_the_document_are_there(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    metrics_answer = await client.get("/metrics")
    assert metrics_answer.headers["content-type"].startswith("text/plain")
    assert 'txnsim_producer_ids{broker="1"} 0.0' in metrics_answer.text
    document_answer = await client.get("/openapi.json")
    assert document_answer.json()["openapi"].startswith("3.")


@within(run_story, level=1)
async def test_the_cluster_in_short(cluster: VirtualCluster, client: httpx.AsyncClient, /) -> None:
    cluster_facts = (await client.get("/api/v1/cluster")).json()
    assert cluster_facts["bootstrap"] == cluster.sim.bootstrap
    assert (cluster_facts["brokers"], cluster_facts["brokers_running"]) == (3, 3)
    assert set(cluster_facts["releases"]) == {"1", "2", "3"}
    assert cluster_facts["features"]["transaction.version"] == 1
    assert (
        cluster_facts["topics"],
        cluster_facts["partitions"],
        cluster_facts["partitions_without_leader"],
    ) == (1, 3, 0)
    assert cluster_facts["settings"]["transaction.state.log.num.partitions"] == "6"
    await client.post("/api/v1/brokers/1/stop")
    await client.post(
        "/api/v1/faults", json={"id": "f", "point": "client.request", "action": {"do": "drop"}}
    )
    changed_cluster = (await client.get("/api/v1/cluster")).json()
    assert (
        changed_cluster["brokers"],
        changed_cluster["brokers_running"],
        changed_cluster["faults"],
    ) == (3, 2, 1)
    assert changed_cluster["metadata_offset"] > cluster_facts["metadata_offset"]


# ``repairs``: The cure of what hangs: what is not known has to be said.


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
        is_transactional=True,
    )
    partition_fields = {"topic": "orders", "partition": 0}
    async with cluster.client() as app_cluster:
        leader = await app_cluster.leader(TopicPartition("orders", 0))
        produce_request = produce(
            {TopicPartition("orders", 0): batch},
            id_by_topic={},
            transactional_id="nobody",
            accepted_versions=VersionRange(11, 11),
        )
        await app_cluster.ask(leader.leader_id, produce_request)
        first_repair = (await client.post("/api/v1/repairs", json=partition_fields)).json()
        assert [(repair["outcome"], repair["marker"]) for repair in first_repair] == [
            ("needs a guess", "")
        ]
        assert await values(app_cluster, "orders") == []
        wrong_answer = await client.post(
            "/api/v1/repairs", json={**partition_fields, "guess": "rollback"}
        )
        assert wrong_answer.status_code == 422
        second_repair = (
            await client.post("/api/v1/repairs", json={**partition_fields, "guess": "commit"})
        ).json()
        assert [(repair["outcome"], repair["marker"]) for repair in second_repair] == [
            ("repaired", "COMMIT")
        ]
        assert await values(app_cluster, "orders") == [b"of nobody"]


@within(run_story, level=0, transaction_partition_verification_enable=False)
async def test_a_request_ends_so_many_transactions_at_most(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    """Each is judged again by all that is open on the partition: 100,000 took hours."""
    partition = TopicPartition("orders", 0)
    async with cluster.client() as app_cluster:
        leader = await app_cluster.leader(partition)
        for producer_id in range(1_000, 1_000 + REPAIRS_MAX + 2):
            batch = build_batch(
                [Record(value=b"of nobody")],
                timestamp_ms=0,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
            await app_cluster.ask(
                leader.leader_id,
                produce(
                    {partition: batch},
                    id_by_topic={},
                    transactional_id="nobody",
                    accepted_versions=VersionRange(11, 11),
                ),
            )
        repair_body = {"topic": "orders", "partition": 0, "guess": "abort"}
        repair_counts = [
            len((await client.post("/api/v1/repairs", json=repair_body)).json()) for _ in range(3)
        ]
        assert repair_counts == [REPAIRS_MAX, 2, 0]


# What goes over the control port: rules as they are, and what came of them.


RULE = FaultRule(id="late", point=FaultPoint.CLIENT_REQUEST, action=Hold(), api="Produce")


def test_an_armed_rule_is_shown_with_its_counters() -> None:
    armed = ArmedRule(RULE)
    armed.matched, armed.released = 4, 1
    armed.count_strike()
    fault_fields = msgspec.to_builtins(fault(armed))
    assert fault_fields == {
        "rule": {
            "id": "late",
            "point": "client.request",
            "action": {"do": "hold"},
            "api": "Produce",
        },
        "matched": 4,
        "struck": 1,
        "held": 0,
        "released": 1,
        "in_force": True,
        "failure": None,
        "doubt": None,
    }


@pytest.mark.parametrize("body", [b'{"advance_ms": [1]}', b'{"advance": 1}', b"[1]"])
def test_an_advance_is_a_duration_and_nothing_else(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(body, type=Advance)


# ``log_dirs``: Log directories through the control port.


@within(run_story)
async def test_a_log_directory_comes_as_an_archive(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    answer = await client.get("/api/v1/brokers/2/log-dir")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-tar")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        names = archive.getnames()
    assert "meta.properties" in names
    assert ".kafka_cleanshutdown" in names
    assert any(name.endswith("/00000000000000000000.log") for name in names)


@within(run_story)
async def test_log_directories_of_all_brokers_come_in_one_archive(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    answer = await client.get("/api/v1/log-dirs")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-tar")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        folders = {name.partition("/")[0] for name in archive.getnames()}
        assert "broker-2/meta.properties" in archive.getnames()
    assert folders == {f"broker-{broker_id}" for broker_id in cluster.sim.members}
    answer = await client.get("/api/v1/log-dirs?broker=2&broker=1")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        names = archive.getnames()
    assert {name.partition("/")[0] for name in names} == {"broker-1", "broker-2"}
    assert (await client.get("/api/v1/log-dirs?broker=7")).status_code == 404
    assert (await client.get("/api/v1/log-dirs?broker=x")).status_code == 422


@within(run_story)
async def test_there_is_none_of_a_broker_that_is_not_there(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for broker in ("7", "x"):
        assert (await client.get(f"/api/v1/brokers/{broker}/log-dir")).status_code == 404
