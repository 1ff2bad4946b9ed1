"""Brokers, leaders, faults and transactions through the control port."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

from tests.support.clusters import VirtualCluster, begin_transaction, until_state
from tests.support.control_port import run_story
from tests.support.within_environment import within
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.http._faults import PLAN_RULES_MAX, RULES_BYTES_MAX, TOLD_RULES_MAX
from txnsim.http.replies import BODY_BYTES_MAX

# Brokers and leaders through the control port, over a cluster in virtual time.


BROKERS = "/api/v1/brokers"


async def states(client: httpx.AsyncClient) -> list[tuple[str, bool]]:
    return [(broker["state"], broker["fenced"]) for broker in (await client.get(BROKERS)).json()]


@within(run_story)
async def test_brokers_are_shown_as_they_run_and_as_the_controller_has_them(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    shown_broker = (await client.get(f"{BROKERS}/1")).json()
    alive_broker = cluster.sim.metadata.image.alive_brokers()[0]
    assert shown_broker == {
        "id": 1,
        "state": "running",
        "release": "4.4",
        "host": alive_broker.host,
        "port": alive_broker.port,
        "epoch": 1,
        "fenced": False,
        "in_controlled_shutdown": False,
        "isolated": False,
        "cut_off_from_clients": False,
        "leads": 1,
    }
    assert len((await client.get(BROKERS)).json()) == 3


@within(run_story)
async def test_a_broker_is_stopped_and_started(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    stop_answer = await client.post(f"{BROKERS}/1/stop")
    assert (stop_answer.status_code, stop_answer.json()["state"]) == (200, "down")
    assert stop_answer.json()["leads"] == 0
    start_answer = await client.post(f"{BROKERS}/1/start")
    assert (start_answer.status_code, start_answer.json()["state"]) == (200, "running")
    assert start_answer.json()["epoch"] > 3


@within(run_story)
async def test_who_does_not_want_to_wait_is_told_the_state_so_far(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    kill_answer = await client.post(f"{BROKERS}/1/kill", json={"lose_unflushed": True})
    assert (kill_answer.status_code, kill_answer.json()["state"]) == (200, "down")
    assert not kill_answer.json()["fenced"], "its session lasts"
    start_answer = await client.post(f"{BROKERS}/1/start?wait_ms=0")
    assert (start_answer.status_code, start_answer.json()["state"]) == (202, "starting")
    await asyncio.sleep(20)
    assert (await states(client))[0] == ("running", False)


@within(run_story)
async def test_a_broker_comes_back_as_another_release_if_the_features_allow_it(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post(f"{BROKERS}/1/stop")
    for release, reason in (("3.9", "does not support finalized version"), ("5", "no release")):
        refusal_answer = await client.post(f"{BROKERS}/1/start", json={"as_version": release})
        assert refusal_answer.status_code == 409
        assert reason in refusal_answer.json()["error"]
    start_answer = await client.post(f"{BROKERS}/1/start", json={"as_version": "4.4"})
    assert (start_answer.status_code, start_answer.json()["release"]) == (200, "4.4")


@within(run_story)
async def test_an_isolated_broker_is_shown_as_one(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    isolated_broker = (
        await client.post(f"{BROKERS}/2/isolate", json={"from_clients": True})
    ).json()
    assert (isolated_broker["isolated"], isolated_broker["cut_off_from_clients"]) == (True, True)
    await asyncio.sleep(15)
    assert (await states(client))[1] == ("running", True)
    healed_broker = (await client.post(f"{BROKERS}/2/heal")).json()
    assert (healed_broker["isolated"], healed_broker["cut_off_from_clients"]) == (False, False)
    await asyncio.sleep(10)
    assert (await states(client))[1] == ("running", False)
    assert not (await client.post(f"{BROKERS}/2/isolate")).json()["cut_off_from_clients"]


@within(run_story)
async def test_a_start_that_is_cut_short_is_refused(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post(f"{BROKERS}/1/kill")
    starting_task = asyncio.get_running_loop().create_task(client.post(f"{BROKERS}/1/start"))
    await asyncio.sleep(1)
    await client.post(f"{BROKERS}/1/kill")
    answer = await starting_task
    assert answer.status_code == 409
    assert "killed while it started" in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "advice"),
    [
        ("brokers/9/stop", {}, 404, "only 1, 2, 3"),
        ("brokers/x/stop", None, 404, "it is a number"),
        ("brokers/1/start", None, 409, "stop or kill it first"),
        ("brokers/1/stop?wait_ms=-1", None, 422, "expected a whole number"),
        ("brokers/1/kill", {"lose": True}, 422, "lose"),
        ("leaders", {"topic": "nope", "partition": 0, "leader": 1}, 404, "GET /api/v1/topics"),
        ("leaders", {"topic": "orders", "partition": 9, "leader": 1}, 404, "partitions 0 to 2"),
        ("leaders", {"topic": "orders", "partition": 0, "leader": 9}, 409, "in sync are 1, 2, 3"),
        ("leaders", None, 422, ""),
        ("elections", {"topic": "orders", "partition": 0, "type": "x"}, 422, "preferred, unclean"),
        ("elections", {"topic": "orders", "partition": -1}, 404, "partitions 0 to 2"),
    ],
)
@within(run_story)
async def test_a_refusal_says_what_to_do(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    path: str,
    body: dict[str, object] | None,
    status: int,
    advice: str,
) -> None:
    answer = await client.post(f"/api/v1/{path}", content=msgspec.json.encode(body))
    assert answer.status_code == status
    assert advice in answer.json()["error"]


@within(run_story)
async def test_one_that_is_down_can_be_neither_stopped_nor_killed(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post(f"{BROKERS}/1/kill")
    for way in ("stop", "kill"):
        answer = await client.post(f"{BROKERS}/1/{way}")
        assert answer.status_code == 409


@within(run_story)
async def test_leaders_are_shown_moved_and_elected(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    (topic,) = (await client.get("/api/v1/topics")).json()
    assert (topic["name"], topic["is_internal"]) == ("orders", False)
    assert topic["partitions"][0] == {
        "partition": 0,
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "replicas": [1, 2, 3],
        "isr": [1, 2, 3],
        "elr": [],
        "last_known_elr": [],
    }
    partition_fields = {"topic": "orders", "partition": 0}
    moved_partition = (
        await client.post("/api/v1/leaders", json={**partition_fields, "leader": 3})
    ).json()
    assert (moved_partition["leader"], moved_partition["leader_epoch"]) == (3, 1)
    elected = (await client.post("/api/v1/elections", json=partition_fields)).json()
    assert (elected["leader"], elected["leader_epoch"]) == (1, 2)
    second_election_answer = await client.post("/api/v1/elections", json=partition_fields)
    assert (second_election_answer.status_code, second_election_answer.json()) == (200, elected), (
        "it was not needed"
    )


@within(run_story, brokers=1)
async def test_an_election_without_candidates_is_refused(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post(f"{BROKERS}/1/stop")
    election_fields = {"topic": "orders", "partition": 0, "type": "unclean"}
    answer = await client.post("/api/v1/elections", json=election_fields)
    assert answer.status_code == 409
    assert answer.json()["error"].startswith("ELIGIBLE_LEADERS_NOT_AVAILABLE")


@within(run_story)
async def test_an_advance_moves_the_cluster_clock(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    clock_before = (await client.get("/api/v1/clock")).json()
    answer = await client.post("/api/v1/clock", json={"advance_ms": 5_000})
    assert answer.json() == {
        "now_ms": clock_before["now_ms"] + 5_000,
        "advanced_ms": clock_before["advanced_ms"] + 5_000,
        "brokers": {"1": 0, "2": 0, "3": 0},
    }
    assert cluster.env.clock.advanced_ms == 5_000


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"advance_ms": -1}', 422),
        (b'{"advance_ms": 1e99}', 422),
        (b'{"advance_ms": 400000000000000}', 422),
        (b'{"advance_ms": "1"}', 422),
        (b'{"advance_ms": 1.5}', 422),
        (b'{"advance_ms": true}', 422),
        (b'{"set_by_ms": 0.5}', 422),
        (b"{}", 422),
        (b'{"advance_ms": 1, "set_by_ms": 1}', 422),
        (b'{"advance_ms": 1, "broker": 1}', 422),
        (b'{"set_by_ms": 400000000000000}', 422),
        (b'{"set_by_ms": -400000000000000}', 422),
        (b'{"set_by_ms": 1, "broker": 9}', 404),
        (b"{", 422),
        (b" " * (BODY_BYTES_MAX + 1), 413),
    ],
)
@within(run_story)
async def test_a_bad_advance_is_refused_with_the_reason(
    cluster: VirtualCluster, client: httpx.AsyncClient, /, content: bytes, status: int
) -> None:
    answer = await client.post("/api/v1/clock", content=content)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert cluster.env.clock.advanced_ms == 0


@within(run_story)
async def test_a_duration_may_be_a_text_or_a_whole_number_with_a_point(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for content in (b'{"advance_ms": "2m"}', b'{"advance_ms": 60e3}', b'{"set_by_ms": "-1m"}'):
        assert (await client.post("/api/v1/clock", content=content)).status_code == 200
    assert cluster.env.clock.advanced_ms == 120_000
    assert type(cluster.env.clock.advanced_ms) is int


@within(run_story)
async def test_a_clock_is_set_without_time_passing(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    fired: list[int] = []
    clock = cluster.env.clock
    clock.call_at(clock.now_ms() + 60_000, lambda: fired.append(1))
    back_answer = await client.post("/api/v1/clock", json={"set_by_ms": -3_600_000})
    assert back_answer.json()["advanced_ms"] == -3_600_000
    set_clock_answer = await client.post("/api/v1/clock", json={"set_by_ms": 120_000, "broker": 2})
    assert set_clock_answer.json()["brokers"] == {"1": 0, "2": 120_000, "3": 0}
    assert set_clock_answer.json()["advanced_ms"] == -3_600_000
    assert not fired
    await client.post("/api/v1/clock", json={"advance_ms": 60_000})
    assert fired


# ``faults``: Faults through the control port, over a cluster in virtual time.


HOLD = {"id": "late", "point": "client.request", "api": "Produce", "action": {"do": "hold"}}
FAULTS = "/api/v1/faults"


@within(run_story)
async def test_a_rule_holds_until_it_is_released_and_is_gone_when_taken_back(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    armed_answer = await client.post("/api/v1/faults", json=HOLD)
    assert (armed_answer.status_code, armed_answer.json()["struck"]) == (201, 0)
    async with cluster.client() as app_cluster, Producer(app_cluster) as producer:
        first_record_future = producer.send("orders", 0, b"v")
        wait_answer = await client.get("/api/v1/faults/late/wait?struck=1")
        assert (wait_answer.json()["struck"], wait_answer.json()["held"]) == (1, 1)
        release_answer = await client.post("/api/v1/faults/late/release")
        assert release_answer.json() == {"released": 1}
        await first_record_future
        second_record_future = producer.send("orders", 0, b"v")
        await client.get("/api/v1/faults/late/wait?struck=2")
        disarm_answer = await client.delete("/api/v1/faults/late")
        assert disarm_answer.json()["released"] == 2
        await second_record_future
    assert (await client.get("/api/v1/faults")).json() == []


@within(run_story)
async def test_what_is_held_is_lost_when_it_is_released_so(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post(FAULTS, json=HOLD | {"limit": 1})
    async with cluster.client() as app_cluster, Producer(app_cluster) as producer:
        lost_record_future = producer.send("orders", 0, b"lost")
        await client.get(f"{FAULTS}/late/wait?struck=1")
        wrong_answer = await client.post(f"{FAULTS}/late/release?as=nothing")
        assert (wrong_answer.status_code, "pass, drop, duplicate" in wrong_answer.text) == (
            422,
            True,
        )
        assert (await client.post(f"{FAULTS}/late/release?as=drop")).json() == {"released": 1}
        await lost_record_future  # its client has sent it again
    assert (await client.get(f"{FAULTS}/late")).json()["released"] == 1


@within(run_story)
async def test_a_rule_that_waits_for_one_that_nobody_armed_is_refused(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    refusal_answer = await client.post(FAULTS, json={**HOLD, "after": "first"})
    assert refusal_answer.status_code == 409
    assert refusal_answer.json() == {"error": "after: no rule 'first' has been armed"}


@within(run_story)
async def test_actions_on_the_cluster_are_carried_out_and_undone(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    action = {"do": "crash", "broker": 2}
    armed_answer = await client.post(FAULTS, json={"id": "dead", "point": "now", "action": action})
    assert armed_answer.status_code == 201
    wait_answer = await client.get(f"{FAULTS}/dead/wait")
    assert wait_answer.json()["struck"] == 1
    assert 2 not in cluster.sim.brokers
    assert (await client.post(f"{FAULTS}/dead/release")).json() == {"released": 1}
    await asyncio.sleep(30)  # of virtual time
    assert 2 in cluster.sim.brokers
    unknown_broker_rule = {"id": "none", "point": "now", "action": {"do": "crash", "broker": 9}}
    await client.post(FAULTS, json=unknown_broker_rule)
    failed_wait_answer = await client.get(f"{FAULTS}/none/wait?timeout_ms=1000")
    assert failed_wait_answer.status_code == 408
    shown_rule = (await client.get(f"{FAULTS}/none")).json()
    assert (shown_rule["struck"], "9" in shown_rule["failure"]) == (0, True)
    verify_answer = await client.post(f"{FAULTS}/verify")
    assert [rule_state["rule"]["id"] for rule_state in verify_answer.json()["never_struck"]] == [
        "none"
    ]


@within(run_story)
async def test_rules_are_listed_and_shown_one_by_one(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for name in ("a", "b"):
        await client.post("/api/v1/faults", json={**HOLD, "id": name})
    listed_rules = (await client.get("/api/v1/faults")).json()
    assert [rule_state["rule"]["id"] for rule_state in listed_rules] == ["a", "b"]
    assert (await client.get("/api/v1/faults/b")).json() == listed_rules[1]


@within(run_story)
async def test_rules_have_so_many_bytes_together_and_gone_ones_count_until_they_are_forgotten(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    large_rule = {**HOLD, "transactional_id": "x" * (BODY_BYTES_MAX - 1_000)}
    most_rules = RULES_BYTES_MAX // (BODY_BYTES_MAX - 1_000) + 1
    for number in range(most_rules):
        answer = await client.post(FAULTS, json={**large_rule, "id": f"r{number}"})
        assert answer.status_code == 201
    refused = {**HOLD, "id": "refused"}
    assert len((await client.get(FAULTS)).content) < 2 * RULES_BYTES_MAX
    assert (await client.post(FAULTS, json=refused)).status_code == 422
    assert len((await client.delete(FAULTS)).json()) == most_rules
    refusal = (await client.post(FAULTS, json=refused)).json()["error"]
    assert "POST /api/v1/faults/verify?forget=true" in refusal
    verify_answer = await client.post(f"{FAULTS}/verify?forget=true")
    assert verify_answer.status_code == 409
    assert len(verify_answer.json()["never_struck"]) == most_rules
    assert (await client.post(FAULTS, json=refused)).status_code == 201


@within(run_story)
async def test_an_error_names_so_many_rules_and_the_answer_has_all(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    rule_count = TOLD_RULES_MAX + 5
    plan = [{**HOLD, "id": f"r{number}"} for number in range(rule_count)]
    assert (await client.post(f"{FAULTS}/plan", json=plan)).status_code == 201
    answer = await client.post(f"{FAULTS}/verify")
    assert answer.json()["error"].count("crossings matched") == TOLD_RULES_MAX
    assert "; and 5 more)" in answer.json()["error"]
    assert len(answer.json()["never_struck"]) == rule_count


@within(run_story)
async def test_a_plan_of_too_many_rules_is_refused_before_one_is_read(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    answer = await client.post(f"{FAULTS}/plan", json=[{}] * (PLAN_RULES_MAX + 1))
    assert answer.status_code == 422
    assert answer.json() == {"error": "1001 rules, expected at most 1000"}
    assert "id is missing" in (await client.post(f"{FAULTS}/plan", json=[{}])).text


@pytest.mark.parametrize(
    ("method", "path", "request_body", "status"),
    [
        ("POST", "/api/v1/faults", {**HOLD, "id": "there"}, 409),
        ("POST", "/api/v1/faults", {**HOLD, "point": "nowhere"}, 422),
        ("POST", "/api/v1/faults", {**HOLD, "api": "NoSuchApi"}, 422),
        ("POST", "/api/v1/faults", {**HOLD, "surprise": 1}, 422),
        ("POST", "/api/v1/faults", {**HOLD, "action": {"do": "error", "error": "?"}}, 422),
        ("GET", "/api/v1/faults/missing", None, 404),
        ("DELETE", "/api/v1/faults/missing", None, 404),
        ("POST", "/api/v1/faults/missing/release", None, 404),
        ("GET", "/api/v1/faults/missing/wait", None, 404),
        ("GET", "/api/v1/faults/there/wait?timeout_ms=50", None, 408),
        ("GET", "/api/v1/faults/there/wait?struck=0", None, 422),
        ("GET", "/api/v1/faults/there/wait?struck=x", None, 422),
        ("GET", "/api/v1/faults/there/wait?timeout_ms=99999999", None, 422),
    ],
)
@within(run_story)
async def test_what_can_not_be_obeyed_is_refused_with_the_reason(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    method: str,
    path: str,
    request_body: Any,
    status: int,
) -> None:
    await client.post("/api/v1/faults", json={**HOLD, "id": "there"})
    answer = await client.request(method, path, json=request_body)
    assert answer.status_code == status
    assert answer.json()["error"]


@within(run_story)
async def test_who_waits_for_a_rule_hears_that_it_was_taken_back(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post("/api/v1/faults", json=HOLD)
    task = asyncio.get_running_loop().create_task(client.get("/api/v1/faults/late/wait"))
    await asyncio.sleep(1)
    await client.delete("/api/v1/faults/late")
    answer = await task
    assert answer.status_code == 408
    assert "disarmed" in answer.json()["error"]


# Plans


@within(run_story)
async def test_a_plan_is_armed_whole_or_not_at_all(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    armed_answer = await client.post(
        f"{FAULTS}/plan", json=[{**HOLD, "id": "a"}, {**HOLD, "id": "b"}]
    )
    assert armed_answer.status_code == 201
    assert [rule_state["rule"]["id"] for rule_state in armed_answer.json()] == ["a", "b"]
    refusal_answer = await client.post(
        f"{FAULTS}/plan", json=[{**HOLD, "id": "c"}, {**HOLD, "id": "a"}]
    )
    assert refusal_answer.status_code == 409
    assert "DELETE /api/v1/faults/a" in refusal_answer.json()["error"]
    assert [armed_rule.rule.id for armed_rule in cluster.sim.injector.rules()] == ["a", "b"]
    disarm_answer = await client.delete(FAULTS)
    assert [rule_state["rule"]["id"] for rule_state in disarm_answer.json()] == ["a", "b"]
    assert (await client.get(FAULTS)).json() == []


@pytest.mark.parametrize("request_body", [{"id": "a"}, [{**HOLD, "point": "x"}], [HOLD] * 1_001])
@within(run_story)
async def test_what_is_no_plan_is_refused(
    cluster: VirtualCluster, client: httpx.AsyncClient, /, request_body: Any
) -> None:
    assert (await client.post(f"{FAULTS}/plan", json=request_body)).status_code == 422


@within(run_story)
async def test_more_rules_than_one_step_may_disarm_are_refused(
    cluster: VirtualCluster, client: httpx.AsyncClient, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnsim.http._faults.RULES_MAX", 2)
    plan = [{**HOLD, "id": rule_id} for rule_id in ("a", "b", "c")]
    refusal_answer = await client.post(f"{FAULTS}/plan", json=plan)
    assert refusal_answer.status_code == 422
    assert "disarm some" in refusal_answer.json()["error"]
    assert cluster.sim.injector.rules() == ()
    assert (await client.post(f"{FAULTS}/plan", json=plan[:2])).status_code == 201


@within(run_story)
async def test_a_rule_that_can_strike_nothing_is_told_when_it_is_armed_and_in_hindsight(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    missing_broker_rule = {**HOLD, "id": "nowhere", "broker": 9}
    later_rule = {**HOLD, "id": "later", "topic": "elsewhere"}
    armed = (
        await client.post(f"{FAULTS}/plan", json=[HOLD, missing_broker_rule, later_rule])
    ).json()
    doubts = [None, "broker: no broker '9'; there are: 1, 2, 3", None]
    assert [rule_state["doubt"] for rule_state in armed] == doubts
    complaint = (await client.post(f"{FAULTS}/verify")).json()["error"]
    assert "nowhere: 0 crossings matched, broker: no broker '9'" in complaint
    assert "later: 0 crossings matched, topic: no topic 'elsewhere'" in complaint


@within(run_story)
async def test_a_fault_that_never_struck_fails_the_verification(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    assert (await client.post(f"{FAULTS}/verify")).json() == {"error": None, "never_struck": []}
    slow_rule = {**HOLD, "action": {"do": "delay", "delay_ms": 1}}
    await client.post(
        f"{FAULTS}/plan", json=[slow_rule, {**HOLD, "id": "idle", "topic": "elsewhere"}]
    )
    async with cluster.client() as app_cluster, Producer(app_cluster) as producer:
        await producer.send("orders", 0, b"v")
    answer = await client.post(f"{FAULTS}/verify")
    assert answer.status_code == 409
    assert [rule_state["rule"]["id"] for rule_state in answer.json()["never_struck"]] == ["idle"]
    assert "idle: 0 crossings matched" in answer.json()["error"]
    (disarm_answer,) = (await client.delete(f"{FAULTS}/idle"),)
    assert not disarm_answer.json()["in_force"]
    assert (await client.post(f"{FAULTS}/verify?forget=true")).status_code == 409
    assert (await client.post(f"{FAULTS}/verify")).status_code == 200
    assert (await client.post(f"{FAULTS}/verify?forget=1")).status_code == 422


# ``transactions``: Transactions through the control port: as coordinators have them and as
# partitions do.


TRANSACTIONS = "/api/v1/transactions"
OPEN = "/api/v1/open-transactions"


@within(run_story)
async def test_an_open_transaction_is_shown_by_coordinator_and_partition(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    async with (
        cluster.client() as app_cluster,
        await begin_transaction(app_cluster, "a/b") as producer,
    ):
        await producer.send("orders", 1, b"v")
        cluster.advance(5_000)
        (listed_transaction,) = (await client.get(TRANSACTIONS)).json()
        assert listed_transaction == (await client.get(f"{TRANSACTIONS}/a/b")).json()
        assert (listed_transaction["state"], listed_transaction["pending_state"]) == (
            "Ongoing",
            None,
        )
        assert listed_transaction["partitions"] == [{"topic": "orders", "partition": 1}]
        assert listed_transaction["open_for_ms"] >= 5_000
        assert listed_transaction["markers_owed"] == 0
        (producer_state,) = (await client.get("/api/v1/producers?topic=orders&partition=1")).json()
        assert producer_state["open_since_offset"] == 0
        assert producer_state["producer_id"] == listed_transaction["producer_id"]
        (judged_transaction,) = (await client.get(OPEN)).json()
        assert (judged_transaction["verdict"], judged_transaction["transactional_id"]) == (
            "alive",
            "a/b",
        )
        assert _commands(judged_transaction) == []
        assert (await client.get(f"{OPEN}?verdict=hanging")).json() == []
        await producer.commit()
    assert (await client.get(OPEN)).json() == []


@within(run_story)
async def test_markers_that_are_owed_are_counted(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
    async with (
        cluster.client() as app_cluster,
        await begin_transaction(app_cluster, "app") as producer,
    ):
        await producer.send("orders", 0, b"v")
        await producer.commit()
        await cluster.wait_until_struck()
        (owing,) = (await client.get(f"{TRANSACTIONS}?state=PrepareCommit")).json()
        assert (owing["markers_owed"], owing["pending_state"]) == (1, "CompleteCommit")
        (judged_transaction,) = (await client.get(OPEN)).json()
        assert judged_transaction["verdict"] == "decided"
        # An abort would take back what the client was told to be committed.
        assert _commands(judged_transaction) == []
        cluster.sim.injector.disarm_all()
        await until_state(app_cluster, "app", "CompleteCommit")
        (ended_transaction,) = (await client.get(TRANSACTIONS)).json()
        assert (
            ended_transaction["markers_owed"],
            ended_transaction["start_ms"],
            ended_transaction["open_for_ms"],
        ) == (
            0,
            None,
            None,
        )
        assert (await client.get(f"{TRANSACTIONS}?state=Ongoing")).json() == []


@within(run_story)
async def test_a_state_is_waited_for_and_in_vain_says_why(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    wait_text = "/api/v1/transaction-wait?transactional_id=a/b"
    async with (
        cluster.client() as app_cluster,
        Producer(app_cluster, transactional_id="a/b") as producer,
    ):
        await producer.init_transactions()
        empty_answer = await client.get(f"{wait_text}&state=CompleteCommit&state=Empty")
        assert empty_answer.json()["state"] == "Empty"
        late_answer = await client.get(f"{wait_text}&state=Ongoing&timeout_ms=20")
        assert late_answer.status_code == 408
        assert late_answer.json()["error"] == "a/b is Empty after 20 ms, not Ongoing"
    for query, complaint in (
        ("state=Ongoin", "did you mean Ongoing"),
        ("timeout_ms=5", "no state is given"),
        ("state=Empty&timeout_ms=x", "timeout_ms"),
    ):
        refusal_answer = await client.get(f"{wait_text}&{query}")
        assert (refusal_answer.status_code, complaint in refusal_answer.json()["error"]) == (
            422,
            True,
        )
    nobody_answer = await client.get("/api/v1/transaction-wait?state=Empty")
    assert nobody_answer.status_code == 422


@within(run_story, level=0, transaction_partition_verification_enable=False)
async def test_a_transaction_that_its_coordinator_does_not_know_hangs(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST, api="Produce", client_id="app")
    async with cluster.client() as app_cluster:
        producer = Producer(
            app_cluster, transactional_id="app", delivery_timeout_ms=200, request_timeout_ms=150
        )
        await producer.init_transactions()
        producer.begin()
        late_send_future = producer.send("orders", 0, b"late")
        await cluster.wait_until_struck()
        with pytest.raises(ClientError):
            await late_send_future
        await producer.abort()
        await client.post("/api/v1/faults/f/release")
        await asyncio.sleep(1)
        (judged_transaction,) = (await client.get(f"{OPEN}?verdict=hanging")).json()
        assert judged_transaction["start_offset"] >= 0
        # The old flow: its coordinator says that it was aborted. ``repair`` asks again.
        assert _commands(judged_transaction) == [
            f"txnsim txns --bootstrap-server {cluster.sim.bootstrap} repair --topic orders"
            " --partition 0 --yes"
        ]
        assert (
            "marker" in judged_transaction["reason"]
            or "no longer has" in judged_transaction["reason"]
        )
        assert_answer = await client.get("/api/v1/assertions/no-hanging-transactions")
        assert assert_answer.status_code == 409
        complaint_lines = assert_answer.json()["error"].splitlines()
        assert complaint_lines[0] == "1 transaction hangs:"
        assert complaint_lines[-1].strip() == _commands(judged_transaction)[0]
        await producer.close()


def _commands(judgement: dict[str, Any]) -> list[str]:
    """The commands in an answer that would end the transaction."""
    command_beginnings = ("abort --topic", "repair --topic")
    return [
        command
        for command in map(str, judgement.values())
        if any(beginning in command for beginning in command_beginnings)
    ]


@within(run_story)
async def test_every_producer_of_every_partition_is_shown_unless_one_is_asked_for(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    async with cluster.client() as app_cluster, Producer(app_cluster, idempotent=True) as producer:
        await producer.send("orders", 0, b"v")
        await producer.send("orders", 2, b"v")
    producers = (await client.get("/api/v1/producers")).json()
    assert [(producer["topic"], producer["partition"]) for producer in producers] == [
        ("orders", 0),
        ("orders", 2),
    ]
    assert {producer["open_since_offset"] for producer in producers} == {None}
    assert len((await client.get("/api/v1/producers?topic=orders")).json()) == 2
    assert (await client.get("/api/v1/producers?topic=orders&partition=1")).json() == []


@pytest.mark.parametrize(
    ("path", "status", "advice"),
    [
        (f"{TRANSACTIONS}?state=Open", 422, "Ongoing"),
        (f"{TRANSACTIONS}/nobody", 404, "GET /api/v1/transactions lists"),
        ("/api/v1/producers?partition=1", 422, "needs a topic"),
        ("/api/v1/producers?topic=nope", 404, "GET /api/v1/topics"),
        ("/api/v1/producers?topic=orders&partition=9", 404, "partitions 0 to 2"),
        ("/api/v1/producers?topic=orders&partition=x", 422, "whole number"),
        (f"{OPEN}?verdict=bad", 422, "alive, decided, hanging"),
    ],
)
@within(run_story)
async def test_what_is_not_there_is_refused_with_the_reason(
    cluster: VirtualCluster, client: httpx.AsyncClient, /, path: str, status: int, advice: str
) -> None:
    answer = await client.get(path)
    assert answer.status_code == status
    assert advice in answer.json()["error"]
