"""``txnsim scenario``: lists, shows and runs stories about transactions."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from txnsim.cli.output import TERMINAL, Columns
from txnsim.cli.parsing import MISUSE_STATUS, new_file, new_folder
from txnsim.cli.progress import Progress
from txnsim.errors import ConfigError
from txnsim.files import problem_of, write_whole
from txnsim.shell_text import arguments, command_line
from txnsim.text import unknown_word_message
from txnsim_lab.cli._scenario import on_real_brokers
from txnsim_lab.cli._scenario.matrix import matrix_of
from txnsim_lab.cli._scenario.output import (
    description_of,
    facts_of,
    progress_of,
    story_of,
    table_of,
)
from txnsim_lab.cli._traces import html_file
from txnsim_lab.scenario.catalog import find, heads, scenarios

if TYPE_CHECKING:
    from txnsim_lab.scenario.model import Scenario
    from txnsim_lab.scenario.repeated_inputs import GivenInputs
    from txnsim_lab.scenario.runner import RunResult, ScenarioRun


DIFFERENT_STATUS: Final = 1
LIST_COLUMNS: Final[Columns[dict[str, Any]]] = {
    "Scenario": lambda scenario_row: scenario_row["name"],
    "Alias": lambda scenario_row: ", ".join(scenario_row["aliases"]),
    "Title": lambda scenario_row: scenario_row["title"],
}
TAKES: Final = ("armed", "disarmed", "control")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status: 0 every verdict is the declared one, 1 one differs, 2 a wrong argument or "
        "scenario file."
    )
    subcommands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_parser = subcommands.add_parser("list", help="the scenarios that come with txnsim")
    list_parser.add_argument("--json", action="store_true", help="as JSON")
    show_parser = subcommands.add_parser(
        "show", help="the YAML of one scenario, to read or to begin with"
    )
    show_parser.add_argument("name", help="a scenario's name or alias, or a YAML file")
    output_form = show_parser.add_mutually_exclusive_group()
    output_form.add_argument(
        "--summary", action="store_true", help="goal, method, steps and verdicts in words instead"
    )
    output_form.add_argument("--json", action="store_true", help="as JSON")
    new_parser = subcommands.add_parser(
        "new", help="write NAME.yaml: a story that runs, with comments"
    )
    new_parser.add_argument(
        "name", metavar="NAME", help="lower case with hyphens, as in late-answer"
    )
    check_parser = subcommands.add_parser(
        "check", help="whether files are sound scenarios, without a run"
    )
    check_parser.add_argument("name", nargs="+", help="a YAML file, or a scenario's name; several")
    check_parser.add_argument("--json", action="store_true", help="as JSON")
    run_parser = subcommands.add_parser("run", help="play stories and judge them")
    run_parser.add_argument(
        "name", nargs="+", help="a scenario's name or alias, or a YAML file; several"
    )
    _run_options(run_parser)
    choice_group = run_parser.add_argument_group("which runs")
    run_choice = choice_group.add_mutually_exclusive_group()
    run_choice.add_argument("--armed", action="store_true", help="only with the fault")
    run_choice.add_argument(
        "--disarmed", action="store_true", help="only without the fault, to see the difference"
    )
    run_choice.add_argument(
        "--control", action="store_true", help="only what looks like the anomaly and is none"
    )
    run_parser.add_argument(
        "--inputs",
        metavar="JSON",
        help="what was done to the run besides its story, as the page gives it (Share); one run"
        " and one take",
    )
    _player_options(run_parser.add_argument_group("player"))
    run_parser.add_argument("--quiet", action="store_true", help="the table only")
    matrix_parser = subcommands.add_parser(
        "matrix", help="run every scenario in every mode: anomaly by mode, expected and observed"
    )
    _run_options(matrix_parser)
    matrix_parser.set_defaults(
        armed=False, disarmed=False, control=False, quiet=True, real=False, player=None,
        program=None, inputs=None,
    )  # fmt: skip


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mode",
        action="append",
        default=[],
        metavar="MODE",
        help="only this mode, or this run of a scenario; may be repeated",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of all chance: same seed, same trace (1)"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="each with the seeds 1 to N; the first that differs is shown",
    )
    parser.add_argument(
        "--trace", type=new_folder, metavar="DIR", help="write each run's trace there"
    )
    parser.add_argument(
        "--history",
        type=new_folder,
        metavar="DIR",
        help="write there what the clients saw in each run, which is what is judged",
    )
    parser.add_argument("--json", action="store_true", help="verdicts as JSON")
    parser.add_argument("--html", type=new_file, metavar="FILE", help=html_file.HTML_HELP)
    parser.add_argument("--open", action="store_true", help=html_file.OPEN_HELP)
    parser.add_argument("--redact", action="store_true", help=html_file.REDACT_HELP)
    on_real_brokers.add_arguments(parser)


def _player_options(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--real",
        action="store_true",
        help="over TCP and in real time, with a stock client as the application where one is "
        "installed; in virtual time and with our own client unless given",
    )
    player_group = parser.add_mutually_exclusive_group()
    player_group.add_argument(
        "--player",
        help="what plays the application: own, kafka-python; implies --real",
    )
    player_group.add_argument(
        "--program",
        metavar="COMMAND",
        help="a program that plays the application: called with bootstrap, transactional id, "
        "topic, partition and timestamp, prints what it sees as JSON lines; implies --real",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    from txnsim.cli.event_log import set_up_logs  # structlog: slow to import

    set_up_logs(level="error")  # what else happens in a story is said by the story
    match args.action:
        case "list":
            return _list_scenarios(args)
        case "show":
            return _show_scenario(args)
        case "new":
            return _write_new_scenario(args)
        case "check":
            return _check_scenarios(args)
        case "run":
            return _run_scenarios(
                tuple(find(scenario_name)[1] for scenario_name in args.name),
                args,
                format_table=table_of,
            )
        case _:
            every_scenario = sorted(
                scenarios().values(), key=lambda scenario: (scenario.anomaly, scenario.aliases)
            )
            return _run_scenarios(every_scenario, args, format_table=matrix_of)


# list, show


def _list_scenarios(args: argparse.Namespace) -> int:
    scenario_rows = [
        {
            "name": scenario_head["name"],
            "aliases": scenario_head.get("aliases", []),
            "animal": scenario_head.get("anomaly", ""),
            "title": scenario_head["title"],
            "runs": list(scenario_head["runs"]),
        }
        for scenario_head in heads()
    ]
    TERMINAL.tell(args, scenario_rows, LIST_COLUMNS)
    return 0


def _show_scenario(args: argparse.Namespace) -> int:
    path, scenario = find(args.name)
    if args.json:
        TERMINAL.json(scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True))
    elif args.summary:
        TERMINAL.text(description_of(scenario, path))
    else:
        TERMINAL.line(f"# {path}")
        TERMINAL.text(path.read_text("utf-8").rstrip("\n"))
    return 0


def _write_new_scenario(args: argparse.Namespace) -> int:
    path = write(args.name)
    TERMINAL.line(f"{path}: a story that runs; its comments say how to go on")
    TERMINAL.line(f"  {command_line('txnsim', 'scenario', 'check', *arguments(str(path)))}")
    TERMINAL.line(f"  {command_line('txnsim', 'scenario', 'run', *arguments(str(path)))}")
    return 0


def _check_scenarios(args: argparse.Namespace) -> int:
    """Check every file, even after a wrong one."""
    checked_files: list[dict[str, Any]] = []
    wrong_count = 0
    for scenario_name in args.name:
        try:
            path, scenario = find(scenario_name)
        except ConfigError as error:
            wrong_count += 1
            checked_files.append({"file": scenario_name, "problems": str(error).splitlines()})
            continue
        run_count = len(scenario.runs) * len(scenario.takes)
        checked_files.append(
            {"file": str(path), "name": scenario.name, "tellings": run_count, "problems": []}
        )
    if args.json:
        TERMINAL.json(checked_files)
    else:
        for checked_file in checked_files:
            for problem in checked_file["problems"]:
                TERMINAL.complain(problem)
            if not checked_file["problems"]:
                TERMINAL.line(
                    f"{checked_file['file']}: {checked_file['name']} is sound,"
                    f" {checked_file['tellings']} runs"
                )
    return MISUSE_STATUS if wrong_count else 0


# run, matrix


def _run_scenarios(
    chosen_scenarios: Sequence[Scenario],
    args: argparse.Namespace,
    *,
    format_table: Callable[[Sequence[RunResult]], str],
) -> int:
    planned_runs = _plan_runs(chosen_scenarios, args)
    if args.on is not None:
        return _run_on_real_brokers(planned_runs, args)
    for directory in (args.trace, args.history):
        _make_directory(directory)
    run_results = _run_here(planned_runs, args)
    _show_page(run_results, args)
    TERMINAL.tell(
        args, [facts_of(result) for result in run_results], lambda _: format_table(run_results)
    )
    return 0 if all(result.as_declared for result in run_results) else DIFFERENT_STATUS


def _run_on_real_brokers(planned_runs: Sequence[ScenarioRun], args: argparse.Namespace) -> int:
    from txnsim_lab.scenario.players.casting import Casting
    from txnsim_lab.scenario.runner import casts_of

    for option_name in ("trace", "history", "html", "inputs", "seeds"):
        if getattr(args, option_name) is not None:
            raise ConfigError(f"--{option_name} has no effect with --on")
    casting = Casting(player=args.player or "own", program=args.program)
    for scenario_run in planned_runs:
        if any(actor.plays == "application" for actor in scenario_run.scenario.actors.values()):
            casts_of(
                scenario_run, casting
            )  # a wish that can't be granted is refused before any run
    compared_runs = on_real_brokers.run(planned_runs, casting, args)
    is_well = all(compared_run.agrees and not compared_run.left for compared_run in compared_runs)
    return 0 if is_well else DIFFERENT_STATUS


def _plan_runs(chosen_scenarios: Sequence[Scenario], args: argparse.Namespace) -> list[ScenarioRun]:
    from txnsim_lab.scenario.runner import ScenarioRun

    chosen_takes = [take for take in TAKES if getattr(args, take)] or list(TAKES)
    planned_runs = [
        ScenarioRun(scenario=scenario, run=run_name, take=take)
        for scenario in chosen_scenarios
        for run_name in _run_names_of(scenario, args, is_only_scenario=len(chosen_scenarios) == 1)
        for take in chosen_takes
        if take in scenario.takes
    ]
    if not planned_runs:
        mode_names = " or ".join(args.mode) or "a control"
        raise ConfigError(f"no scenario has {mode_names}")
    return planned_runs


def _run_names_of(
    scenario: Scenario, args: argparse.Namespace, *, is_only_scenario: bool
) -> list[str]:
    run_and_mode_names = [
        *scenario.runs,
        *(declared_run.mode for declared_run in scenario.runs.values()),
    ]
    for mode in args.mode:
        if is_only_scenario and mode not in run_and_mode_names:
            problem_sentence = unknown_word_message("mode", mode, dict.fromkeys(run_and_mode_names))
            raise ConfigError(f"{scenario.name}: {problem_sentence}")
    run_names = [
        run_name
        for run_name, declared_run in scenario.runs.items()
        if not args.mode or run_name in args.mode or declared_run.mode in args.mode
    ]
    playable_names = [
        run_name
        for run_name in run_names
        if args.player is None or _can_play(scenario, run_name, args.player)
    ]
    if args.mode or not playable_names:
        return run_names  # who can't play what was asked for is refused
    for run_name in run_names:
        if run_name not in playable_names:
            TERMINAL.warn(f"{scenario.name} {run_name}: left out, {args.player} can't play there")
    return playable_names


def _can_play(scenario: Scenario, run_name: str, player: str) -> bool:
    able_players = scenario.runs[run_name].players
    return all(
        player in actor.players and (able_players is None or player in able_players)
        for actor in scenario.actors.values()
        if actor.plays == "application"
    )


def _run_here(planned_runs: Sequence[ScenarioRun], args: argparse.Namespace) -> list[RunResult]:
    from txnsim.runtime import real_world
    from txnsim_lab.scenario.players.casting import Casting
    from txnsim_lab.scenario.runner import casts_of, run_in_real_time

    casting = Casting(player=args.player, program=args.program)
    is_in_real_time = args.real or args.player is not None or args.program is not None
    if is_in_real_time:
        for scenario_run in planned_runs:
            casts_of(
                scenario_run, casting
            )  # a wish that can't be granted is refused before any run
    if args.seeds is not None and (is_in_real_time or args.inputs is not None or args.seeds < 1):
        raise ConfigError("--seeds needs a number from 1 on, virtual time, and no --inputs")
    given_inputs = _given_inputs_of(planned_runs, args, is_in_real_time=is_in_real_time)
    run_results = []
    printed_remarks: set[str] = set()
    progress = Progress("runs", len(planned_runs))
    different_count = 0
    for run_number, scenario_run in enumerate(planned_runs, 1):
        run_result = (
            real_world.run(run_in_real_time(scenario_run, casting))
            if is_in_real_time
            else _run_simulated(scenario_run, args, given_inputs)
        )
        run_results.append(run_result)
        _write_run_file(args.trace, run_result, "jsonl", run_result.trace)
        _write_run_file(args.history, run_result, "history.jsonl", run_result.history)
        if args.quiet or args.json:
            different_count += not run_result.as_declared
            progress.advance(
                run_number, progress_of(run_result), f"{different_count} not as declared"
            )
        elif scenario_run.take == "armed" or args.disarmed or args.control:
            declared_run = scenario_run.scenario.runs[scenario_run.run]
            TERMINAL.text(story_of(declared_run, run_result, printed_remarks=printed_remarks))
        progress.count(run_number)
    progress.end()
    return run_results


def _run_simulated(
    scenario_run: ScenarioRun, args: argparse.Namespace, given_inputs: GivenInputs | None
) -> RunResult:
    """Play the run with each seed; returns the first result that differs from the declared one, or
    else the last.
    """
    from txnsim_lab.scenario.runner import run_in_virtual_time

    seeds = [args.seed] if args.seeds is None else range(1, args.seeds + 1)
    for seed in seeds:
        run_result = run_in_virtual_time(scenario_run, seed=seed, pace=given_inputs)
        if not run_result.as_declared:
            break
    return run_result


def _given_inputs_of(
    planned_runs: Sequence[ScenarioRun], args: argparse.Namespace, *, is_in_real_time: bool
) -> GivenInputs | None:
    if args.inputs is None:
        return None
    from txnsim_lab.scenario.repeated_inputs import GivenInputs, inputs_of

    if len(planned_runs) != 1 or is_in_real_time:
        raise ConfigError("--inputs needs one run and one take in virtual time: name them")
    return GivenInputs(inputs_of(args.inputs))


# Files


def _show_page(run_results: Sequence[RunResult], args: argparse.Namespace) -> None:
    if args.html is None and not args.open:
        return
    from txnsim.trace.trace_file import Recording

    titled_recordings = [
        (
            f"{result.scenario} {result.run} {result.take}",
            Recording.from_lines("the trace", result.trace.splitlines()),
        )
        for result in run_results
    ]
    if args.html is not None:
        html_file.write(args.html, titled_recordings, redacts=args.redact)
    if args.open:
        html_file.show(titled_recordings, redacts=args.redact)


def _make_directory(directory: Path | None) -> None:
    if directory is None:
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory}: {problem_of(error)}") from None


def _write_run_file(directory: Path | None, result: RunResult, suffix: str, content: bytes) -> None:
    if directory is None:
        return
    run_name = result.run.replace("/", "-")
    path = directory / f"{result.scenario}.{run_name}.{result.take}.{suffix}"
    write_whole(path, content)


# ``txnsim scenario new``: the first file of an author. It is sound, it runs, and its comments say
# what to change.

_NAME_RE: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

SCENARIO_TEMPLATE: Final = """\
# A story about a transaction. Every field: docs/writing-scenarios.md.
# Check it: txnsim scenario check NAME.yaml      Run it: txnsim scenario run NAME.yaml
name: NAME
title: The answer to a commit is late
goal: See that a transaction is decided before its producer gets the answer.
method: The answer to EndTxn is held on its way to the producer until all have looked.

