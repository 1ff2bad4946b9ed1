"""What the lab adds to the control port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import jsonschema
import msgspec
import pytest

from tests.broker.http.test_verdict import verdict
from tests.support import control_port
from tests.support.clusters import VirtualCluster, begin_transaction, real_cluster
from tests.support.control_port import run_story
from tests.support.raw_connection import WireClient
from tests.support.within_environment import within
from txnsim.errors import BadInputError
from txnsim.faults.actions import Drop
from txnsim.faults.points import FaultPoint
from txnsim.http import _app as app
from txnsim.http import _openapi as openapi
from txnsim.http._app import ControlApi
from txnsim.http._guard import AccessRules
from txnsim.http.work_thread import WorkThread
from txnsim.runtime.real_world import real_environment
from txnsim.runtime.trace import SCHEMA_VERSION, Event, TraceLevel, Tracer
from txnsim.runtime.wall_clock import wall_ms
from txnsim.security.options import SecureListener, SecurityProtocol
from txnsim.server.security_demo import demo_security
from txnsim.shell_text import command_line
from txnsim.trace.trace_file import RecordingStream
from txnsim_lab.http import _explaining as explaining
from txnsim_lab.http import _judging
from txnsim_lab.http import _practising as practising
from txnsim_lab.http.proxy import ProxyApi
from txnsim_lab.proxy.addresses import NodeAddress
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.options import ProxyOptions

# What the trace says, asked through the control port; and the cure.


EXPLAIN = "/api/v1/explain"


@asynccontextmanager
async def port(
    trace_level: TraceLevel = TraceLevel.BRIEF, *, brokers: int = 3
) -> AsyncIterator[httpx.AsyncClient]:
    async with real_cluster(brokers=brokers, trace_level=trace_level) as sim:
        api = ControlApi(sim)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=api.app()), base_url="http://localhost", timeout=60
        ) as client:
            yield client
        api.close()


async def test_a_hanging_transaction_is_explained_and_ended() -> None:
    async with port() as http_client:
        assert (await http_client.post("/api/v1/practise")).json()["hangs"] == "orders-0"
        explanation = (await http_client.get(EXPLAIN)).json()
        causes = {
            explained_partition["partition"]: explained_partition["cause"]
            for explained_partition in explanation["partitions"]
        }
        assert causes["orders-0"] == "hanging transaction"
        verdicts = {
            open_transaction["partition"]: open_transaction["verdict"]
            for open_transaction in explanation["open"]
        }
        assert verdicts == {"orders-0": "hanging"}
        assert explanation["state"]["logs"]["orders-0"]["producers"]["0"]["first"] == 1
        partition_fields = {"topic": "orders", "partition": 0}
        assert len((await http_client.post("/api/v1/repairs", json=partition_fields)).json()) == 1
        (healed_partition,) = (await http_client.get(f"{EXPLAIN}?partition=orders-0")).json()[
            "partitions"
        ]
        assert healed_partition["cause"] == "nothing"
        # What the control port asks for itself is no part of what happens.
        lines = (await http_client.get("/api/v1/trace")).text.splitlines()
        apis_asked = {
            event["d"]["api"]
            for event in map(json.loads, lines)
            if event["k"] == "msg.recv" and event["d"]["peer"] == "client/page"
        }
        assert apis_asked == {"WriteTxnMarkers"}
        (explained_before,) = (
            await http_client.get(f"{EXPLAIN}?partition=orders-0&at={explanation['at']}")
        ).json()["partitions"]
        assert explained_before["cause"] == "hanging transaction"


async def test_a_run_is_explained_like_the_cluster() -> None:
    async with port() as http_client:
        run_request = {"name": "z01", "runs": ["V-"]}
        run_state = (await http_client.post("/api/v1/runs?wait_ms=60000", json=run_request)).json()
        answer = (await http_client.get(f"{EXPLAIN}?of={run_state['id']}&run=V-")).json()
        assert "payments-0" in answer["state"]["logs"]
        assert (await http_client.get(f"{EXPLAIN}?of=99")).status_code == 404


async def test_where_nothing_is_recorded_nothing_can_be_explained() -> None:
    async with port(TraceLevel.OFF) as http_client:
        answer = await http_client.get(EXPLAIN)
        assert answer.status_code == 409
        assert "nothing is recorded" in answer.json()["error"]


async def test_what_can_not_be_made_in_time_is_refused_and_may_be_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(practising, "PRACTISE_TIMEOUT_MS", 300)
    async with port() as http_client:
        hold = {"id": "h", "point": "client.request", "api": "Produce", "action": {"do": "hold"}}
        assert (await http_client.post("/api/v1/faults", json=hold)).status_code == 201
        for _ in range(2):
            answer = await http_client.post("/api/v1/practise")
            assert (answer.status_code, "0 s" in answer.json()["error"]) == (503, True)
        assert [
            fault["rule"]["id"] for fault in (await http_client.get("/api/v1/faults")).json()
        ] == ["h"]


async def test_where_no_broker_lives_a_client_is_refused_and_told_so() -> None:
    async with port(brokers=1) as http_client:
        stop_answer = await http_client.post("/api/v1/brokers/1/stop?wait_ms=30000")
        assert stop_answer.json()["fenced"]
        topic_partition = {"topic": "orders", "partition": 0}
        for path, request_body in (
            ("practise", None),
            ("repairs", topic_partition),
            ("looks", topic_partition),
        ):
            answer = await http_client.post(f"/api/v1/{path}", json=request_body)
            assert answer.status_code == 503
            assert "no broker lives" in answer.json()["error"]


def _transactions(tracer: Tracer, numbers: range) -> None:
    """Run transactions of two ids; each id leaves a transaction open on the partition."""
    log, coordinator = "broker/1/log/t-0", "broker/1/txn/7"
    for number in numbers:
        producer_id = number % 2
        tx = f"app-{producer_id}/{producer_id}:0"
        entry: dict[str, Any] = {
            "pid": producer_id,
            "epoch": 0,
            "partitions": ["t-0"],
            "pending": None,
        }
        fields = {"tp": "t-0", "pid": producer_id, "epoch": 0}
        if not number % 10:
            role_data = {"tp": "t-0", "role": "leader", "epoch": number, "end": number}
            tracer.emit("node.role", "broker/1", data=role_data)
        tracer.emit("txn.complete", coordinator, tx=tx, data={**entry, "state": "Ongoing"})
        batch = {**fields, "base": number, "last": number, "seq": number, "txn": True}
        tracer.emit("log.append", log, tx=tx, data=batch)
        tracer.emit("pid.open", log, tx=tx, data={**fields, "first": number})
        tracer.emit("txn.complete", coordinator, tx=tx, data={**entry, "state": "PrepareAbort"})
        complete_entry = {**entry, "state": "CompleteAbort", "partitions": []}
        tracer.emit("txn.complete", coordinator, tx=tx, data=complete_entry)


def _are_equal(explanation: explaining.Explained, other_explanation: explaining.Explained) -> bool:
    return msgspec.json.encode(explanation) == msgspec.json.encode(other_explanation)


@pytest.mark.costly
def test_what_was_read_for_one_answer_is_not_read_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each answer read all that the ring keeps: 2.5 s of CPU beside brokers under load."""
    clock = count()
    tracer = Tracer(lambda: next(clock), level=TraceLevel.BRIEF, ring_bytes=400_000)
    program_text = command_line("txnsim")
    live_reader = explaining._LiveTraceReader(program_text)
    explain = partial(
        explaining._build_explanation, partition_name=None, repair_program=program_text
    )
    read: list[str] = []

    def open_and_count(name: str, lines: Iterable[bytes]) -> RecordingStream:
        read.append(name)
        return RecordingStream(name, lines)

    monkeypatch.setattr(explaining, "RecordingStream", open_and_count)
    round_count = 40
    for round_number in range(round_count):
        _transactions(tracer, range(100 * round_number, 100 * (round_number + 1)))
        newest_index = len(tracer) - 1
        for event_index in (newest_index - 70, newest_index):
            read_count_before = len(read)
            explanation = live_reader.make_task(tracer, event_index, explain)()
            assert len(read) <= read_count_before + 1
            expected_explanation = explaining._read_pieces(tracer.pieces(), event_index, explain)
            read.pop()
            assert explanation.at == event_index
            assert _are_equal(explanation, expected_explanation)
        assert {open_mismatch.verdict for open_mismatch in explanation.open} == {"hanging"}
    assert len(read) == 1
    # The ring has dropped three times what it keeps; what is remembered goes with it.
    kept_events = len(tracer) - tracer.first_index
    assert tracer.first_index >= 3 * kept_events
    faults_and_decisions = live_reader._followed.faults_and_decisions
    assert (
        sum(map(len, faults_and_decisions.decisions_by_producer.values()))
        == len(faults_and_decisions.decision_order)
        <= kept_events // 5 + 1
    )
    # The past is told from the beginning, and what is read in order goes on.
    past_explanation = live_reader.make_task(tracer, tracer.first_index, explain)()
    assert _are_equal(
        past_explanation, explaining._read_pieces(tracer.pieces(), tracer.first_index, explain)
    )
    read.clear()
    assert live_reader.make_task(tracer, None, explain)().at == newest_index
    assert read == []
    with pytest.raises(BadInputError, match=f"no event {newest_index + 1}: the trace has"):
        live_reader.make_task(tracer, newest_index + 1, explain)()


