"""A lesson on the learner's own cluster. The cluster is started for the lesson, as by ``txnsim
serve --ui`` or ``txnsim practise DIR …``, and ends with it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.cli.control.port import ControlPort
from txnsim.cli.output import TERMINAL
from txnsim.errors import ConfigError
from txnsim.files import place_when_whole, write_whole
from txnsim_lab.cli._teaching.terminal_dialogue import (
    LeftError,
    ask_choice,
    print_answer,
    print_filled,
    print_paragraphs,
    print_predictions,
)

if TYPE_CHECKING:
    from txnsim.faults.rule import FaultRule
    from txnsim_lab.scenario.teaching.lessons import Lesson, Part

LEFT_STATUS: Final = 1
LOGS_FOLDER: Final = "l11-logs"
"""Folder in the working directory for the log directories of ``practise``."""
_START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 20.0
_TXNSIM: Final = (sys.executable, "-m", "txnsim")
_ON_FREE_PORTS: Final = ("--port", "0", "--http", "0")


def play(lesson: Lesson) -> int:
    """Play a lesson to its end; returns the exit status.

    Raises:
        ConfigError: The cluster can't be started.
        ControlPortError: The cluster does not answer.
    """
    TERMINAL.text(f"{lesson.id}: {lesson.title}\n")
    with _running_cluster(lesson) as control_port:
        begin_answer = control_port.post("lessons", lesson.id, "begin", body={})
        TERMINAL.text(f"Your cluster: bootstrap.servers={begin_answer['bootstrap']}")
        TERMINAL.text(
            f"Its page:     {control_port.url}/#lesson={lesson.id}&part=0 plays this lesson, too\n"
        )
        player = _OwnClusterPlayer(lesson, control_port, begin_answer["bootstrap"])
        try:
            for part_number in range(len(lesson.parts)):
                player.play_part(part_number)
        except LeftError:
            TERMINAL.text("You have left the lesson.")
            return LEFT_STATUS
        print_predictions(player.predictions)
    return 0


class _OwnClusterPlayer:
    """Plays the parts of a lesson with the learner."""

    def __init__(self, lesson: Lesson, control_port: ControlPort, bootstrap: str) -> None:
        self._lesson = lesson
        self._control_port = control_port
        self._bootstrap = bootstrap
        self.predictions: list[bool] = []

    def play_part(self, part_number: int) -> None:
        """Play one part to its end."""
        part = self._lesson.parts[part_number]
        print_filled(self._fill_addresses(part.say))
        if part.code:
            TERMINAL.text(f"\n{self._fill_addresses(part.code)}")
            if part.file:
                _offer_file(part)
        if part.goal:
            self._reach_goal(part, part_number)
        else:
            self._show_part(part, part_number)
        print_paragraphs(self._fill_addresses(part.then))

    def _fill_addresses(self, text: str) -> str:
        from txnsim_lab.scenario.teaching.lessons import fill_addresses

        return fill_addresses(text, bootstrap=self._bootstrap, http=self._control_port.url)

    def _show_part(self, part: Part, part_number: int) -> None:
        choice_keys = list(part.choices)
        guess = ""
        if part.ask:
            TERMINAL.text("")
            print_filled(part.ask)
            guess = choice_keys[
                ask_choice("Your prediction", list(part.choices.values()), part.hints)
            ]
        self._change_faults(part.arms, part.disarms)
        if part.advance_ms:
            self._control_port.post("clock", body={"advance_ms": part.advance_ms})
        if part.do:
            TERMINAL.text("")
            print_filled(self._fill_addresses(part.do))
            ask_choice("Enter when it is done", (), ())
        elif not part.ask:
            ask_choice("Enter to go on", (), part.hints)
        if part.ask:
            self.predictions.append(
                print_answer(part, guess, self._part_state(part_number)["answer"]["key"])
            )

    def _reach_goal(self, part: Part, part_number: int) -> None:
        while True:
            choices = [self._fill_addresses(action.text) for action in part.actions]
            shown_hints = [self._fill_addresses(hint) for hint in part.hints]
            chosen_action = part.actions[ask_choice("What do you do?", choices, shown_hints)]
            self._change_faults(chosen_action.arms, ())
            part_state = self._part_state(part_number)
            if part_state["met"]:
                TERMINAL.text("\nGoal reached.")
                return
            TERMINAL.text("\nNot yet.")
            print_filled(self._fill_addresses(chosen_action.then))
            for goal_fact in part_state["goal"]:
                is_met = goal_fact["found"] == goal_fact["wanted"]
                wanted_phrase = "" if is_met else f"; wanted: {goal_fact['wanted']}"
                TERMINAL.text(
                    f"  {'✓' if is_met else '✕'} {goal_fact['fact']}: {goal_fact['found']}"
                    f"{wanted_phrase}"
                )
            for reason_line in part_state["because"]:
                TERMINAL.text(f"    {reason_line}")

    def _part_state(self, part_number: int) -> Any:
        return self._control_port.get("lessons", self._lesson.id, "parts", part_number, "now")

    def _change_faults(self, arms: Sequence[FaultRule], disarms: Sequence[str]) -> None:
        """Disarms and arms fault rules of the lesson; a rule that is armed already is replaced."""
        armed_ids = {fault["rule"]["id"] for fault in self._control_port.get("faults")}
        for rule_id in (*disarms, *(fault_rule.id for fault_rule in arms)):
            if rule_id in armed_ids:
                self._control_port.delete("faults", rule_id)
        for fault_rule in arms:
            self._control_port.post("faults", body=msgspec.to_builtins(fault_rule))


def _offer_file(part: Part) -> None:
    """Offers to save the code as a file."""
    try:
        typed_name = input(f"Save it to begin with? (Enter: {part.file}, n for no): ").strip()
    except EOFError:
        return
    if typed_name.lower() in ("n", "no", "q"):
        return
    try:
        write_whole(Path(typed_name or part.file), part.code)
    except ConfigError as error:
        TERMINAL.text(str(error))


# The cluster


@contextlib.contextmanager
def _running_cluster(lesson: Lesson) -> Iterator[ControlPort]:
    """Start the lesson's cluster, and yield its control port; the cluster ends with the lesson."""
    assert lesson.cluster is not None
    serve_arguments = ["serve", "--ui"]
    if lesson.cluster.loads:
        serve_arguments += ["--clock-at", "stopped", "--load", *map(str, _log_directories())]
    with _running_command(*serve_arguments) as control_port:
        yield control_port


