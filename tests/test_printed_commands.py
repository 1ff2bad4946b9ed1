"""Every kind of command that is printed for somebody to paste, with names that clients choose.

Each command goes through real shells, many in a script, with functions in the place of the programs
that record their arguments. These are read by the parser of our command line: each name arrives as
it was chosen, and no name runs, ends or opens anything by itself. Ten thousand drawn names, through
each kind: ``pytest -m thorough tests/test_printed_commands.py``.
"""

from __future__ import annotations

import argparse
import inspect
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.alone import ROOT
from tests.support.hostile_names import HOSTILE_NAMES, names_from_outside
from txnsim.cli import _groups
from txnsim.cli.control import _faults
from txnsim.cli.main import parser_of
from txnsim.shell_text import ShellText
from txnsim.text import printable
from txnsim.txn import decision_report
from txnsim.txn.open_txn_verdict import OpenTxnStatus, program_at, why_command
from txnsim.types import TopicPartition
from txnsim.verdict import words
from txnsim_lab.cli import _exam
from txnsim_lab.exam import results
from txnsim_lab.target.cleaning import Cleaner
from txnsim_spark.forensics import findings

Parts = Mapping[str, Any]
"""Option, or place of an argument -> what it has to be."""

NAMES_AT_ONCE: Final = 100
"""Names of a script: a shell starts once for them."""


def _named(**fields: object) -> Any:
    return argparse.Namespace(**fields)


def _cleaner() -> Cleaner:
    cleaner = Cleaner.__new__(Cleaner)
    cleaner._cluster_options = ("--bootstrap-server", "broker:9092")
    return cleaner


def _hanging(name: str) -> ShellText:
    partition = TopicPartition(name, 3)
    command = OpenTxnStatus.HANGING.repair_command(partition, program=program_at(name))
    assert command is not None
    return command


def _records(name: str) -> ShellText:
    concerned = decision_report.RecordsConcerned(
        first_offset=5, last_offset=7, records=3, ended_at=8, ended_by_commit=True
    )
    return decision_report.records_command(TopicPartition(name, 3), concerned)


def _abort(name: str, kind: str) -> ShellText:
    txn = _named(producer_id=1, producer_epoch=2, coordinator_epoch=None, start_offset=4)
    commands = findings.abort_commands(txn, TopicPartition(name, 3), name)
    return ShellText(getattr(commands, kind))


class PrintedCommand:
    """A kind of printed command."""

    def __init__(
        self, make: Callable[[str], ShellText], *, topic: Sequence[str], partition: object = None
    ) -> None:
        """Describe it.

        Args:
            make: Makes the command about a name.
            topic: Fields of the parsed arguments that have to be the name; for a program of Kafka,
                the options in front of it.
            partition: What the field ``partition`` has to be.
        """
        self.make = make
        self.fields = topic
        self.partition = partition


COMMANDS: Final[Mapping[str, PrintedCommand]] = {
    "why": PrintedCommand(
        lambda name: why_command(TopicPartition(name, 3), program_at(name)),
        topic=("topic", "bootstrap_server"),
    ),
    "repair": PrintedCommand(_hanging, topic=("topic", "bootstrap_server"), partition=3),
    "repair of a decision": PrintedCommand(
        lambda name: decision_report.repair_command(TopicPartition(name, 3), program_at(name)),
        topic=("topic", "bootstrap_server"),
        partition=3,
    ),
    "records of a decision": PrintedCommand(_records, topic=()),
    "terminate": PrintedCommand(
        lambda name: words._terminate_command(program_at(name), _named(transactional_id=name)),
        topic=("transactional_id", "bootstrap_server"),
    ),
    "reset of a group": PrintedCommand(
        lambda name: _groups._reset_command(name, name), topic=("group", "topic")
    ),
    "release of a rule": PrintedCommand(
        lambda name: _faults._rule_command("release", name), topic=("id",)
    ),
    "exam": PrintedCommand(
        lambda name: results.repeated_situation(
            _exam._repeat_command(_named(driver=name, as_version=None, on=None)),
            _named(level=2, situation="a-situation"),
        ),
        topic=("driver",),
    ),
    "abort of Kafka": PrintedCommand(
        lambda name: _abort(name, "kafka"), topic=("--topic", "--bootstrap-server")
    ),
    "abort of an older Kafka": PrintedCommand(
        lambda name: _abort(name, "kafka_before_3_0"), topic=("--topic", "--bootstrap-server")
    ),
    "topic that stays": PrintedCommand(
        lambda name: _cleaner()._delete_topic_command(name), topic=("--topic",)
    ),
    "group that stays": PrintedCommand(
        lambda name: _cleaner()._delete_group_command(name), topic=("--group",)
    ),
    "transaction that stays": PrintedCommand(
        lambda name: _cleaner()._terminate_command(name), topic=("--transactionalId",)
    ),
    "description of a transaction": PrintedCommand(
        lambda name: _cleaner()._describe_command(name), topic=("--transactional-id",)
    ),
    "search for a transaction": PrintedCommand(
        lambda name: _cleaner()._find_command(TopicPartition(name, 3)), topic=("--topic",)
    ),
}


KAFKA_PROGRAMS: Final = (
    "kafka-transactions.sh",
    "kafka-topics.sh",
    "kafka-consumer-groups.sh",
)
_RECORD: Final = "printf '%s\\0' \"$@\"; printf '\\0'"
PRELUDES: Final = {
    # dash has no functions of such names, but aliases.
    "dash": f"record() {{ {_RECORD}; }}\n"
    + "".join(f"alias {program}='record {program}'\n" for program in ("txnsim", *KAFKA_PROGRAMS)),
    "bash": "".join(
        f'function {program} {{ set -- {program} "$@"; {_RECORD}; }}\n'
        for program in ("txnsim", *KAFKA_PROGRAMS)
    ),
}
"""Shell -> what records the words of each command instead of running its program."""
SHELLS: Final = tuple(shell for shell in PRELUDES if shutil.which(shell))


