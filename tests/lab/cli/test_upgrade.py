"""A rolling upgrade, rehearsed."""

from __future__ import annotations

import pytest

from txnsim.cli.main import main
from txnsim.errors import ConfigError
from txnsim.releases import release_named
from txnsim.releases.rules import Rules
from txnsim_lab.cli._upgrade import TRANSACTION_SWITCHES, rehearse, risks


def test_what_is_at_risk_follows_from_the_switches() -> None:
    mended, brought = risks(release_named("3.9"), release_named("4.4"))
    assert [change.split(":")[0] for change in brought] == ["KAFKA-20734"]
    assert any(change.startswith("KAFKA-19446: ") for change in mended)
    assert all(
        "; without that, " in change and change.endswith(".") for change in (*mended, *brought)
    )
    assert risks(release_named("4.3"), release_named("4.3")) == ([], [])
    mended, brought = risks(release_named("3.5"), release_named("4.4"))
    assert "KIP-890, first part" in [change.split(":")[0] for change in mended]
    assert "KAFKA-16692" not in [change.split(":")[0] for change in mended]
    assert set(TRANSACTION_SWITCHES) <= Rules.documentation().keys()


@pytest.mark.costly
@pytest.mark.parametrize(
    "old_release", [pytest.param("3.6", marks=pytest.mark.slow), "3.5", "3.9", "4.2"]
)
def test_a_producer_commits_through_an_upgrade(old_release: str) -> None:
    lines: list[str] = []
    rehearsal = rehearse(release_named(old_release), release_named("4.4"), lines.append)
    assert rehearsal.is_well
    assert (rehearsal.committed, rehearsal.hanging) == (120, 0)
    text = "\n".join(lines)
    steps = ["1. Stop broker 2", "2. Stop broker 3", "3. Stop broker 1", "4. Raise the features"]
    assert [text.index(step) for step in steps] == sorted(text.index(step) for step in steps)
    assert "transaction.version 2" in text
    assert (f"A cluster of {old_release} may have ZooKeeper, and 4.4 has none" in text) is (
        old_release[0] == "3"
    )


@pytest.mark.costly
@pytest.mark.parametrize("old_release", ["2.8", "3.5"])
def test_on_the_way_to_3_6_new_leaders_lose_transactions_of_old_coordinators(
    old_release: str,
) -> None:
    lines: list[str] = []
    _, brought = risks(release_named(old_release), release_named("3.6"))
    assert [change.split(":")[0] for change in brought] == ["KAFKA-16692"]
    rehearsal = rehearse(release_named(old_release), release_named("3.6"), lines.append)
    assert not rehearsal.is_well
    assert rehearsal.failed > 0
    assert (rehearsal.committed, rehearsal.hanging) == (rehearsal.read, 0)
    assert sum("NETWORK_EXCEPTION" in line for line in lines) >= 2
    assert "NETWORK_EXCEPTION" not in lines[-3], "all brokers are new"


@pytest.mark.parametrize(
    ("old_release", "new_release", "says"),
    [("4.4", "4.4", "not newer"), ("4.4", "3.9", "not newer"), ("2.8", "4.4", "ZooKeeper")],
)
def test_what_no_cluster_can_do_is_refused(old_release: str, new_release: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        rehearse(release_named(old_release), release_named(new_release), print)


def test_the_command_ends_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["practise", "upgrade", "--from", "4.3"]) == 0
    output = capsys.readouterr().out
    assert "three brokers go from 4.3.1 to 4.4.0" in output
    assert output.rstrip().endswith("without your load and your configs.")


@pytest.mark.parametrize(
    "arguments",
    [
        ["practise", "upgrade"],
        ["practise", "upgrade", "--from", "1.0"],
        ["practise", "--from", "3.9"],
        ["practise", "upgrade", "--from", "4.4", "--to", "4.3"],
    ],
)
def test_a_misuse_has_its_status(arguments: list[str]) -> None:
    assert main(arguments) == 2
