"""``txnsim faults``: arm fault rules in a running simulator, show their state, release what they
hold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from txnsim.cli.control._answers import FaultAnswer, ReleasedAnswer, VerifiedAnswer
from txnsim.cli.control._words import duration_ms, key_value
from txnsim.cli.control.port import ControlPort, Json, port_of
from txnsim.cli.control.port import add_arguments as add_port
from txnsim.cli.output import TERMINAL, Columns, FormattedTable
from txnsim.errors import ConfigError
from txnsim.files import GIVEN_BYTES_MAX, problem_of, read_given
from txnsim.shell_text import ShellText, arguments, command_line

PATIENCE_MORE_SECONDS: Final = 10
WAIT_MS: Final = 30_000
STDIN: Final = "-"

_CRITERIA: Final[Mapping[str, tuple[type, str, str]]] = {
    "api": (str, "NAME", "Kafka's name of the API, as in Produce"),
    "broker": (int, "ID", "the broker that is asked"),
    "source": (str, "WHO", "client/CLIENT-ID or broker/ID"),
    "client_id": (str, "ID", "the client's id"),
    "client_instance_id": (str, "ID", "the id of one client instance, from Kafka 4.5 on"),
    "role": (str, "ROLE", "leader or follower, at log.append"),
    "kind": (str, "KIND", "what is appended, indexed or scanned, inside a broker"),
    "transactional_id": (str, "ID", "of one transactional id"),
    "producer_id": (int, "ID", "of one producer id"),
    "topic": (str, "NAME", "about this topic"),
    "partition": (int, "N", "about this partition of it"),
}
_CHOICE: Final[Mapping[str, tuple[type, str, str]]] = {
    "nth": (int, "N", "the first one that is struck, counted from 1"),
    "limit": (int, "N", "how many are struck; all unless given"),
    "probability": (float, "P", "how likely each is struck, 0 to 1"),
    "after": (str, "RULE", "not before that rule has struck"),
    "until": (str, "RULE", "not any more once that rule has struck"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Points and actions: docs/fault-points.md, docs/faults.md."
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    arm_parser = actions.add_parser("arm", help="put a rule in force, or a file of rules")
    _add_rule(arm_parser)
    list_parser = actions.add_parser("list", help="the rules in force and what has come of them")
    wait_parser = actions.add_parser("wait", help="answer once a rule has struck")
    release_parser = actions.add_parser(
        "release", help="let go what a rule holds; it stays in force"
    )
    disarm_parser = actions.add_parser("disarm", help="take a rule back; what it holds goes on")
    verify_parser = actions.add_parser(
        "verify", help="whether every rule that was armed has struck"
    )
    for action_parser in (wait_parser, release_parser):
        action_parser.add_argument("id", help="the rule's id")
    wait_parser.add_argument(
        "--struck", type=int, default=1, metavar="N", help="how many times (1)"
    )
    wait_parser.add_argument(
        "--timeout", type=duration_ms, default=WAIT_MS, metavar="TIME", help="as in 90s (30s)"
    )
    disarm_parser.add_argument("id", nargs="?", help="the rule's id")
    disarm_parser.add_argument("--all", action="store_true", help="every rule")
    for action_parser in (
        arm_parser,
        list_parser,
        wait_parser,
        release_parser,
        disarm_parser,
        verify_parser,
    ):
        add_port(action_parser)


def _add_rule(arm_parser: argparse.ArgumentParser) -> None:
    # Chosen command only: the list of points is Kafka-free and quick to import.
    from txnsim.faults.points import FaultPoint

    point_names = [str(fault_point) for fault_point in FaultPoint]
    arm_parser.add_argument("id", nargs="?", help="a name of your choice for the rule")
    arm_parser.add_argument(
        "--file",
        metavar="FILE",
        help="a rule or a list of rules as JSON instead, - for standard input; all or none",
    )
    arm_parser.add_argument(
        "--point", choices=point_names, metavar="POINT", help=", ".join(point_names)
    )
    criteria_group = arm_parser.add_argument_group(
        "whose requests; what is left out matches everything"
    )
    for criterion, (value_type, metavar, help_line) in _CRITERIA.items():
        criteria_group.add_argument(
            _option_of(criterion), type=value_type, metavar=metavar, help=help_line
        )
    exclusive_criteria = criteria_group.add_mutually_exclusive_group()
    exclusive_criteria.add_argument(
        "--committed", action="store_const", const=True, help="only commits (EndTxn, markers)"
    )
    exclusive_criteria.add_argument(
        "--aborted", dest="committed", action="store_const", const=False, help="only aborts"
    )
    selection_group = arm_parser.add_argument_group("which of them")
    for criterion, (value_type, metavar, help_line) in _CHOICE.items():
        selection_group.add_argument(
            _option_of(criterion), type=value_type, metavar=metavar, help=help_line
        )
    effect_group = arm_parser.add_argument_group("what happens to them")
    effect_group.add_argument(
        "--do", metavar="ACTION", help="hold, delay, drop, error, disconnect, crash …"
    )
    effect_group.add_argument(
        "--error", metavar="NAME", help="of --do error, as in NOT_COORDINATOR"
    )
    effect_group.add_argument(
        "--delay", type=duration_ms, metavar="TIME", dest="delay_ms", help="of --do delay"
    )
    effect_group.add_argument(
        "--with",
        type=key_value,
        action="append",
        default=[],
        dest="details",
        metavar="FIELD=VALUE",
        help="another field of the action, as in throttle_ms=500; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    control_port = port_of(args)
    match args.action:
        case "arm":
            TERMINAL.tell(args, _arm_rules(control_port, args), _armed_lines)
        case "list":
            TERMINAL.tell(args, control_port.get("faults", form=list[FaultAnswer]), _table)
        case "wait":
            patience_s = args.timeout / 1_000 + PATIENCE_MORE_SECONDS
            wait_query = {"struck": args.struck, "timeout_ms": args.timeout}
            TERMINAL.tell(
                args,
                control_port.get(
                    *("faults", args.id, "wait"),
                    form=FaultAnswer,
                    patience_s=patience_s,
                    **wait_query,
                ),
                _state_line,
            )
        case "release":
            TERMINAL.tell(
                args,
                control_port.post("faults", args.id, "release", form=ReleasedAnswer),
                _released_line,
            )
        case "disarm":
            TERMINAL.tell(args, _disarm_rules(control_port, args), _taken_back)
        case _:
            TERMINAL.tell(
                args,
                control_port.post("faults", "verify", form=VerifiedAnswer),
                lambda _: "every rule has struck",
            )
    return 0


def _disarm_rules(control_port: ControlPort, args: argparse.Namespace) -> Json:
    if args.all == (args.id is not None):
        raise ConfigError("disarm: name a rule, or say --all; `txnsim faults list` shows them")
    if args.all:
        return control_port.delete("faults", form=list[FaultAnswer])
    return [control_port.delete("faults", args.id, form=FaultAnswer)]


# Arming


def _arm_rules(control_port: ControlPort, args: argparse.Namespace) -> Json:
    if args.file is None:
        return [control_port.post("faults", body=_rule_of_options(args), form=FaultAnswer)]
    options_given = [name for name in ("id", "point", "do") if getattr(args, name) is not None]
    if options_given:
        raise ConfigError(
            f"--file {args.file}: it has the whole rule; leave out {options_given[0]}"
        )
    rules = _read_rules(args.file)
    if isinstance(rules, list):
        return control_port.post("faults", "plan", body=rules, form=list[FaultAnswer])
    return [control_port.post("faults", body=rules, form=FaultAnswer)]


def _read_rules(rules_path: str) -> Any:
    try:
        rules_text = (
            sys.stdin.read(GIVEN_BYTES_MAX) if rules_path == STDIN else read_given(Path(rules_path))
        )
        return json.loads(rules_text)
    except OSError as error:
        raise ConfigError(f"--file {rules_path}: {problem_of(error)}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"--file {rules_path}: no JSON: {error}; expected a rule or a list of rules, as in "
            "docs/faults.md"
        ) from None


def _rule_of_options(args: argparse.Namespace) -> dict[str, Any]:
    """The rule that the options describe."""
    missing_options = [
        option_name
        for option_name, option_value in (
            ("an ID", args.id),
            ("--point", args.point),
            ("--do", args.do),
        )
        if option_value is None
    ]
    if missing_options:
        raise ConfigError(
            f"arm: {', '.join(missing_options)} is missing; or give a whole rule by --file"
        )
    rule: dict[str, Any] = {
        "id": args.id,
        "point": str(args.point),
        "action": _action_of_options(args),
    }
    for criterion in (*_CRITERIA, *_CHOICE, "committed"):
        option_value = getattr(args, criterion)
        if option_value is not None:
            rule[criterion] = option_value
    return rule


def _action_of_options(args: argparse.Namespace) -> dict[str, Any]:
    action_fields: dict[str, Any] = {"do": args.do}
    for parameter_name in ("error", "delay_ms"):
        parameter_value = getattr(args, parameter_name)
        if parameter_value is not None:
            action_fields[parameter_name] = parameter_value
    for parameter_name, parameter_text in args.details:
        action_fields[parameter_name] = (
            int(parameter_text) if parameter_text.lstrip("-").isdigit() else parameter_text
        )
    return action_fields


def _option_of(field_name: str) -> str:
    return f"--{field_name.replace('_', '-')}"


# What is printed


def _armed_lines(armed_states: Json) -> list[str]:
    lines = []
    for fault_state in armed_states:
        rule = fault_state["rule"]
        lines.append(f"armed {_rule_summary(rule)}")
        if fault_state.get("doubt"):
            lines.append(f"  warning: it can strike nothing: {fault_state['doubt']}")
        if rule["action"]["do"] in ("hold", "stall", "reorder"):
            lines.append(f"  wait for it: {_rule_command('wait', rule['id'])}")
            lines.append(f"  let it go:   {_rule_command('release', rule['id'])}")
    return lines


def _rule_command(action: str, rule_id: str) -> ShellText:
    return command_line("txnsim", "faults", action, *arguments(rule_id))


def _rule_summary(fault_rule: Mapping[str, Any]) -> str:
    named_fields = ("id", "point", "action", "then", "api")
    criteria_words = " ".join(
        f"{key}={value}" for key, value in fault_rule.items() if key not in named_fields
    )
    api_name = f" {fault_rule['api']}" if "api" in fault_rule else ""
    criteria_text = f" ({criteria_words})" if criteria_words else ""
    return (
        f"{fault_rule['id']}: {_action_text(fault_rule)} at"
        f" {fault_rule['point']}{api_name}{criteria_text}"
    )


def _action_text(fault_rule: Mapping[str, Any]) -> str:
    action_fields = dict(fault_rule["action"])
    action_name = str(action_fields.pop("do"))
    parameters_text = " ".join(str(value) for value in action_fields.values() if value is not None)
    return f"{action_name} {parameters_text}".strip()


_COLUMNS: Final[Columns[Json]] = {
    "Rule": lambda state: state["rule"]["id"],
    "Point": lambda state: state["rule"]["point"],
    "Api": lambda state: state["rule"].get("api", ""),
    "Does": lambda state: _action_text(state["rule"]),
    "Matched": lambda state: state["matched"],
    "Struck": lambda state: state["struck"],
    "Held": lambda state: state["held"],
    "Released": lambda state: state["released"],
}


def _table(faults: Json) -> list[str]:
    if not faults:
        return ["no rule is armed; `txnsim faults arm --help` shows how"]
    return FormattedTable.of(_COLUMNS, faults).splitlines()


def _state_line(fault_state: Json) -> str:
    strike_count_text = "once" if fault_state["struck"] == 1 else f"{fault_state['struck']} times"
    waiting_text = (
        f"; holds {fault_state['held']}: {_rule_command('release', fault_state['rule']['id'])}"
        if fault_state["held"]
        else ""
    )
    return f"{fault_state['rule']['id']} has struck {strike_count_text}{waiting_text}"


def _released_line(answer: Json) -> str:
    return f"let go {answer['released']}"


def _taken_back(faults: Json) -> list[str]:
    if not faults:
        return ["no rule was armed"]
    return [
        f"{fault_state['rule']['id']} is taken back; it has struck {fault_state['struck']}"
        for fault_state in faults
    ]
