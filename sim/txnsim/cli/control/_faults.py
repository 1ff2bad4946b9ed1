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

from txnsim.cli.control._words import duration_ms, key_value
from txnsim.cli.control.port import ControlPort, Json, port_of
from txnsim.cli.control.port import add_arguments as add_port
from txnsim.cli.output import TERMINAL, Columns, Table
from txnsim.errors import ConfigError
from txnsim.files import GIVEN_BYTES_MAX, problem_of, read_given

PATIENCE_MORE_SECONDS: Final = 10
WAIT_MS: Final = 30_000
STDIN: Final = "-"

_CRITERIA: Final[Mapping[str, tuple[type, str, str]]] = {
    "api": (str, "NAME", "Kafka's name of the API, as in Produce"),
    "broker": (int, "ID", "the broker that is asked"),
    "source": (str, "WHO", "client/CLIENT-ID or broker/ID"),
    "client_id": (str, "ID", "the client's id"),
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
    """Declare the arguments of ``faults``."""
    parser.epilog = "Points and actions: docs/fault-points.md, docs/faults.md."
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    arm = actions.add_parser("arm", help="put a rule in force, or a file of rules")
    _add_rule(arm)
    listing = actions.add_parser("list", help="the rules in force and what has come of them")
    wait = actions.add_parser("wait", help="answer once a rule has struck")
    release = actions.add_parser("release", help="let go what a rule holds; it stays in force")
    disarm = actions.add_parser("disarm", help="take a rule back; what it holds goes on")
    verify = actions.add_parser("verify", help="whether every rule that was armed has struck")
    for action in (wait, release):
        action.add_argument("id", help="the rule's id")
    wait.add_argument("--struck", type=int, default=1, metavar="N", help="how many times (1)")
    wait.add_argument(
        "--timeout", type=duration_ms, default=WAIT_MS, metavar="TIME", help="as in 90s (30s)"
    )
    disarm.add_argument("id", nargs="?", help="the rule's id")
    disarm.add_argument("--all", action="store_true", help="every rule")
    for action in (arm, listing, wait, release, disarm, verify):
        add_port(action)


def _add_rule(arm: argparse.ArgumentParser) -> None:
    # Chosen command only: the list of points is Kafka-free and quick to import.
    from txnsim.faults.points import FaultPoint

    points = [str(point) for point in FaultPoint]
    arm.add_argument("id", nargs="?", help="a name of your choice for the rule")
    arm.add_argument(
        "--file",
        metavar="FILE",
        help="a rule or a list of rules as JSON instead, - for standard input; all or none",
    )
    arm.add_argument("--point", choices=points, metavar="POINT", help=", ".join(points))
    whom = arm.add_argument_group("whose requests; what is left out matches everything")
    for name, (kind, metavar, line) in _CRITERIA.items():
        whom.add_argument(_flag(name), type=kind, metavar=metavar, help=line)
    end = whom.add_mutually_exclusive_group()
    end.add_argument(
        "--committed", action="store_const", const=True, help="only commits (EndTxn, markers)"
    )
    end.add_argument(
        "--aborted", dest="committed", action="store_const", const=False, help="only aborts"
    )
    selection = arm.add_argument_group("which of them")
    for name, (kind, metavar, line) in _CHOICE.items():
        selection.add_argument(_flag(name), type=kind, metavar=metavar, help=line)
    effect = arm.add_argument_group("what happens to them")
    effect.add_argument(
        "--do", metavar="ACTION", help="hold, delay, drop, error, disconnect, crash …"
    )
    effect.add_argument("--error", metavar="NAME", help="of --do error, as in NOT_COORDINATOR")
    effect.add_argument(
        "--delay", type=duration_ms, metavar="TIME", dest="delay_ms", help="of --do delay"
    )
    effect.add_argument(
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
    port = port_of(args)
    match args.action:
        case "arm":
            TERMINAL.tell(args, _arm(port, args), _armed_lines)
        case "list":
            TERMINAL.tell(args, port.get("faults"), _table)
        case "wait":
            patience = args.timeout / 1_000 + PATIENCE_MORE_SECONDS
            query = {"struck": args.struck, "timeout_ms": args.timeout}
            TERMINAL.tell(
                args, port.get("faults", args.id, "wait", patience=patience, **query), _state
            )
        case "release":
            TERMINAL.tell(args, port.post("faults", args.id, "release"), _released_line)
        case "disarm":
            TERMINAL.tell(args, _disarm(port, args), _taken_back)
        case _:
            TERMINAL.tell(args, port.post("faults", "verify"), lambda _: "every rule has struck")
    return 0


def _disarm(port: ControlPort, args: argparse.Namespace) -> Json:
    if args.all == (args.id is not None):
        raise ConfigError("disarm: name a rule, or say --all; `txnsim faults list` shows them")
    return port.delete("faults") if args.all else [port.delete("faults", args.id)]


# Arming


def _arm(port: ControlPort, args: argparse.Namespace) -> Json:
    if args.file is None:
        return [port.post("faults", body=_rule(args))]
    options_given = [name for name in ("id", "point", "do") if getattr(args, name) is not None]
    if options_given:
        raise ConfigError(
            f"--file {args.file}: it has the whole rule; leave out {options_given[0]}"
        )
    rules = _read(args.file)
    if isinstance(rules, list):
        return port.post("faults", "plan", body=rules)
    return [port.post("faults", body=rules)]


def _read(file: str) -> Any:
    try:
        text = sys.stdin.read(GIVEN_BYTES_MAX) if file == STDIN else read_given(Path(file))
        return json.loads(text)
    except OSError as error:
        raise ConfigError(f"--file {file}: {problem_of(error)}") from None
    except ValueError as error:
        raise ConfigError(
            f"--file {file}: no JSON: {error}; expected a rule or a list of rules, as in "
            "docs/faults.md"
        ) from None


def _rule(args: argparse.Namespace) -> dict[str, Any]:
    """The rule that the options describe."""
    missing = [
        option
        for option, value in (("an ID", args.id), ("--point", args.point), ("--do", args.do))
        if value is None
    ]
    if missing:
        raise ConfigError(f"arm: {', '.join(missing)} is missing; or give a whole rule by --file")
    rule: dict[str, Any] = {"id": args.id, "point": str(args.point), "action": _action(args)}
    for name in (*_CRITERIA, *_CHOICE, "committed"):
        value = getattr(args, name)
        if value is not None:
            rule[name] = value
    return rule


def _action(args: argparse.Namespace) -> dict[str, Any]:
    action: dict[str, Any] = {"do": args.do}
    for name in ("error", "delay_ms"):
        value = getattr(args, name)
        if value is not None:
            action[name] = value
    for name, text in args.details:
        action[name] = int(text) if text.lstrip("-").isdigit() else text
    return action


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# What is printed


def _armed_lines(armed: Json) -> list[str]:
    lines = []
    for state in armed:
        rule = state["rule"]
        lines.append(f"armed {_about(rule)}")
        if state.get("doubt"):
            lines.append(f"  warning: it can strike nothing: {state['doubt']}")
        if rule["action"]["do"] in ("hold", "stall", "reorder"):
            lines.append(f"  wait for it: txnsim faults wait {rule['id']}")
            lines.append(f"  let it go:   txnsim faults release {rule['id']}")
    return lines


def _about(rule: Mapping[str, Any]) -> str:
    named = ("id", "point", "action", "then", "api")
    criteria = " ".join(f"{key}={value}" for key, value in rule.items() if key not in named)
    api = f" {rule['api']}" if "api" in rule else ""
    about = f" ({criteria})" if criteria else ""
    return f"{rule['id']}: {_deed(rule)} at {rule['point']}{api}{about}"


def _deed(rule: Mapping[str, Any]) -> str:
    action = dict(rule["action"])
    do = str(action.pop("do"))
    details = " ".join(str(value) for value in action.values() if value is not None)
    return f"{do} {details}".strip()


_COLUMNS: Final[Columns[Json]] = {
    "Rule": lambda state: state["rule"]["id"],
    "Point": lambda state: state["rule"]["point"],
    "Api": lambda state: state["rule"].get("api", ""),
    "Does": lambda state: _deed(state["rule"]),
    "Matched": lambda state: state["matched"],
    "Struck": lambda state: state["struck"],
    "Held": lambda state: state["held"],
    "Released": lambda state: state["released"],
}


def _table(faults: Json) -> list[str]:
    if not faults:
        return ["no rule is armed; `txnsim faults arm --help` shows how"]
    return Table.of(_COLUMNS, faults).splitlines()


def _state(state: Json) -> str:
    times = "once" if state["struck"] == 1 else f"{state['struck']} times"
    waiting_text = f"; holds {state['held']}: txnsim faults release {state['rule']['id']}" * bool(
        state["held"]
    )
    return f"{state['rule']['id']} has struck {times}{waiting_text}"


def _released_line(answer: Json) -> str:
    return f"let go {answer['released']}"


def _taken_back(faults: Json) -> list[str]:
    if not faults:
        return ["no rule was armed"]
    return [
        f"{state['rule']['id']} is taken back; it has struck {state['struck']}" for state in faults
    ]
