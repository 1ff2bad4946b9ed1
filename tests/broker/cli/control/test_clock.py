from __future__ import annotations

from tests.broker.cli.control.conftest import Ask


def test_time_passes(txnsim: Ask) -> None:
    before = txnsim("clock", "show", "--json").json
    after = txnsim("clock", "advance", "2m", "--json").json
    assert after["advanced_ms"] - before["advanced_ms"] == 120_000
    assert "on the cluster's clock, moved by" in txnsim("clock", "show").out


def test_one_brokers_clock_is_set(txnsim: Ask) -> None:
    before = txnsim("clock", "show", "--json").json["brokers"]["2"]
    assert txnsim("clock", "set", "--back", "5s", "--broker", "2").status == 0
    assert txnsim("clock", "show", "--json").json["brokers"]["2"] == before - 5_000
    assert "broker 2: " in txnsim("clock", "set", "--ahead", "2s", "--broker", "2").out


def test_a_time_that_is_no_whole_number_is_refused_with_the_form(txnsim: Ask) -> None:
    said = txnsim("clock", "advance", "1.5")
    assert said.status == 2
    assert "expected a number with ms, s, m, h or d, as in 90s" in said.err


def test_a_time_without_a_unit_or_below_zero_is_refused_with_what_was_meant(txnsim: Ask) -> None:
    """-5s was "time is missing", and 5 were silently milliseconds."""
    for words, wanted in (
        (
            ("clock", "advance", "-5s"),
            "'-5s': no time passes backwards; `txnsim clock set --back 5s`",
        ),
        (("clock", "advance", "5"), "time: '5' has no unit: 5s, or 5ms?"),
        (("clock", "set", "--back", "-5s"), "'-5s': expected a number with ms, s, m, h or d"),
    ):
        said = txnsim(*words)
        assert said.status == 2
        assert wanted in said.err


def test_a_clock_is_set_one_way_only(txnsim: Ask) -> None:
    assert txnsim("clock", "set", "--ahead", "1s", "--back", "1s").status == 2
