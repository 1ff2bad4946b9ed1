"""``txnsim scenario``: what it plays, prints and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, default_int_handler, signal
from typing import Any

import msgspec
import pytest

from tests.support.full_disk import little_room
from tests.support.slow_machine import SLOW_S
from tests.support.stories import late_produce, small
from txnsim.cli.main import INTERRUPTED_STATUS, main
from txnsim.errors import ConfigError
from txnsim.testing import SimulatedKafka
from txnsim.trace.story import Sentence
from txnsim_lab.cli._scenario import command as scenario_module
from txnsim_lab.cli._scenario.command import write
from txnsim_lab.cli._scenario.output import (
    description_of,
    facts_of,
    kinds_text,
    progress_of,
    story_of,
    table_of,
)
from txnsim_lab.scenario import catalog, runner
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.runner import JudgesResult, RunResult, ScenarioRun, StoryPace

WRONG: dict[str, tuple[str, ...]] = {}
Z01 = ["scenario", "run", "z01"]
MODES = ("V-", "V+", "TV2", "TV2+")


class ToldRuns:
    """Notes the runs that a command asks for, without playing them."""

    def __init__(self) -> None:
        self.virtual: list[tuple[str, str, int]] = []
        self.real: list[tuple[str, str, Casting]] = []

    def __len__(self) -> int:
        return len(self.virtual) + len(self.real)


@pytest.fixture
def told_runs(monkeypatch: pytest.MonkeyPatch) -> ToldRuns:
    """Replace the playing of stories: each run has its declared result at once."""
    told_runs = ToldRuns()

    def run_in_virtual_time(
        scenario_run: ScenarioRun, *, seed: int, pace: StoryPace | None = None
    ) -> RunResult:
        assert pace is None
        told_runs.virtual.append((scenario_run.run, scenario_run.take, seed))
        return result_of(scenario_run)

    async def run_in_real_time(scenario_run: ScenarioRun, casting: Casting) -> RunResult:
        told_runs.real.append((scenario_run.run, scenario_run.take, casting))
        return result_of(scenario_run)

    monkeypatch.setattr(runner, "run_in_virtual_time", run_in_virtual_time)
    monkeypatch.setattr(runner, "run_in_real_time", run_in_real_time)
    return told_runs


def result_of(scenario_run: ScenarioRun) -> RunResult:
    expected = scenario_run.scenario.verdict_of(scenario_run.run, scenario_run.take)
    return RunResult(
        scenario=scenario_run.scenario.name,
        anomaly=scenario_run.scenario.anomaly,
        run=scenario_run.run,
        mode=scenario_run.mode,
        take=scenario_run.take,
        seed=1,
        players=("somebody",),
        verdict=JudgesResult(
            expected=expected,
            observed=WRONG.get(scenario_run.run, expected),
            because=("so it is",),
        ),
        cured=None,
        story=(
            Sentence(
                at_ms=0, who="scenario", text=f"It was in {scenario_run.run}.", is_narrated=True
            ),
        ),
        remarks=(),
        duration_ms=5,
        history=b"seen\n",
        trace=f"{scenario_run.run} {scenario_run.take}\n".encode(),
    )


def test_every_run_is_made_in_every_take_and_only_the_armed_stories_are_told(
    told_runs: ToldRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(Z01) == 0
    assert told_runs.virtual == [
        (mode, take_name, 1) for mode in MODES for take_name in ("armed", "disarmed", "control")
    ]
    output, error_output = capsys.readouterr()
    assert [output.count(f"It was in {mode}.") for mode in MODES] == [1, 1, 1, 1]
    assert output.count("as declared") == 12
    assert error_output == ""


@pytest.mark.slow
def test_a_verdict_that_differs_is_exit_status_1(
    told_runs: ToldRuns, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WRONG, "V+", ("lost-write",))
    assert main([*Z01, "--quiet", "--armed"]) == 1
    output, error_output = capsys.readouterr()
    assert "late-produce-after-abort V+, armed: so it is" in output
    assert "expected healthy" in output
    assert (
        "2 of 4 runs, 1 not as declared: late-produce-after-abort V+ armed: lost-write"
        in error_output
    )
    assert "It was in" not in output
    assert len(told_runs) == 4


@pytest.mark.parametrize(
    ("options", "expected_takes"),
    [
        (["--armed"], ["armed"]),
        (["--disarmed"], ["disarmed"]),
        (["--control"], ["control"]),
        ([], ["armed", "disarmed", "control"]),
    ],
)
def test_one_mode_and_one_take_can_be_asked_for(
    options: list[str],
    expected_takes: list[str],
    told_runs: ToldRuns,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*Z01, "--mode", "TV2", "--seed", "9", *options]) == 0
    assert told_runs.virtual == [("TV2", take_name, 9) for take_name in expected_takes]
    assert "It was in TV2." in capsys.readouterr().out


def test_a_story_is_told_with_many_seeds_up_to_the_first_that_differs(
    told_runs: ToldRuns, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*Z01, "--mode", "TV2", "--armed", "--seeds", "3"]) == 0
    assert told_runs.virtual == [("TV2", "armed", seed) for seed in (1, 2, 3)]
    told_runs.virtual.clear()
    monkeypatch.setitem(WRONG, "TV2", ("lost-write",))
    assert main([*Z01, "--mode", "TV2", "--armed", "--seeds", "3"]) == 1
    assert len(told_runs.virtual) == 1
    assert main([*Z01, "--seeds", "0"]) == 2
    assert main([*Z01, "--seeds", "2", "--real"]) == 2
    assert "--seeds needs a number from 1 on" in capsys.readouterr().err


def test_json_gives_verdicts_on_standard_output_and_progress_elsewhere(
    told_runs: ToldRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", "matrix", "--json"]) == 0
    output, error_output = capsys.readouterr()
    rows = json.loads(output)
    assert [row["as_declared"] for row in rows] == [True] * len(rows)
    assert rows[0]["verdict"]["because"] == ["so it is"]
    assert len(rows) == len(told_runs)
    assert len(error_output.splitlines()) == 10
    assert error_output.splitlines()[-1] == f"{len(rows)} of {len(rows)} runs, 0 not as declared"


def test_a_matrix_shows_progress_and_the_grid_only(
    told_runs: ToldRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", "matrix", "--mode", "V-"]) == 0
    output, error_output = capsys.readouterr()
    assert (
        error_output.splitlines()[-1]
        == f"{len(told_runs)} of {len(told_runs)} runs, 0 not as declared"
    )
    assert len(error_output.splitlines()) == 10
    assert output.splitlines()[0].split() == ["Scenario", *MODES]
    assert "runs with the fault: as declared" in output


def test_traces_and_histories_are_written_one_file_per_run(
    told_runs: ToldRuns, tmp_path: Path
) -> None:
    traces_folder, histories = tmp_path / "new" / "traces", tmp_path / "histories"
    output_options = ["--trace", str(traces_folder), "--history", str(histories)]
    assert main([*Z01, "--mode", "V-", "--armed", *output_options, "--quiet"]) == 0
    assert {path.name: path.read_text("utf-8") for path in traces_folder.iterdir()} == {
        "late-produce-after-abort.V-.armed.jsonl": "V- armed\n"
    }
    assert [path.name for path in histories.iterdir()] == [
        "late-produce-after-abort.V-.armed.history.jsonl"
    ]
    assert len(told_runs) == 1


def test_a_player_plays_where_it_can_and_the_runs_left_out_are_named(
    told_runs: ToldRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("kafka", reason="the extra `demo` is not installed")
    assert main([*Z01, "--player", "kafka-python", "--armed"]) == 0
    assert [run[0] for run in told_runs.real] == ["V-", "V+"]
    assert told_runs.virtual == []
    assert capsys.readouterr().err.splitlines() == [
        f"late-produce-after-abort {mode}: left out, kafka-python can't play there"
        for mode in ("TV2", "TV2+")
    ]


def test_a_program_is_passed_on_and_time_can_be_real(told_runs: ToldRuns) -> None:
    assert main([*Z01, "--program", f"{sys.executable} x", "--quiet"]) == 0
    assert {run[2].program for run in told_runs.real} == {f"{sys.executable} x"}
    assert main([*Z01, "--real", "--quiet"]) == 0
    assert len(told_runs.real) == 24
    assert told_runs.virtual == []


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["run", "z99x"], "no scenario 'z99x'; "),
        (["show", "late-produce-after-abrt"], "did you mean late-produce-after-abort?"),
        (["run", "missing.yaml"], "missing.yaml: can't be read: No such file"),
        (["run", "z01", "--mode", "TV1"], "no mode 'TV1'; did you mean TV2?"),
        (["run", "z01", "--player", "kafka"], "no player 'kafka'; did you mean kafka-python"),
        (["run", "z01", "--program", "no-such-program"], "there is no such program"),
        (["run", "z01", "--mode", "TV2", "--player", "kafka-python"], "can't play in late-pr"),
        (
            ["run", "z01", "--trace", "/dev/null/x"],
            "/dev/null/x: /dev/null is a file; name a folder",
        ),
        (["run", "z01", "--armed", "--disarmed"], "not allowed with --"),
        (["run", "z01", "--player", "own", "--program", "x"], "not allowed with --"),
        (["run"], "name is missing"),
        ([], "ACTION is missing; there are: list, show"),
    ],
)
def test_what_can_not_be_done_is_exit_status_2_and_nothing_is_run(
    argv: list[str], complaint: str, told_runs: ToldRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", *argv]) == 2
    output, error_output = capsys.readouterr()
    assert complaint in error_output
    assert (output, len(told_runs)) == ("", 0)


def test_a_matrix_runs_the_scenarios_that_have_the_mode(
    told_runs: ToldRuns, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario_before = small(
        [{"advance": "1s"}], runs={"V-/before": {"mode": "V-", "verdict": "healthy"}}
    )
    scenario_by_path = {Path("a.yaml"): late_produce(), Path("b.yaml"): scenario_before}
    monkeypatch.setattr(scenario_module, "scenarios", lambda: scenario_by_path)
    assert main(["scenario", "matrix", "--mode", "TV2"]) == 0
    assert len(told_runs) == 3
    assert main(["scenario", "matrix"]) == 0
    assert len(told_runs) == 3 + 12 + 2
    assert "before:" in capsys.readouterr().out
    assert main(["scenario", "matrix", "--mode", "TV9"]) == 2
    assert capsys.readouterr().err == "txnsim: no scenario has TV9\n"


def test_several_are_run_and_each_may_leave_modes_out(told_runs: ToldRuns, tmp_path: Path) -> None:
    own_story_file = tmp_path / "mine.yaml"
    own_story_file.write_text(
        catalog.find("z01")[0].read_text("utf-8").replace("[z01]", "[mine]"), "utf-8"
    )
    assert (
        main(["scenario", "run", "z01", str(own_story_file), "--armed", "--quiet", "--mode", "V-"])
        == 0
    )
    assert len(told_runs) == 2


def test_a_trace_that_can_not_be_written_is_told(
    told_runs: ToldRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "late-produce-after-abort.V-.armed.jsonl").mkdir()
    assert main([*Z01, "--mode", "V-", "--armed", "--quiet", "--trace", str(tmp_path)]) == 2
    assert "Is a directory" in capsys.readouterr().err
    assert len(told_runs) == 1


def test_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "list"]) == 0
    output = capsys.readouterr().out
    assert output.splitlines()[0].split() == ["Scenario", "Alias", "Title"]
    rows = [[cell_text.strip() for cell_text in line.split("\t")] for line in output.splitlines()]
    assert ["late-produce-after-abort", "z01"] in [row[:2] for row in rows]
    assert main(["scenario", "list", "--json"]) == 0
    listed_scenarios = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in listed_scenarios] == [
        scenario.name for scenario in catalog.scenarios().values()
    ]
    (z01,) = [row for row in listed_scenarios if row["aliases"] == ["z01"]]
    assert (z01["animal"], z01["runs"]) == ("Z01", list(MODES))


def test_what_is_shown_is_yaml_to_begin_with(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, scenario = catalog.find("z01")
    assert main(["scenario", "show", "Z01"]) == 0
    output = capsys.readouterr().out
    assert output == f"# {path}\n{path.read_text('utf-8')}"
    (tmp_path / "mine.yaml").write_text(output)
    assert catalog.load(tmp_path / "mine.yaml") == scenario


def test_every_file_is_checked_also_behind_a_wrong_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wrong_file = tmp_path / "wrong.yaml"
    wrong_file.write_text("name: x\n")
    assert main(["scenario", "check", str(wrong_file), "z01"]) == 2
    captured = capsys.readouterr()
    assert f"{wrong_file}:1: goal: is missing" in captured.err
    assert captured.out.endswith("late-produce-after-abort is sound, 12 runs\n")
    assert main(["scenario", "check", "z01", "--json"]) == 0
    (checked_file,) = json.loads(capsys.readouterr().out)
    assert (checked_file["problems"], checked_file["tellings"]) == ([], 12)


def test_a_scenario_is_shown_with_its_steps_and_the_verdicts_it_expects(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["scenario", "show", "Z01", "--summary"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(
        "late-produce-after-abort (z01): A produce that arrives after the abort"
    )
    for part in ("\n1. The producer opens", "[armed]", "Control: The same", "Source: KIP-890"):
        assert part in output
    assert f"File: {catalog.find('z01')[0]}" in output
    copied_file = tmp_path / "mine.yaml"
    copied_file.write_text(
        catalog.find("z01")[0].read_text("utf-8").replace("aliases", "#"), "utf-8"
    )
    assert main(["scenario", "show", str(copied_file), "--summary"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("late-produce-after-abort: A produce")
    assert f"File: {copied_file}" in output


def test_a_scenario_is_shown_as_json_with_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "show", "z01", "--json"]) == 0
    shown_scenario = msgspec.json.decode(capsys.readouterr().out)
    assert shown_scenario["runs"]["V-"]["verdict"] == ["stuck-last-stable-offset"]
    assert shown_scenario["actors"]["app"]["transactional-id"] == "app"
    (hold,) = [step["hold"] for step in shown_scenario["steps"] if "hold" in step]
    assert hold["id"] == "late-produce"


def test_help_says_what_the_exit_status_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "--help"]) == 0
    assert "Exit status: 0 every verdict is the declared one" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize(
    ("arguments", "expected_text"),
    [
        (("new", "mine"), "mine.yaml"),
        (("run", "z05", "--trace", "out"), "out/late-commit-tears"),
        (("run", "z05", "--mode", "V-", "--html", "page.html"), "page.html"),
    ],
)
def test_a_full_disk_is_named_and_nothing_is_left(
    arguments: tuple[str, ...],
    expected_text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with little_room():
        assert main(["scenario", *arguments]) in (1, 2)
    complaint = capsys.readouterr().err
    assert f"txnsim: {expected_text}" in complaint
    assert "File too large" in complaint
    assert "make room, or name another place, and run the command again" in complaint
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# ``on_real_brokers``: ``txnsim scenario run --on``: a simulated cluster over TCP stands for the
# real one.


STORY = "late-commit-leaves-a-ghost"


@pytest.fixture(scope="module")
def kafka() -> Iterator[SimulatedKafka]:
    with SimulatedKafka(brokers=3) as running_kafka:
        yield running_kafka


def run(kafka: SimulatedKafka, *args: str) -> int:
    return main(["scenario", "run", *args, "--on", kafka.bootstrap])


@pytest.mark.slow
def test_a_story_is_told_on_both_sides_and_cleaned_up(
    kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(kafka, "late-commit-leaves-a-ghost", "--mode", "TV2+", "--armed", "--yes") == 0
    output, error_output = capfd.readouterr()
    assert "topics, groups and transactional ids begin with txnsim-" in error_output
    assert "could not be cleaned" not in error_output
    assert output.rstrip().endswith("1 of 1 runs on real brokers agree with the simulator")
    topics = kafka.cluster.metadata.image.topics
    assert [topic_name for topic_name in topics if topic_name.startswith("txnsim-")] == []


@pytest.mark.slow
def test_ctrl_c_ends_what_is_open_and_deletes_the_topics(kafka: SimulatedKafka) -> None:
    """The story waits for a timeout when it is interrupted, with a transaction open."""
    arguments = ["scenario", "run", "z23", "--mode", "TV2+/before", "--armed", "--yes", "--json"]
    function_before = signal(
        SIGINT, default_int_handler
    )  # a shell in the background hands on that it ignores
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "txnsim", *arguments, "--on", kafka.bootstrap],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal(SIGINT, function_before)
    assert process.stderr is not None
    prefix = process.stderr.readline().split()[-1]
    kafka.transactions.wait_for_state(f"{prefix}app", "Ongoing")
    process.send_signal(SIGINT)
    output, error_output = process.communicate(timeout=SLOW_S)
    assert process.returncode == INTERRUPTED_STATUS, error_output
    assert "could not be cleaned" not in error_output
    assert [(cell["why_not"], cell["left"]) for cell in json.loads(output)] == [
        ("it was broken off", [])
    ]
    # The commit that the story had held is let go when it ends.
    end_states = ("Empty", "CompleteAbort", "CompleteCommit")
    kafka.transactions.wait_for_state(f"{prefix}app", *end_states, timeout_ms=1)
    topics = kafka.cluster.metadata.image.topics
    assert [topic_name for topic_name in topics if topic_name.startswith(prefix)] == []


@pytest.mark.slow
def test_what_is_left_is_told_with_its_command_and_is_no_success(
    capfd: pytest.CaptureFixture[str],
) -> None:
    args = ("late-commit-leaves-a-ghost", "--mode", "TV2+", "--armed", "--yes")
    with SimulatedKafka(brokers=3, settings={"delete.topic.enable": False}) as undeletable_kafka:
        assert run(undeletable_kafka, *args) == 1
        out, error_output = capfd.readouterr()
        assert run(undeletable_kafka, *args, "--json") == 1
        as_json, output = capfd.readouterr()
        prefix = error_output.splitlines()[0].split()[-1]
        server_option = f"--bootstrap-server {undeletable_kafka.bootstrap}"
    assert f"could not be cleaned: topic {prefix}t: " in out
    assert "TOPIC_DELETION_DISABLED" in out
    assert f"\n   kafka-topics.sh {server_option} --delete --topic {prefix}t\n" in out
    assert "1 of 1 runs on real brokers agree with the simulator" in out
    (cell,) = json.loads(as_json)
    (leftover,) = cell["left"]
    assert leftover.keys() == {"kind", "name", "why", "command"}
    assert (leftover["kind"], cell["agrees"]) == ("topic", True)
    assert leftover["command"] in output


@pytest.mark.slow
def test_a_story_whose_topics_are_refused_is_no_success(
    kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    args = ("late-commit-leaves-a-ghost", "--mode", "TV2+", "--armed", "--yes")
    policy = {"do": "error", "error": "POLICY_VIOLATION"}
    kafka.faults.arm(id="policy", point="client.request", api="CreateTopics", action=policy)
    try:
        assert run(kafka, *args) == 1
        output = capfd.readouterr().out
        assert run(kafka, *args, "--json") == 1
        (cell,) = json.loads(capfd.readouterr().out)
    finally:
        kafka.faults.disarm("policy")
    assert "POLICY_VIOLATION" in output
    assert output.rstrip().endswith("agree with the simulator; no verdict on 1")
    assert (cell["real"], cell["agrees"], cell["left"]) == (None, None, [])


def test_what_can_not_be_told_there_says_which_step_it_was(
    kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ("commit-without-a-leader", "--mode", "TV2/4.3", "--yes")
    assert run(kafka, *arguments, "--json") == 2
    output, error_output = capfd.readouterr()
    cells = json.loads(output)
    assert [cell["why_not"] for cell in cells] == [
        "step 1: it moves a leader of __transaction_state"
    ] * 3
    assert [cell["agrees"] for cell in cells] == [None] * 3
    # It said "0 of 0 runs agree", and ended with 0.
    assert (
        f"txnsim: nothing was played on {kafka.bootstrap}: step 1: it moves a leader of "
        "__transaction_state. Name a run of the story that fits with --mode"
    ) in error_output
    assert run(kafka, *arguments) == 2
    assert "agree" not in capfd.readouterr().out


def test_another_verdict_is_told_with_its_reason(
    kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    error_action = {"do": "error", "error": "INVALID_TXN_STATE"}
    kafka.faults.arm(id="refused", point="client.request", api="EndTxn", action=error_action)
    try:
        assert run(kafka, STORY, "--mode", "TV2+", "--armed", "--yes", "--quiet") == 1
    finally:
        kafka.faults.disarm("refused")
    output = capfd.readouterr().out
    assert "differs" in output
    assert "commit is answered INVALID_TXN_STATE" in output
    assert "0 of 1 runs on real brokers agree" in output


def test_modes_that_the_cluster_is_not_are_left_out(
    kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(kafka, "z01", "--armed", "--yes", "--json") == 0
    cells = {cell["run"]: cell for cell in json.loads(capfd.readouterr().out)}
    cluster = "transaction.version 2 with verification, strict markers (KIP-1228)"
    assert {cell_name: cell["why_not"] for cell_name, cell in cells.items()} == {
        **dict.fromkeys(("V-", "V+", "TV2"), f"not this cluster's generation: {cluster}"),
        "TV2+": "",
    }
    assert cells["TV2+"]["agrees"]


@pytest.mark.parametrize(("strike_count", "agrees"), [(1, True), (3, None)])
def test_brokers_in_trouble_are_not_accused_but_asked_again(
    strike_count: int, agrees: object, kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    error_action = {"do": "error", "error": "NOT_ENOUGH_REPLICAS"}
    kafka.faults.arm(
        id="busy", point="client.request", api="Produce", limit=strike_count, action=error_action
    )
    try:
        run(kafka, STORY, "--mode", "TV2+", "--armed", "--yes", "--json")
    finally:
        kafka.faults.disarm("busy")
    output, error_output = capfd.readouterr()
    (cell,) = json.loads(output)
    assert cell["agrees"] is agrees
    assert error_output.count("no verdict, brokers answer NOT_ENOUGH_REPLICAS") == strike_count
    expected_text = "" if agrees else "no verdict: brokers answer NOT_ENOUGH_REPLICAS, 3 times"
    assert cell["why_not"] == expected_text


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("127.0.0.1:1", "say --yes"),
        ("apache-4.3.1,127.0.0.1:1", "expected releases such as apache-4.4.0, or HOST:PORT"),
        ("kafka", "expected releases such as apache-4.4.0, or HOST:PORT"),
        ("apache-latest", "expected a release of Apache Kafka such as apache-4.4.0"),
    ],
)
def test_a_place_that_is_none_is_refused(
    address: str, complaint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", "run", "z01", "--on", address]) == 2
    assert complaint in capfd.readouterr().err


@pytest.mark.parametrize("option", [("--trace", "x"), ("--html", "x.html"), ("--inputs", "[]")])
def test_options_of_virtual_time_are_refused(
    option: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", "run", "z01", "--on", "apache-4.3.1", *option]) == 2
    assert f"{option[0]} has no effect with --on" in capfd.readouterr().err


def test_other_players_are_refused_where_sasl_is_wanted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="a" password="b";\n'
    )
    target_options = ("--on", "127.0.0.1:1", "--yes", "--command-config", str(config))
    arguments = [
        "scenario",
        "run",
        "z01",
        "--armed",
        "--mode",
        "V-",
        "--program",
        "true",
        *target_options,
    ]
    assert main(arguments) == 2
    assert "only our own client can log in by SASL" in capfd.readouterr().err


SCENARIO = late_produce()
WORLD = SCENARIO.runs["V-"]


def result(**changes: Any) -> RunResult:
    """The result of an armed run in V- that has the declared verdict."""
    usual_fields: dict[str, Any] = {
        "scenario": "late",
        "anomaly": "Z01",
        "run": "V-",
        "mode": "V-",
        "take": "armed",
        "seed": 7,
        "players": ("own client",),
        "verdict": finding(("lost-write",)),
        "cured": None,
        "story": (
            Sentence(at_ms=0, who="scenario", text="It begins.", is_narrated=True),
            Sentence(at_ms=12, who="t-0 (broker 1)", text="ABORT marker " + "word " * 20),
        ),
        "remarks": ("who said what",),
        "duration_ms": 5,
        "history": b"",
        "trace": b"",
    }
    return RunResult(**{**usual_fields, **changes})


def finding(
    observed_kinds: tuple[str, ...], *, expected: tuple[str, ...] | None = None
) -> JudgesResult:
    return JudgesResult(
        expected=observed_kinds if expected is None else expected,
        observed=observed_kinds,
        because=tuple(f"{observation_kind}: so it is" for observation_kind in observed_kinds),
    )


def test_a_story_has_its_sentences_its_events_and_its_verdict() -> None:
    sentences_said: set[str] = set()
    text = story_of(WORLD, result(cured=finding(())), printed_remarks=sentences_said)
    lines = text.splitlines()
    assert lines[0].startswith("── late V-: no verification")
    assert "Played by: own client." in " ".join(lines[:2])
    assert "It begins." in lines
    (event,) = [line for line in lines if line.startswith("    12 ms")]
    assert event.startswith("    12 ms  t-0 (broker 1): ABORT marker")
    assert all(len(line) <= 100 for line in lines)
    assert "(who said what)" in lines
    assert "Verdict: lost-write." in lines
    assert "After the cure: healthy." in lines
    disarmed_story = story_of(
        WORLD, result(take="disarmed", players=()), printed_remarks=sentences_said
    )
    assert "who said what" not in disarmed_story
    assert "fault not armed" in disarmed_story
    assert "control" in story_of(WORLD, result(take="control"), printed_remarks=sentences_said)


def test_a_table_says_what_differs_and_why() -> None:
    wrong_result = result(
        run="V+",
        verdict=finding((), expected=("duplicate",)),
        cured=finding(("lost-write",), expected=()),
    )
    lines = table_of([result(), wrong_result]).splitlines()
    rows = [[cell_text.strip() for cell_text in line.split("\t")] for line in lines[:3]]
    assert rows[0] == ["Scenario", "Run", "Fault", "Player", "Verdict", "Cured"]
    assert rows[1] == ["late", "V-", "armed", "own client", "lost-write", "", "as declared"]
    assert rows[2][-1] == "expected duplicate; healthy"
    assert lines[3:] == [
        "late V+, armed, seed 7: nothing was found",
        "late V+, armed, seed 7: lost-write: so it is",
    ]


def test_progress_is_a_line_and_facts_are_all_of_it() -> None:
    assert progress_of(result()) == "late V- armed: lost-write (5 ms)"
    undeclared_result = result(verdict=finding((), expected=("duplicate",)))
    assert progress_of(undeclared_result) == "late V- armed: healthy, not declared (5 ms)"
    facts = facts_of(result())
    assert facts["as_declared"] is True
    assert facts["seed"] == 7
    assert facts["cured"] is None


def test_no_kinds_are_healthy() -> None:
    assert (kinds_text(()), kinds_text(("a", "b"))) == ("healthy", "a, b")


def test_all_of_a_scenario_is_shown() -> None:
    file = Path("z.yaml")
    description = description_of(SCENARIO, file)
    for part in ("Goal: ", "Method: ", "Symptoms: ", "Control: ", "\nCure:\n1. ", "File: z.yaml"):
        assert part in description
    bare_description = description_of(small([{"advance": "1s"}]), file)
    assert "Cure:" not in bare_description
    assert "control" not in bare_description


@pytest.mark.slow
def test_a_new_story_is_sound_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["scenario", "new", "my-story"]) == 0
    printed_lines = capsys.readouterr().out.splitlines()
    for command in printed_lines[1:]:
        assert main([*command.split()[1:], "--json"]) == 0
    checked, ran_text = capsys.readouterr().out.split("\n[", 1)
    assert json.loads(checked)[0]["problems"] == []
    assert {run_row["take"] for run_row in json.loads("[" + ran_text)} == {"armed", "disarmed"}


@pytest.mark.parametrize("name", ["My Story", "a_b", "", "-a", "a/b"])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a name in lower case"):
        write(name, tmp_path)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    written_file = write("a.yaml", tmp_path)
    assert written_file == tmp_path / "a.yaml"
    written_file.write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        write("a", tmp_path)
    assert written_file.read_text() == "mine"
    with pytest.raises(ConfigError, match="No such file or directory"):
        write("a", tmp_path / "none")
