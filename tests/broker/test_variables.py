from __future__ import annotations

import argparse

import pytest

from txnsim.cli import serve
from txnsim.cli.parsing import CommandParser
from txnsim.variables import ARRANGED, BOOTSTRAP, HTTP, OPTIONS, unknown_variables, words_of


def parsed(environment: dict[str, str], *given: str) -> argparse.Namespace:
    parser = CommandParser()
    serve.add_arguments(parser)
    return parser.parse_args([*words_of(environment, given), *given])


def test_variables_are_options_of_serve() -> None:
    args = parsed({"TXNSIM_BROKERS": "2", "TXNSIM_TOPICS": "a:3,b", "TXNSIM_KIP_TEXT": "True"})
    assert (args.brokers, args.topic, args.kip_text) == (2, ["a:3", "b:1"], True)
    known = {flag for flag, _ in OPTIONS.values() if flag}
    parser = CommandParser()
    serve.add_arguments(parser)
    assert known <= set(parser._option_string_actions)


def test_an_option_wins_over_its_variable() -> None:
    variables = {"TXNSIM_BROKERS": "2", "TXNSIM_TOPICS": "a,b"}
    args = parsed(variables, "--brokers=5", "--topic", "c")
    assert (args.brokers, args.topic) == (5, ["c"])


def test_only_what_a_command_has_options_for() -> None:
    variables = {"TXNSIM_BROKERS": "2", "TXNSIM_PORT": "0"}
    assert words_of(variables, ["practise"], only=("--port",)) == ["--port", "0"]


def test_a_value_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="TXNSIM_KIP_TEXT=yes: expected true or false"):
        words_of({"TXNSIM_KIP_TEXT": "yes"}, [])


def test_what_is_off_and_what_is_read_elsewhere_comes_to_no_option() -> None:
    given = {"TXNSIM_HTTP_PORT": "off", "TXNSIM_TOKEN": "secret", "TXNSIM_KIP_TEXT": "false"}
    assert words_of({**given, "OTHER": "x"}, []) == []


@pytest.mark.parametrize("known", [BOOTSTRAP, HTTP, ARRANGED, "TXNSIM_TOKEN", "TXNSIM", "PATH"])
def test_known_variables_and_those_of_others_are_no_problem(known: str) -> None:
    assert unknown_variables({known: "x"}) is None


def test_what_kubernetes_sets_is_not_ours() -> None:
    theirs = {"TXNSIM_PORT": "tcp://10.0.0.1:9092", "TXNSIM_SERVICE_PORT_KAFKA": "9092"}
    assert unknown_variables(theirs) is None
    assert words_of(theirs, []) == []


def test_every_misspelt_one_is_named_with_what_was_meant() -> None:
    told = unknown_variables({"TXNSIM_TOPIC": "a", "TXNSIM_BOOTSTRAPS": "b", "TXNSIM_WHEEL": "c"})
    assert told is not None
    assert told.splitlines() == [
        "no variable 'TXNSIM_BOOTSTRAPS'; did you mean TXNSIM_BOOTSTRAP?",
        "no variable 'TXNSIM_TOPIC'; did you mean TXNSIM_TOPICS?",
    ]


@pytest.mark.parametrize("theirs", ["TXNSIM_WHEEL", "TXNSIM_SASL_BOOTSTRAP", "TXNSIM_PEER_HTTP"])
def test_names_of_others_are_let_alone(theirs: str) -> None:
    assert unknown_variables({theirs: "x"}) is None
