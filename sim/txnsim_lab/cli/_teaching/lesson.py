"""``txnsim lesson``: lessons about transactions, played in the terminal. The page plays the same
ones.
"""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.cli.output import TERMINAL, Columns
from txnsim.cli.parsing import MISUSE_STATUS, new_file
from txnsim.errors import ConfigError
from txnsim.files import write_whole
from txnsim.shell_text import arguments, command_line
from txnsim_lab.cli._scenario.output import event_lines
from txnsim_lab.cli._teaching.terminal_dialogue import (
    InputEndedError,
    LeftError,
    ask_choice,
    print_answer,
    print_filled,
    print_paragraphs,
    print_predictions,
)

if TYPE_CHECKING:
    from txnsim.trace.trace_file import Recording
    from txnsim_lab.scenario.driver_commands import Input, PlannedStep
    from txnsim_lab.scenario.runner import ScenarioRun
    from txnsim_lab.scenario.stage import RunningStory
    from txnsim_lab.scenario.teaching.lessons import BesideRun, Lesson, Part, StoryRun

LEFT_STATUS: Final = 1
DEMO_LESSON: Final = "demo"
"""The lesson that ``make demo`` plays."""
LESSON_COLUMNS: Final[Columns[dict[str, str]]] = {
    "Lesson": lambda lesson_row: lesson_row["id"],
    "Minutes": lambda lesson_row: lesson_row["minutes"],
    "Title": lambda lesson_row: lesson_row["title"],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Answers are read from standard input, one per line: a number, h for a hint, q to leave."
        " Exit status: 0 the lesson was played to its end, 1 it was left, 2 a misuse."
    )
    parser.add_argument("id", nargs="?", help="as L1; a list of all unless given")
    parser.add_argument(
        "--json", action="store_true", help="the list, or what was handed in, as JSON"
    )
    parser.add_argument(
        "--sheet", action="store_true", help="print the lesson as a sheet of paper, in Markdown"
    )
    parser.add_argument(
        "--answers", action="store_true", help="with --sheet: for the teacher, with all answers"
    )
    parser.add_argument(
        "--hand-in",
        type=new_file,
        metavar="FILE",
        help="write your predictions and how many goals you have reached, for your teacher",
    )
    parser.add_argument(
        "--handed-in",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="for the teacher: such files as a table",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: There is no such lesson, or ``--json`` is given with one.
    """
    from txnsim_lab.scenario.teaching.lessons import lesson, lessons

    if args.handed_in:
        return _read_handed_in(args)
    if args.id is None:
        all_lessons = lessons().values()
        lesson_rows = [
            {
                "id": listed_lesson.id,
                "minutes": str(listed_lesson.minutes),
                "title": listed_lesson.title,
            }
            for listed_lesson in all_lessons
        ]
        TERMINAL.tell(args, lesson_rows, LESSON_COLUMNS)
        return 0
    if args.json:
        raise ConfigError("--json is for the list of lessons, and for --handed-in")
    from txnsim.cli.event_log import set_up_logs  # structlog: slow to import

    set_up_logs(level="critical")  # brokers are broken on purpose: their errors are the story's
    if args.sheet:
        from txnsim_lab.cli._teaching.sheet import sheet

        TERMINAL.text(sheet(lesson(args.id), with_answers=args.answers))
        return 0
    chosen_lesson = lesson(args.id)
    if chosen_lesson.cluster is not None:
        if args.hand_in is not None:
            TERMINAL.complain(
                f"--hand-in: {chosen_lesson.id} is played on your own cluster: show it there"
            )
            return MISUSE_STATUS
        from txnsim_lab.cli._teaching.own_cluster import play

        return play(chosen_lesson)
    return _play_lesson(chosen_lesson, args.hand_in)


def _read_handed_in(args: argparse.Namespace) -> int:
    from txnsim_lab.cli._teaching import submission

    try:
        TERMINAL.tell(args, submission.table(args.handed_in), submission.COLUMNS)
    except ConfigError as error:
        TERMINAL.complain(error)
        return MISUSE_STATUS
    return 0


def _play_lesson(chosen_lesson: Lesson, hand_in_file: Path | None) -> int:
    from txnsim_lab.scenario.runner import run_in_virtual_time
    from txnsim_lab.scenario.teaching.lesson_solver import PlayedError

    TERMINAL.text(
        f"{chosen_lesson.title}\n"
        if chosen_lesson.id == DEMO_LESSON
        else f"{chosen_lesson.id}: {chosen_lesson.title}\n"
    )
    player = _LessonPlayer(chosen_lesson)
    status = 0
    try:
        while player.scenario_run is not None:
            player.prepare()
            try:
                run_in_virtual_time(player.scenario_run, pace=player)
            except PlayedError:
                continue
    except LeftError:
        TERMINAL.text("You have left the lesson.")
        status = LEFT_STATUS
    else:
        print_predictions(player.predictions)
    if hand_in_file is not None:
        from txnsim_lab.cli._teaching.submission import hand_in

        try:
            hand_in(hand_in_file, chosen_lesson.id, player.predictions, player.reached_goal_count)
        except ConfigError as error:
            TERMINAL.complain(error)
            return MISUSE_STATUS
    return status


class _LessonPlayer:
    """The pace of a lesson's story: stops it to ask the learner."""

    def __init__(self, chosen_lesson: Lesson) -> None:
        self._lesson = chosen_lesson
        self._player_part = -1
        self._part_is_open = False
        """Whether the part's events are still to come."""
        self._guessed_choice = ""
        self._sentence_count = 0
        """Number of sentences of the story so far."""
        self._inputs: list[Input] = []
        """The learner's inputs to the present story."""
        self._recording_beside_by_part: dict[int, Recording] = {}
        """Part -> the run that it is compared with."""
        self._first_part = 0
        """Number of the part that begins the present story."""
        self.predictions: list[bool] = []
        self.reached_goal_count = 0
        self.scenario_run = self._scenario_run(0)
        """The run to play next; None at the end of the lesson."""

    def _scenario_run(self, part_number: int) -> ScenarioRun | None:
        from txnsim_lab.scenario.teaching.lesson_solver import scenario_run_of

        return (
            None
            if part_number >= len(self._lesson.parts)
            else scenario_run_of(self._story_run(part_number))
        )

    def _story_run(self, part_number: int) -> StoryRun:
        return self._lesson.story_of(part_number)[0]

    def prepare(self) -> None:
        """Play the runs that this story is compared with beforehand, as a run occupies its whole
        thread.
        """
        story, _ = self._lesson.story_of(self._first_part)
        for part_number, part in enumerate(self._lesson.parts):
            is_same_story = self._lesson.story_of(part_number) == (story, self._first_part)
            if part.beside is not None and is_same_story:
                self._recording_beside_by_part[part_number] = _play_beside(story, part.beside)

    async def wait_before_step(self, running_story: RunningStory, step: PlannedStep) -> None:
        """Show the next part once the steps of the previous one have been played."""
        from txnsim_lab.scenario.teaching.lesson_solver import PlayedError

        parts = self._lesson.parts
        while not self._part_is_open or step.number >= parts[self._player_part].until:
            if self._part_is_open:
                self._reveal_answer(parts[self._player_part], running_story)
                self._part_is_open = False
            next_part = self._player_part + 1
            begins_story = next_part < len(parts) and parts[next_part].story is not None
            if next_part == len(parts) or (begins_story and next_part != self._first_part):
                self._sentence_count, self._inputs, self._first_part = 0, [], next_part
                self.scenario_run = self._scenario_run(next_part)
                raise PlayedError
            self._player_part = next_part
            if parts[next_part].goal:
                await self._reach_goal(parts[next_part], running_story, step.number)
            else:
                self._tell_part(parts[next_part])
                self._part_is_open = True

    def _tell_part(self, part: Part) -> None:
        print_filled(part.say)
        if part.watch:
            print_filled(f"Watch for: {part.watch}.")
        if not part.ask:
            try:
                ask_choice("Enter to go on", (), part.hints)
            except InputEndedError:  # no learner types: the lesson goes on
                TERMINAL.text("")
            return
        choice_keys = list(part.choices)
        TERMINAL.text("")
        print_filled(part.ask)
        self._guessed_choice = choice_keys[
            ask_choice("Your prediction", list(part.choices.values()), part.hints)
        ]

    def _reveal_answer(self, part: Part, running_story: RunningStory) -> None:
        from txnsim_lab.scenario.teaching.lesson_solver import recording_so_far
        from txnsim_lab.scenario.teaching.trace_facts import fact

        if part.fact:
            answer_key = fact(recording_so_far(running_story), part.fact)
            self.predictions.append(print_answer(part, self._guessed_choice, answer_key))
        if part.shows:
            self._show_events(running_story)
        if part.beside is not None:
            self._compare_runs(part, running_story)
        print_paragraphs(part.then)

    def _show_events(self, running_story: RunningStory) -> None:
        from txnsim.trace.story import story
        from txnsim_lab.scenario.teaching.lesson_solver import recording_so_far

        recording = recording_so_far(running_story)
        sentences = [
            sentence
            for sentence in story(recording.events, recording.nodes)
            if not sentence.is_narrated
        ]
        for sentence in sentences[self._sentence_count :]:
            TERMINAL.text("\n".join(event_lines(sentence)))
        self._sentence_count = len(sentences)

    def _compare_runs(self, part: Part, running_story: RunningStory) -> None:
        """Show facts of this run and of another one in two columns."""
        from txnsim_lab.scenario.teaching.lesson_solver import recording_so_far
        from txnsim_lab.scenario.teaching.trace_facts import fact, fact_text

        assert part.beside is not None
        recordings_by_run = {
            part.beside.run: self._recording_beside_by_part[self._player_part],
            self._story_run(self._player_part).run: recording_so_far(running_story),
        }
        TERMINAL.text(f"\n{'':<38}" + "".join(f"{run_name:<25}" for run_name in recordings_by_run))
        for fact_words in part.beside.facts:
            values_text = "".join(
                f"{fact(recording, fact_words):<25}" for recording in recordings_by_run.values()
            )
            TERMINAL.text(f"{fact_text(fact_words):<38}{values_text}")
        TERMINAL.text("")

    async def _reach_goal(self, part: Part, running_story: RunningStory, step_number: int) -> None:
        from txnsim.errors import ClientError
        from txnsim_lab.scenario.call_results import StoryFailedError
        from txnsim_lab.scenario.driver_commands import Input
        from txnsim_lab.scenario.repeated_inputs import do_input
        from txnsim_lab.scenario.scenario_reader import read_step
        from txnsim_lab.scenario.teaching.lesson_solver import recording_so_far
        from txnsim_lab.scenario.teaching.lessons import reaches_goal

        print_filled(part.say)
        while True:
            chosen_action = part.actions[
                ask_choice("What do you do?", [action.text for action in part.actions], part.hints)
            ]
            try:
                for step in chosen_action.steps:
                    await do_input(running_story, read_step(step))
                    self._inputs.append(Input(before=step_number, step=step))
            except (ClientError, ConfigError, StoryFailedError) as error:
                TERMINAL.text(f"\nThat can't be done now: {error}.")
                continue
            if reaches_goal(part, recording_so_far(running_story)):
                TERMINAL.text("\nGoal reached.")
                self.reached_goal_count += 1
                print_paragraphs(part.then)
                break
            TERMINAL.text(f"\nNot yet. {chosen_action.then}")
        if part.saves:
            self._save_story(part)

    def _save_story(self, part: Part) -> None:
        from txnsim_lab.scenario.saved_story import story_with_inputs

        story_name = f"my-{self._lesson.id.lower()}"
        try:
            typed_name = input(
                f"Save it as a story of your own? (Enter: {story_name}.yaml, n for no): "
            ).strip()
        except EOFError:
            return
        if typed_name.lower() in ("n", "no", "q"):
            return
        path = Path(typed_name or f"{story_name}.yaml")
        assert self.scenario_run is not None
        story_text = story_with_inputs(
            self.scenario_run.scenario,
            self.scenario_run.run,
            self.scenario_run.take,
            self._inputs,
            story_name=story_name,
            verdict=part.saves,
        )
        try:
            write_whole(path, story_text)
        except ConfigError as error:
            TERMINAL.text(str(error))
            return
        command = command_line(
            "txnsim", "scenario", "run", *arguments(str(path), options=["--armed"])
        )
        TERMINAL.text(f"Play it again: {command}\n")


class _StopAtStep:
    """The pace of a story that is played up to a step."""

    def __init__(self, step_number: int) -> None:
        self._step_number = step_number
        self.recording_at_step: Recording | None = None

    async def wait_before_step(self, running_story: RunningStory, step: PlannedStep) -> None:
        """Take the trace and end the run at the wanted step."""
        from txnsim_lab.scenario.teaching.lesson_solver import PlayedError, recording_so_far

        if step.number == self._step_number:
            self.recording_at_step = recording_so_far(running_story)
            raise PlayedError


def _play_beside(story: StoryRun, beside_run: BesideRun) -> Recording:
    from txnsim_lab.scenario.runner import run_in_virtual_time
    from txnsim_lab.scenario.teaching.lesson_solver import PlayedError, scenario_run_of

    pace = _StopAtStep(beside_run.until)
    story_beside = msgspec.structs.replace(story, run=beside_run.run)
    with contextlib.suppress(PlayedError):
        run_in_virtual_time(scenario_run_of(story_beside), pace=pace)
    assert pace.recording_at_step is not None
    return pace.recording_at_step