# ``judging``: Histories through the control port: an onlooker's looks, and the judges.


LOOKS = "/api/v1/looks"
VERDICTS = "/api/v1/verdicts"
BEGUN = [{"seen": "began", "at_ms": 1, "who": "p", "transaction": "T1", "transactional_id": "app"}]
TWICE = [
    {"seen": "wrote", "at_ms": 1, "who": "p", "topic": "t", "partition": 0, "value": "v",
     "offset": offset}
    for offset in (0, 1)
]  # fmt: skip


@within(run_story)
async def test_an_onlooker_sees_what_everybody_can(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    async with (
        cluster.client() as app_cluster,
        await begin_transaction(app_cluster, "app") as producer,
    ):
        await producer.send("orders", 0, b"v")
        observations = (await client.post(LOOKS, json={"topic": "orders", "partition": 0})).json()
        kinds = [observation["seen"] for observation in observations]
        assert kinds == [
            "producers",
            "listed",
            "described",
            "producers",
            "read",
            "read",
            "read",
        ]
        assert observations[0]["producers"][0]["start_offset"] == 0
        assert observations[2]["state"] == "Ongoing"
        committed, uncommitted, _end = observations[4:]
        assert (committed.get("records"), committed["last_stable_offset"]) == (None, 0)
        assert uncommitted["records"] == [{"offset": 0, "value": "v"}]
        with patch.object(WorkThread, "do", do_at_once):
            healthy = (await client.post(VERDICTS, json=observations)).json()
        assert healthy == {"healthy": True, "kinds": [], "anomalies": [], "unread": []}
        await producer.commit()


async def do_at_once(_: WorkThread, work: Callable[[], Any]) -> Any:
    """Run the work at once, because virtual time has no threads."""
    return work()


async def test_judging_has_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(_judging, "JUDGE_S_MAX", 0.1)
    async with port() as http_client:
        assert (await http_client.post(VERDICTS, json=TWICE[:1])).status_code == 200
        monkeypatch.setattr(_judging.judges, "judge", endless)
        refused_answer = await http_client.post(VERDICTS, json=TWICE[:1])
        assert refused_answer.status_code == 422
        assert "txnsim check" in refused_answer.text


@patch.object(WorkThread, "do", do_at_once)
def test_the_judges_convict_over_the_port_as_everywhere() -> None:
    place_fields = {"topic": "t", "partition": 0}
    history: list[dict[str, Any]] = [
        {"seen": "began", "transaction": "t1", "transactional_id": "app"},
        {"seen": "wrote", **place_fields, "transaction": "t1", "value": "v", "offset": 0},
        {"seen": "ended", "transaction": "t1", "commit": False},
        {"seen": "read", **place_fields, "asked": 0, "next_offset": 1,
         "records": [{"offset": 0, "value": "v"}]},
    ]  # fmt: skip

    async def story(_cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        request_body = [
            {"at_ms": at_ms, "who": "app", **fields} for at_ms, fields in enumerate(history)
        ]
        verdict = (await client.post(VERDICTS, json=request_body)).json()
        assert not verdict["healthy"]
        assert verdict["kinds"] == ["aborted-read"]
        assert verdict["anomalies"][0]["because"]
        assert verdict["unread"] == []
        verdict = (await client.post(VERDICTS, json=request_body[:-1])).json()
        assert verdict == {"healthy": True, "kinds": [], "anomalies": [], "unread": ["t-0"]}

    run_story(story)


@pytest.mark.parametrize(
    ("path", "request_body", "status", "advice"),
    [
        (LOOKS, {"topic": "nope", "partition": 0}, 404, "GET /api/v1/topics"),
        (LOOKS, {"topic": "orders", "partition": 7}, 404, "partitions 0 to 2"),
        (LOOKS, {"topic": "orders", "partition": 0, "offset": 2**63}, 422, "offset: expected a"),
        (LOOKS, {"topic": "orders", "partition": 0, "offset": -1}, 422, "offset: expected a"),
        (LOOKS, {"topic": "orders", "partition": 2**31}, 422, "partition: expected a whole"),
        (VERDICTS, [], 422, "no observation in it: nothing was judged"),
        (VERDICTS, [{"seen": "nothing"}], 422, "nothing"),
        (VERDICTS, BEGUN, 422, "no answer of a broker in it: nothing was judged"),
        (VERDICTS, {}, 422, "expected a list"),
        (VERDICTS, TWICE, 422, "observations 1 and 2: the value 'v' names two records of t-0"),
    ],
)
@patch.object(WorkThread, "do", do_at_once)
@within(run_story)
async def test_what_can_not_be_looked_at_or_judged_is_refused(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    path: str,
    request_body: Any,
    status: int,
    advice: str,
) -> None:
    answer = await client.post(path, json=request_body)
    assert answer.status_code == status
    assert advice in answer.json()["error"]


@within(run_story)
async def test_an_onlooker_who_is_not_answered_says_so(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    cluster.arm(Drop(), FaultPoint.CLIENT_REQUEST, api="DescribeProducers")
    answer = await client.post(LOOKS, json={"topic": "orders", "partition": 0})
    assert answer.status_code == 503
    assert "GET /api/v1/brokers" in answer.json()["error"]


# The control port of a proxy: what it can do by the same requests, and 501 with the reason for the
# rest.


HOLD = {"id": "late", "point": "client.request", "api": "Metadata", "action": {"do": "hold"}}


def api_of(*peer_addresses: NodeAddress) -> ProxyApi:
    options = ProxyOptions(bootstrap="localhost:9092", peers=peer_addresses)
    return ProxyApi(FaultProxy(real_environment(), options))


async def test_what_a_proxy_can_not_do_is_not_in_its_document() -> None:
    document = api_of().document()
    assert set(document["paths"]) < set(openapi.document(app.OPERATIONS)["paths"]) | {
        "/api/v1/cluster"
    }
    assert not any("clock" in path or "brokers" in path for path in document["paths"])
    schemas = document["components"]["schemas"]
    assert schemas["FaultPoint"]["enum"] == ["client.request", "client.response", "connection.open"]
    assert "crash" not in schemas["FaultRule"]["properties"]["action"]["discriminator"]["mapping"]
    schemas = api_of(NodeAddress(1, "localhost", 9093)).document()["components"]["schemas"]
    with_peers = schemas["FaultPoint"]["enum"]
    assert {"peer.request", "peer.response"} < set(with_peers)
    rule = {"$ref": "#/components/schemas/FaultRule", "components": document["components"]}
    jsonschema.validate(HOLD, rule)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**HOLD, "action": {"do": "crash"}}, rule)


def test_every_other_operation_has_a_reason() -> None:
    """Only the cluster's view has the path of one of the proxy's own operations."""
    known_operations = ProxyApi.every_operation()
    missing = [operation for operation in app.OPERATIONS if operation not in known_operations]
    assert len(missing) > 20
    assert {operation.path for operation in missing} & {
        operation.path for operation in known_operations
    } == {"/api/v1/cluster"}, "only the proxy's own view of it is another one"


async def test_faults_health_looks_and_refusals() -> None:
    async with real_cluster(brokers=1, topics=(("orders", 1),)) as sim:
        (broker,) = sim.metadata.image.brokers.values()
        peers = (NodeAddress(1, broker.host, broker.port),)
        front_proxy = FaultProxy(
            sim.environment,
            ProxyOptions(bootstrap=sim.bootstrap, port=0, peer_port=0, peers=peers),
        )
        await front_proxy.start()
        api = ProxyApi(front_proxy)
        transport = httpx.ASGITransport(api.app(AccessRules(is_loopback=False)))
        async with httpx.AsyncClient(transport=transport, base_url="http://proxy") as client:

            async def ask(method: str, path: str, request_body: Any = None) -> tuple[int, Any]:
                answer = await client.request(method, path, json=request_body)
                return answer.status_code, answer.json()

            assert (await ask("get", "/healthz"))[1]["bootstrap"] == front_proxy.bootstrap
            status, view = await ask("get", "/api/v1/cluster")
            assert (status, view["upstream"]) == (200, sim.bootstrap)
            assert [listener["side"] for listener in view["listeners"]] == ["client", "peer"]
            assert (await ask("get", "/openapi.json"))[1]["info"]["title"].endswith("control port")

            assert (await ask("post", "/api/v1/faults", HOLD))[0] == 201
            wire = await WireClient.open(*front_proxy.clients.address(1))
            wire.send(wire.metadata())
            assert (await ask("get", "/api/v1/faults/late/wait"))[1]["held"] == 1
            assert (await ask("post", "/api/v1/faults/late/release"))[1] == {"released": 1}
            assert (await wire.answer())[0] == 1
            assert (await ask("delete", "/api/v1/faults"))[0] == 200
            await wire.close()

            status, observations = await ask(
                "post", "/api/v1/looks", {"topic": "orders", "partition": 0}
            )
            assert status == 200, observations
            verdict = (await ask("post", "/api/v1/verdicts", observations))[1]
            assert verdict["healthy"]
            assert verdict["unread"] == []
            assert (await ask("post", "/api/v1/trace", {"level": "brief"}))[0] == 200

            for method, path, request_body in (
                ("get", "/api/v1/clock", None),
                ("post", "/api/v1/brokers/1/kill", {}),
                ("get", "/api/v1/transactions/a/b", None),
                ("post", "/api/v1/reset", None),
                ("get", "/metrics", None),
                ("get", "/api/v1/report", None),
            ):
                status, problem = await ask(method, path, request_body)
                assert (status, "a fault proxy can't do this" in problem["error"]) == (501, True)
            late_rule = {"id": "x", "point": "log.append", "action": {"do": "hold"}}
            status, problem = await ask("post", "/api/v1/faults", late_rule)
            assert (status, "only the simulator" in problem["error"]) == (501, True)
            assert (await ask("get", "/api/v1/nothing"))[0] == 404
        api.close()
        await front_proxy.stop()


# A hang that is made on request, and its cure: who asks, and what is not known.


TLS_LISTENER = SecureListener(name="SASL_SSL", protocol=SecurityProtocol.SASL_SSL)


@pytest.mark.parametrize("listeners", [None, (TLS_LISTENER,)])
async def test_a_hang_is_made_and_ended_where_the_listener_in_clear_has_no_rights(
    tmp_path: Path, listeners: tuple[SecureListener, ...] | None
) -> None:
    """The control port logs in as a user that has the rights."""
    hosts = ("localhost", "127.0.0.1")
    demo_options = demo_security(tmp_path, port=0, hosts=hosts, now_ms=wall_ms())[0]
    if listeners is not None:
        demo_options = msgspec.structs.replace(demo_options, listeners=listeners)
    async with real_cluster(security=demo_options, brokers=1) as sim:
        api = ControlApi(sim)
        transport = httpx.ASGITransport(app=api.app())
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=60
        ) as http_client:
            practice_answer = await http_client.post("/api/v1/practise")
            assert (practice_answer.status_code, practice_answer.json().get("hangs")) == (
                200,
                "orders-0",
            ), practice_answer.text
            partition_fields = {"topic": "orders", "partition": 0}
            assert (
                len((await http_client.post("/api/v1/repairs", json=partition_fields)).json()) == 1
            )
        api.close()


