"""``txnsim explain NAME-OR-MESSAGE``. Which section an error means:
``tests/lab/test_troubleshooting.py``.
"""

from __future__ import annotations

import io
import json

import pytest

from txnsim.cli.main import main


def test_explain_prints_the_section_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "org.apache.kafka.common.errors.InvalidPidMappingException"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("INVALID_PRODUCER_ID_MAPPING\n\n")
    assert "  $ txnsim scenario run exhausted-epochs\n" in output
    assert "- Java: InvalidPidMappingException\n" in output
    assert output.endswith("\ndocs/troubleshooting.md#invalid_producer_id_mapping\n")
    assert [mark for mark in ("](", "`", "**") if mark in output] == []
    assert main(["explain", "error", "InvalidPidMappingException"]) == 0
    assert capsys.readouterr().out == output


def test_explain_takes_words_that_no_shell_has_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "awaiting", "InitProducerId"]) == 0
    assert capsys.readouterr().out.startswith("initTransactions times out")


def test_explain_reads_a_log_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("12:00 [Producer] Error 90\n  PRODUCER_FENCED\n"))
    assert main(["explain", "-", "--json"]) == 0
    (section,) = json.loads(capsys.readouterr().out)["sections"]
    assert section["title"] == "PRODUCER_FENCED"
    assert section["stories"] == ["txnsim scenario run producer-fenced"]
    assert {"clients": ["Sarama"], "words": ["ErrProducerFenced"]} in section["also_seen_as"]


def test_explain_prints_the_best_section_and_names_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", "--json", "ConcurrentTransactionsException"]) == 0
    titles = [section["title"] for section in json.loads(capsys.readouterr().out)["sections"]]
    assert titles == ["CONCURRENT_TRANSACTIONS", "CONCURRENT_TRANSACTIONS storms since 4.0"]
    assert main(["explain", "ConcurrentTransactionsException"]) == 0
    output = capsys.readouterr().out
    best, other_sections = output.split("\n\nIt fits, too:\n")
    assert best.startswith(f"{titles[0]}\n\n")
    assert other_sections.startswith(
        f'  txnsim explain "{titles[1]}"\n    Under transactions v2 no request'
    )
    assert " ".join(other_sections.split()).endswith(
        "before the first record: the Produce does it."
    )
    for title in titles:
        assert main(["explain", title]) == 0
        assert capsys.readouterr().out.startswith(f"{title}\n\n")


def test_explain_says_that_no_section_fits_and_which_are_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", "PRODUCER_FENCD"]) == 1
    captured = capsys.readouterr()
    assert (captured.out, '"PRODUCER_FENCED"' in captured.err) == ("", True)
    assert main(["explain", "35", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["sections"], answer["error"]) == ([], "UNSUPPORTED_VERSION")
    assert main(["explain", "error 35"]) == 1
    assert "UNSUPPORTED_VERSION is an error of Kafka" in capsys.readouterr().err
    assert main(["explain", "xyzzy"]) == 1
    assert "txnsim explain lso" in capsys.readouterr().err