# The cluster: topics with their numbers of partitions. `brokers: 1` makes it smaller.
topics:
  orders: 1

# Who takes part, beside the reader, the bystander and the operator that are always there.
# `plays: wire` sends single requests, in any order; `plays: application` is a client library.
actors:
  shop: {plays: wire, transactional-id: shop}

# In which worlds it is played, and what it must come to in each of them: `healthy`, or the kinds of
# anomalies that the judges must find (docs/checkers.md). A first run shows what they find.
#   V-   no verification (before Kafka 3.6)      V+   verification, transaction.version 1
#   TV2  transactions v2 (Kafka 4.0 and later)
runs:
  V+: {mode: V+, verdict: healthy}
  TV2: {mode: TV2, verdict: healthy}

# What happens, in order. Nothing sleeps: a step waits until its condition holds.
# `only: armed` keeps a step for the run with the fault; without the fault it is left out.
steps:
  - call: {who: shop, do: init-producer-id}
  - say: The shop writes an order in a transaction.
    call: {who: shop, do: begin}
  - call: {who: shop, do: add-partitions, partitions: orders-0}
  - call: {who: shop, do: produce, partition: orders-0, value: first, offset: 0}

  # A fault: where (docs/fault-points.md), whose requests, and what happens to them. `hold` waits
  # for a `release`; `arm` takes any other action, as in {id: x, point: …, action: {do: drop}}.
  - say: The answer to its commit will be held.
    hold: {id: late-answer, point: client.response, api: EndTxn, transactional_id: shop}
  - call: {who: shop, do: commit, background: commit} # goes on at once; awaited below
  - wait-until: {struck: late-answer}

  - say: The coordinator has decided all the same, and readers have the record.
    wait-until: {transaction: {id: shop, is: [CompleteCommit, Empty]}}
  - wait-until: {marker: orders-0}
  - call: {who: reader, do: read, partition: orders-0, reads: [first]}

  - say: Now the shop gets the answer.
    release: late-answer
  - await: commit
"""


def write(scenario_name: str, directory: Path | None = None) -> Path:
    """Write a new scenario file of that name.

    Raises:
        ConfigError: The name is wrong, or the file exists already.
    """
    scenario_name = scenario_name.removesuffix(".yaml")
    if not _NAME_RE.fullmatch(scenario_name):
        raise ConfigError(
            f"{scenario_name}: expected a name in lower case with hyphens, as in late-answer"
        )
    path = (directory or Path()) / f"{scenario_name}.yaml"
    if path.exists():
        raise ConfigError(f"{path} exists already; choose another name")
    write_whole(path, SCENARIO_TEMPLATE.replace("NAME", scenario_name))
    return path