# The verdict after an event of a recording.


def test_a_recording_has_a_position() -> None:
    asyncio.run(ask_of_a_recording())


async def ask_of_a_recording() -> None:
    async with control_port.port() as client:
        assert (await verdict(client))["position"] is None
        await client.post("/api/v1/trace", json={"level": "brief"})
        cluster_verdict = await verdict(client)
        assert (cluster_verdict["position"] >= 0, cluster_verdict["is_recording"]) == (True, True)
        time_answer = await client.get(
            "/api/v1/verdict", params={"at": cluster_verdict["position"]}
        )
        assert time_answer.status_code == 200, time_answer.text
        assert (time_answer.json()["state"], time_answer.json()["position"]) == (
            "healthy",
            cluster_verdict["position"],
        )
        assert (await client.get("/api/v1/verdict?at=1000000")).status_code == 404
        await client.post("/api/v1/trace", json={"level": "off"})
        stopped = await verdict(client)
        assert (stopped["state"], stopped["is_recording"]) == ("healthy", False)
        time_answer = await client.get("/api/v1/verdict", params={"at": stopped["position"]})
        assert time_answer.json()["headline"] == (
            f"What is so now is not known: recording stopped at #{stopped['position']}"
        )


def test_a_past_moment_is_read_no_further_than_it_needs() -> None:
    header, *event_lines = _trace_lines(event_count=3)

    def pieces() -> Iterator[bytes]:
        yield header
        yield b"".join(event_lines[:2])
        raise AssertionError("read on behind the moment")

    last_position = explaining._read_pieces(pieces(), 1, lambda followed: followed.position)
    assert last_position == 1


@pytest.mark.parametrize("position", [0, 5])
def test_a_moment_that_the_trace_lacks_is_refused_with_what_it_has(position: int) -> None:
    pieces = iter(_trace_lines(event_count=3, first_position=2))
    with pytest.raises(BadInputError, match=f"no event {position}: the trace has 2 to 4"):
        explaining._read_pieces(pieces, position, lambda followed: followed.position)


def _trace_lines(*, event_count: int, first_position: int = 0) -> list[bytes]:
    header = {"k": "run", "schema": SCHEMA_VERSION, "nodes": ["broker/1"], "level": "full"}
    return [
        msgspec.json.encode(header) + b"\n",
        *(
            msgspec.json.encode(Event(i=position, t=position, n=0, l=0, p=(), k="timer.fire", d={}))
            + b"\n"
            for position in range(first_position, first_position + event_count)
        ),
    ]