def _log_directories() -> list[Path]:
    """The log directories of a stopped practice cluster; creates them if they are missing."""
    logs_folder = Path(LOGS_FOLDER)
    if not logs_folder.exists():
        TERMINAL.text(
            f"A cluster of `txnsim practise` leaves its log directories in {logs_folder} …"
        )
        with (
            place_when_whole(logs_folder) as new_folder,
            _running_command("practise") as control_port,
        ):
            command = [*_TXNSIM, "logs", "write", str(new_folder), "--http", control_port.url]
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            if process.returncode:
                raise ConfigError(f"{logs_folder}: {process.stderr.strip()}")
    return sorted(logs_folder.iterdir())


@contextlib.contextmanager
def _running_command(*arguments: str) -> Iterator[ControlPort]:
    """Run a serving command on free ports, and yield its control port when it is ready."""
    with tempfile.TemporaryDirectory(prefix="txnsim-lesson-") as directory:
        ready_file, log_file = Path(directory, "ready.json"), Path(directory, "log")
        command = [*_TXNSIM, *arguments, *_ON_FREE_PORTS, "--ready-file", str(ready_file)]
        with log_file.open("wb") as log_output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log_output, stderr=subprocess.STDOUT
            )
        try:
            _await_ready(process, ready_file, log_file)
            ready_facts = json.loads(ready_file.read_text("utf-8"))
            yield ControlPort(str(ready_facts["http"]).rstrip("/"), token=ready_facts.get("token"))
        finally:
            process.terminate()
            try:
                process.wait(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_ready(process: subprocess.Popen[bytes], ready_file: Path, log_file: Path) -> None:
    """Wait until the ready file exists."""
    for _ in range(int(_START_SECONDS / _POLL_SECONDS)):
        if ready_file.exists():
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_POLL_SECONDS)
            break
    raise ConfigError(
        f"the lesson's cluster did not start:\n{log_file.read_text('utf-8', 'replace')}"
    )
