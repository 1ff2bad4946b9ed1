"""Plug-ins: what is read, put in place of decisions, and taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from txnsim.coordinators.txn import service
from txnsim.errors import ConfigError
from txnsim.log import leader_append
from txnsim.log.verification import VerificationEntries
from txnsim.releases import LATEST_RULES
from txnsim.releases.rules import Rules
from txnsim.txn import machine
from txnsim.txn.commands import VerifyPartitions
from txnsim.types import ProducerEpoch, ProducerId, TransactionalId
from txnsim_lab.referee._decisions import DECISIONS, decision_named
from txnsim_lab.referee.plugin import Plugin, PluginEndError, PluginFailures, in_place

HEAD = "from txnsim_lab.referee.plugin import replaces\n\n"
ASKED = VerifyPartitions(
    transactional_id=TransactionalId("app"),
    producer_id=ProducerId(1),
    producer_epoch=ProducerEpoch(0),
    partitions=(),
)


def plugin_of(text: str) -> Plugin:
    return Plugin("fix.py", HEAD + text)


@contextmanager
def placed(name: str, called_function: Callable[..., Any]) -> Iterator[PluginFailures]:
    with PluginFailures() as failures, in_place({name: called_function}, failures.note):
        yield failures


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_is_replaced_wherever_it_is_bound_and_taken_back(name: str) -> None:
    decision = decision_named(name)
    original_function = decision.current_function
    with placed(name, lambda _original, *_facts, **_named: "replaced"):
        assert decision.current_function is not original_function
        assert decision.current_function() == "replaced"
    assert decision.current_function is original_function
    assert decision.decides


def test_the_module_that_calls_a_function_has_the_new_one() -> None:
    def answer() -> object:
        return vars(service)["decide_verify"](None, ASKED, release_rules=LATEST_RULES)

    with placed("txn.verify", lambda _original, *_facts, **_named: "replaced"):
        assert vars(service)["decide_verify"] is machine.decide_verify
        assert answer() == "replaced"
    assert vars(service)["decide_verify"] is machine.decide_verify
    assert answer() != "replaced"


def test_a_replacement_may_ask_the_original() -> None:
    def start(
        original_function: Callable[..., object], txn: object, command: object, **facts: object
    ) -> tuple[str, object]:
        return "after", original_function(txn, command, **facts)

    untouched = machine.decide_verify(None, ASKED, release_rules=LATEST_RULES)
    with placed("txn.verify", start):
        assert machine.decide_verify(None, ASKED, release_rules=LATEST_RULES) == (
            "after",
            untouched,
        )  # type: ignore[comparison-overlap]


def test_a_method_is_replaced_in_its_class() -> None:
    entries = VerificationEntries()
    asked = []
    with placed(
        "log.marker-ends-guard", lambda _, own, *facts, **_named: asked.append((own, facts))
    ):
        entries.on_marker(1, 2)
    assert asked == [(entries, (1, 2))]


def test_a_decision_that_is_replaced_is_asked() -> None:
    released_rules = Rules(coordinator_checks_leadership=False)
    assert not service.must_ask_who_leads(released_rules)
    with placed("coordinator.may-answer", lambda _original, *_facts: False):
        assert service.must_ask_who_leads(released_rules)
    assert not service.must_ask_who_leads(released_rules)


def test_what_a_plug_in_raises_is_kept_once_and_goes_on() -> None:
    functions = plugin_of(
        '@replaces("log.may-join")\n'
        'def join(original, entry, epoch, rules):\n    return entry["x"]\n'
    ).replacements()
    with PluginFailures() as failures, in_place(functions, failures.note):
        for _ in range(2):
            with pytest.raises(KeyError):
                leader_append.may_join({}, 0, LATEST_RULES)  # type: ignore[arg-type]
    assert failures.texts() == ("log.may-join: fix.py:5: KeyError: 'x'",)


def test_a_plug_in_that_ends_the_process_is_a_bug_of_a_broker() -> None:
    functions = plugin_of(
        'import sys\n@replaces("log.may-join")\n'
        "def join(original, entry, epoch, rules):\n    sys.exit(0)\n"
    ).replacements()
    with (
        PluginFailures() as failures,
        in_place(functions, failures.note),
        pytest.raises(PluginEndError, match="SystemExit: 0"),
    ):
        leader_append.may_join({}, 0, LATEST_RULES)  # type: ignore[arg-type]
    assert failures.texts() == ("log.may-join: fix.py:6: SystemExit: 0",)


def test_ctrl_c_in_a_decision_is_no_failure_of_the_plug_in() -> None:
    def join(*_facts: object) -> bool:
        raise KeyboardInterrupt

    with placed("log.may-join", join) as failures, pytest.raises(KeyboardInterrupt):
        leader_append.may_join({}, 0, LATEST_RULES)  # type: ignore[arg-type]
    assert failures.texts() == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "fix.py: replaces nothing"),
        ("def f(:\n", "fix.py:3: SyntaxError"),
        ("1 / 0\n", "fix.py:3: ZeroDivisionError"),
        ("raise SystemExit(0)\n", "fix.py:3: SystemExit: 0"),
        ("raise GeneratorExit\n", "fix.py:3: GeneratorExit"),
        ('@replaces("txn.ends")\ndef f(): ...\n', "fix.py: no decision 'txn.ends'; did you mean"),
        (
            '@replaces("txn.timeout")\ndef f(original, txn, *, now_ms): ...\n',
            r"fix.py: f replaces txn.timeout, which is called as \(original, txn, \*, now_ms,"
            r" release_rules\)",
        ),
        (
            '@replaces("txn.timeout")\ndef f(*a, **k): ...\n'
            '@replaces("txn.timeout")\ndef g(*a, **k): ...\n',
            "fix.py: two functions replace txn.timeout",
        ),
    ],
)
def test_a_wrong_plug_in_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        plugin_of(text).replacements()


def test_the_page_has_each_decision() -> None:
    page_text = Path(__file__).parents[3].joinpath("docs/referee.md").read_text("utf-8")
    for decision in DECISIONS.values():
        file_name = f"sim/{decision.module.replace('.', '/')}.py"
        function_cell = f"`{file_name}`, `{decision.function}`"
        assert f"| `{decision.name}` | {decision.decides} | {function_cell} |" in page_text
