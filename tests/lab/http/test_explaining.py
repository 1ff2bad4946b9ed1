"""What the trace says, asked through the control port; and the cure."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx
import msgspec
import pytest

from tests.support.clusters import real_cluster
from txnsim.errors import BadInputError
from txnsim.http.app import ControlApi
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.trace.reading import Recording, recording
from txnsim_lab.http import _explaining as explaining
from txnsim_lab.http import _practising as practising

EXPLAIN = "/api/v1/explain"


@asynccontextmanager
async def port(
    level: TraceLevel = TraceLevel.BRIEF, *, brokers: int = 3
) -> AsyncIterator[httpx.AsyncClient]:
    async with real_cluster(brokers=brokers, trace_level=level) as sim:
        api = ControlApi(sim)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=api.app()), base_url="http://localhost", timeout=60
        ) as client:
            yield client
        api.close()


async def test_a_hanging_transaction_is_explained_and_ended() -> None:
    async with port() as ask:
        assert (await ask.post("/api/v1/practise")).json()["hangs"] == "orders-0"
        told = (await ask.get(EXPLAIN)).json()
        causes = {one["partition"]: one["cause"] for one in told["partitions"]}
        assert causes["orders-0"] == "hanging transaction"
        verdicts = {one["partition"]: one["verdict"] for one in told["open"]}
        assert verdicts == {"orders-0": "hanging"}
        assert told["state"]["logs"]["orders-0"]["producers"]["0"]["first"] == 1
        where = {"topic": "orders", "partition": 0}
        assert len((await ask.post("/api/v1/repairs", json=where)).json()) == 1
        (healed,) = (await ask.get(f"{EXPLAIN}?partition=orders-0")).json()["partitions"]
        assert healed["cause"] == "nothing"
        # What the control port asks for itself is no part of what happens.
        lines = (await ask.get("/api/v1/trace")).text.splitlines()
        asked = {
            event["d"]["api"]
            for event in map(json.loads, lines)
            if event["k"] == "msg.recv" and event["d"]["peer"] == "client/page"
        }
        assert asked == {"WriteTxnMarkers"}
        (before,) = (await ask.get(f"{EXPLAIN}?partition=orders-0&at={told['at']}")).json()[
            "partitions"
        ]
        assert before["cause"] == "hanging transaction"


async def test_a_run_is_explained_like_the_cluster() -> None:
    async with port() as ask:
        wanted = {"name": "z01", "runs": ["V-"]}
        told = (await ask.post("/api/v1/runs?wait_ms=60000", json=wanted)).json()
        answer = (await ask.get(f"{EXPLAIN}?of={told['id']}&run=V-")).json()
        assert "payments-0" in answer["state"]["logs"]
        assert (await ask.get(f"{EXPLAIN}?of=99")).status_code == 404


async def test_where_nothing_is_recorded_nothing_can_be_explained() -> None:
    async with port(TraceLevel.OFF) as ask:
        answer = await ask.get(EXPLAIN)
        assert answer.status_code == 409
        assert "nothing is recorded" in answer.json()["error"]


async def test_what_can_not_be_made_in_time_is_refused_and_may_be_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(practising, "PRACTISE_TIMEOUT_MS", 300)
    async with port() as ask:
        hold = {"id": "h", "point": "client.request", "api": "Produce", "action": {"do": "hold"}}
        assert (await ask.post("/api/v1/faults", json=hold)).status_code == 201
        for _ in range(2):
            answer = await ask.post("/api/v1/practise")
            assert (answer.status_code, "0 s" in answer.json()["error"]) == (503, True)
        assert [one["rule"]["id"] for one in (await ask.get("/api/v1/faults")).json()] == ["h"]


async def test_where_no_broker_lives_a_client_is_refused_and_told_so() -> None:
    async with port(brokers=1) as ask:
        stopped = await ask.post("/api/v1/brokers/1/stop?wait_ms=30000")
        assert stopped.json()["fenced"]
        place = {"topic": "orders", "partition": 0}
        for path, body in (("practise", None), ("repairs", place), ("looks", place)):
            answer = await ask.post(f"/api/v1/{path}", json=body)
            assert answer.status_code == 503
            assert "no broker lives" in answer.json()["error"]


def _transactions(tracer: Tracer, numbers: range) -> None:
    """Transactions of two ids, each of which leaves one open on the partition."""
    log, coordinator = "broker/1/log/t-0", "broker/1/txn/7"
    for number in numbers:
        pid = number % 2
        tx = f"app-{pid}/{pid}:0"
        entry: dict[str, Any] = {"pid": pid, "epoch": 0, "partitions": ["t-0"], "pending": None}
        of = {"tp": "t-0", "pid": pid, "epoch": 0}
        if not number % 10:
            led = {"tp": "t-0", "role": "leader", "epoch": number, "end": number}
            tracer.emit("node.role", "broker/1", data=led)
        tracer.emit("txn.complete", coordinator, tx=tx, data={**entry, "state": "Ongoing"})
        batch = {**of, "base": number, "last": number, "seq": number, "txn": True}
        tracer.emit("log.append", log, tx=tx, data=batch)
        tracer.emit("pid.open", log, tx=tx, data={**of, "first": number})
        tracer.emit("txn.complete", coordinator, tx=tx, data={**entry, "state": "PrepareAbort"})
        done = {**entry, "state": "CompleteAbort", "partitions": []}
        tracer.emit("txn.complete", coordinator, tx=tx, data=done)


def _same(one: explaining.Explained, other: explaining.Explained) -> bool:
    return msgspec.json.encode(one) == msgspec.json.encode(other)


@pytest.mark.costly
def test_what_was_read_for_one_answer_is_not_read_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each answer read all that the ring keeps: 2.5 s of CPU beside brokers under load."""
    clock = count()
    tracer = Tracer(lambda: next(clock), level=TraceLevel.BRIEF, ring_bytes=400_000)
    living = explaining._Living("txnsim")
    read: list[str] = []

    def counted(name: str, lines: Iterable[bytes]) -> Recording:
        read.append(name)
        return recording(name, lines)

    monkeypatch.setattr(explaining, "recording", counted)
    rounds = 40
    for number in range(rounds):
        _transactions(tracer, range(100 * number, 100 * (number + 1)))
        newest = len(tracer) - 1
        for at in (newest - 70, newest):
            before = len(read)
            found = living.reading(tracer, at, None)()
            assert len(read) <= before + 1
            expected = explaining._explained(tracer.pieces(), at, None, "txnsim")
            read.pop()
            assert found.at == at
            assert _same(found, expected)
        assert {one.verdict for one in found.open} == {"hanging"}
    assert len(read) == 1
    # The ring has dropped three times what it keeps; what is remembered goes with it.
    kept = len(tracer) - tracer.first
    assert tracer.first >= 3 * kept
    decisions = living._remembered.decisions
    assert sum(map(len, decisions.values())) == len(living._remembered.order) <= kept // 5 + 1
    # The past is told from the beginning, and what is read in order goes on.
    past = living.reading(tracer, tracer.first, None)()
    assert _same(past, explaining._explained(tracer.pieces(), tracer.first, None, "txnsim"))
    read.clear()
    assert living.reading(tracer, None, None)().at == newest
    assert read == []
    with pytest.raises(BadInputError, match=f"no event {newest + 1}: the trace has"):
        living.reading(tracer, newest + 1, None)()
