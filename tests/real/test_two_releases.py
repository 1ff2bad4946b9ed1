"""Brokers of two releases: what clients are answered, and in which versions brokers ask each other,
as real clusters were recorded to do it (``two_releases.jsonl``).
"""

from __future__ import annotations

import functools

import pytest

from tests.real import two_releases
from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.node.peers import CONTROLLER_ID
from txnsim.releases import RELEASES
from txnsim.runtime.trace import TraceLevel

LINES = {release.patch_release: release.name for release in RELEASES.values()} | {
    "3.5.2": "2.8",  # is no line of the simulator's, and does not know verification either
    "4.2.0": "4.2",
}
RULES = {"4.2.0+4.1.2": {"markers_follow_peer_version": False}}
"""What the newest patch release of the line has mended."""
RECORDED = two_releases.recorded_pairs()
PLAYED = [pair for pair in RECORDED if "3.5.2" not in pair]
"""Of these the simulator has both releases."""


@functools.cache
def simulate_pair(pair_text: str) -> two_releases.ReleaseAnswers:
    """What a simulated cluster of the pair's release lines does: ``answers`` and ``asked``."""
    first_line, second_line = (LINES[release] for release in pair_text.split("+"))

    async def main(cluster: VirtualCluster) -> two_releases.ReleaseAnswers:
        for broker in two_releases.BROKERS:  # they register, as a real broker that starts
            await cluster.sim.stop_broker(broker)
            await cluster.sim.start_broker(broker)
        async with cluster.client() as client:
            answers = await two_releases.story(client)
        versions_by_api: dict[str, set[str]] = {}
        tracer = cluster.env.tracer
        for event in tracer.events():
            event_fields = event.d
            if (
                event.k == "msg.send"
                and isinstance(event_fields, dict)
                and not event_fields["response"]
            ):
                source, target_broker_id = (
                    _node(tracer.nodes[event.n]),
                    _node(str(event_fields["peer"])),
                )
                line = f"{source} -> {target_broker_id}: v{event_fields['version']}"
                versions_by_api.setdefault(str(event_fields["api"]), set()).add(line)
        return {
            "answers": answers,
            "asked": {name: sorted(versions) for name, versions in versions_by_api.items()},
        }

    releases = (f"{first_line},2={second_line}",)
    full_level = TraceLevel.FULL
    rules = RULES.get(pair_text, {})
    return run_cluster(
        main, brokers=2, topics=(), as_version=releases, rules=rules, trace_level=full_level
    )


def _node(name: str) -> int:
    """The node of a client name. The controller is on the node of the first broker."""
    number = int(name.removeprefix("broker/"))
    return 1 if number == CONTROLLER_ID else number


@pytest.mark.parametrize("pair_text", RECORDED)
def test_clients_are_answered_as_by_the_real_brokers(pair_text: str) -> None:
    ours = {
        key: answer
        for key, answer in simulate_pair(pair_text)["answers"].items()
        if "leader" in key
    }
    assert len(ours) == 8
    assert ours == {key: RECORDED[pair_text]["answers"][key] for key in ours}


@pytest.mark.parametrize("pair_text", PLAYED)
def test_brokers_ask_each_other_in_the_versions_of_the_real_ones(pair_text: str) -> None:
    ours, real = simulate_pair(pair_text)["asked"], RECORDED[pair_text]["asked"]
    if "2.8.2" in pair_text:  # for all else these ask ZooKeeper
        assert real.keys() >= {"AddPartitionsToTxn", "AlterPartition", "Fetch", "WriteTxnMarkers"}
        ours = {name: ours[name] for name in real}
    assert ours == real


@pytest.mark.parametrize("pair_text", PLAYED)
def test_brokers_list_the_versions_and_levels_of_the_real_ones(pair_text: str) -> None:
    """A broker of any emulated release has the lowest versions of the newest release."""
    for broker in two_releases.BROKERS:
        ours, real = (
            [
                pair_record["answers"][f"broker {broker} {verb}"]
                for verb in ("lists", "has finalized")
            ]
            for pair_record in (simulate_pair(pair_text), RECORDED[pair_text])
        )
        common = ours[0].keys() & real[0].keys() if "2.8.2" in pair_text else ours[0].keys()
        assert {key: ours[0][key][1] for key in common} == {key: real[0][key][1] for key in common}
        assert ours[1] == real[1]


@pytest.mark.real
@pytest.mark.parametrize("pair_text", ["2.8.2+3.6.2", "3.5.2+3.6.2", "3.9.2+4.4.0"])
def test_the_real_brokers_do_what_was_recorded(pair_text: str) -> None:
    assert two_releases.play(pair_text) == RECORDED[pair_text]