def words_received(shell_name: str, commands: Sequence[ShellText], home: Path) -> list[list[str]]:
    """The words that a shell makes of each command of a script."""
    home.mkdir(exist_ok=True)
    script_file = home / "script"
    script_file.write_bytes((PRELUDES[shell_name] + "\n".join(commands) + "\n").encode())
    finished_process = subprocess.run(
        [shell_name, str(script_file)],
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
        capture_output=True,
        check=True,
    )
    assert not finished_process.stderr, finished_process.stderr[:500]
    assert {path.name for path in home.iterdir()} == {"script"}, "a name ran a command"
    received_words = finished_process.stdout.split(b"\0\0")[:-1]
    return [words_bytes.decode().split("\0") for words_bytes in received_words]


def arguments_received(
    parser: argparse.ArgumentParser | None, words_of: list[str]
) -> dict[str, Any]:
    """What a command line makes of its words: of ours by its parser, of Kafka's by option."""
    if parser is not None:
        return vars(parser.parse_args(words_of[1:]))
    options: dict[str, Any] = {}
    remaining_words = iter(words_of[1:])
    for argument in remaining_words:
        name, equals, option_value = argument.partition("=")
        if argument.startswith("--") and equals:
            options[name] = option_value
        elif argument.startswith("--") and argument != "--delete":
            options[argument] = next(remaining_words)
    return options


def check_names(names: Sequence[str], shell_name: str, home: Path) -> None:
    """Give every kind of command about every name to a shell."""
    for kind, printed_command in COMMANDS.items():
        shell_commands = [printed_command.make(name) for name in names]
        assert all(printable(command) == command for command in shell_commands), kind
        received_words = words_received(shell_name, shell_commands, home)
        assert len(received_words) == len(names), kind
        parser = parser_of(received_words[0][1]) if received_words[0][0] == "txnsim" else None
        for name, words_of in zip(names, received_words, strict=True):
            fields = arguments_received(parser, words_of)
            for field_name in printed_command.fields:
                assert fields[field_name] == name, (kind, field_name, name)
            if printed_command.partition is not None:
                assert fields["partition"] == printed_command.partition


@pytest.mark.parametrize("shell_name", SHELLS)
def test_each_hostile_name_arrives_in_every_printed_command(
    shell_name: str, tmp_path: Path
) -> None:
    check_names(HOSTILE_NAMES, shell_name, tmp_path / "home")


DRAWN: Final = st.lists(names_from_outside(), min_size=NAMES_AT_ONCE, max_size=NAMES_AT_ONCE)
FEW: Final = settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)


@pytest.mark.slow
@pytest.mark.costly
@FEW
@given(DRAWN)
def test_drawn_names_arrive_in_every_printed_command(tmp_path: Path, names: list[str]) -> None:
    check_names(names, SHELLS[0], tmp_path / "home")


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.thorough
@settings(FEW, max_examples=10_000 // NAMES_AT_ONCE)
@given(DRAWN)
def test_ten_thousand_names_arrive_in_every_printed_command(
    tmp_path: Path, names: list[str]
) -> None:
    check_names(names, SHELLS[0], tmp_path / "home")


MADE_HERE: Final = {
    "sim/txnsim/cli/_groups.py": "reset of a group",
    "sim/txnsim/cli/control/_faults.py": "release of a rule",
    "sim/txnsim/txn/decision_report.py": "repair of a decision",
    "sim/txnsim/txn/open_txn_verdict.py": "why",
    "sim/txnsim/verdict/words.py": "terminate",
    "sim/txnsim_lab/cli/_exam.py": "exam",
    "sim/txnsim_lab/exam/results.py": "exam",
    "sim/txnsim_lab/target/cleaning.py": "topic that stays",
    "sim/txnsim_spark/forensics/findings.py": "abort of Kafka",
}
"""Modules whose commands are in the table, and one of them."""
ELSEWHERE: Final = {
    "sim/txnsim/client/inspection/waiting_readers.py": "an abort, with the options of repair",
    "sim/txnsim/shell_text.py": "makes them",
    "sim/txnsim_lab/cli/_exploring.py": "a story that the user has just named, and its own steps",
    "sim/txnsim_lab/cli/_conformance.py": "an address that the operator gave",
    "sim/txnsim_lab/cli/_incident.py": "a folder that the operator has just named",
    "sim/txnsim_lab/cli/_practise.py": "the name of our own rule",
    "sim/txnsim_lab/cli/_scenario/command.py": "a file that the operator has just named",
    "sim/txnsim_lab/cli/_simulating/simulate.py": "files that it has just written",
    "sim/txnsim_lab/cli/_teaching/lesson.py": "a file that the operator has just named",
    "sim/txnsim_lab/referee/writing.py": "designs and stories that the user has just named",
    "sim/txnsim_lab/simulation/reports.py": "seeds, and files that it has just written",
}
"""Modules that make commands without a name from outside."""


def test_every_module_that_makes_commands_is_in_the_table() -> None:
    makers = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "sim").rglob("*.py")
        if "command_line(" in path.read_text() or "continued(" in path.read_text()
    }
    assert makers == {*MADE_HERE, *ELSEWHERE}
    assert set(MADE_HERE.values()) <= COMMANDS.keys()
    assert all(inspect.isfunction(printed_command.make) for printed_command in COMMANDS.values())
