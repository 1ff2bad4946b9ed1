"""Which section of the page an error means. The page itself: ``tests/test_troubleshooting.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import txnsim_lab
from txnsim.errors import ConfigError
from txnsim_lab.troubleshooting import (
    ClientMessages,
    error_names,
    find_sections,
    name_key,
    page_file,
    read_sections,
)

PAGE: Final = """\
# Errors

## PRODUCER_FENCED

A newer instance. See [below](#invalid_txn_state-at-an-abort).

**Do:** close it.

```console
$ txnsim scenario run producer-fenced
```

**Also seen as:**

- Java, kafka-python: `ProducerFencedException`, `There is a newer producer.`
- librdkafka: `Local: fenced by …, epoch …`, `` call `…` failed ``

## INVALID_TXN_STATE at an abort

Nothing is open.

**Also seen as:**

- Java: `TimeoutException`, `Timeout expired after …ms while awaiting …`, `EndTxn(…)`

## Readers stand still

They wait. `initTransactions` is not it.

**Also seen as:**

- Java: `TimeoutException`, `Timeout expired after …ms while awaiting …`
"""
SECTIONS: Final = read_sections(PAGE)
FENCED, STATE, READERS = (section.title for section in SECTIONS)


def titles(text: str) -> list[str]:
    return [section.title for section in find_sections(text, SECTIONS).sections]


def test_a_section_has_its_text_what_clients_show_and_its_stories() -> None:
    fenced_section = SECTIONS[0]
    assert fenced_section.anchor == "producer_fenced"
    assert SECTIONS[1].anchor == "invalid_txn_state-at-an-abort"
    assert fenced_section.text.startswith("A newer instance.")
    assert fenced_section.text.endswith("```")
    assert fenced_section.seen_as == (
        ClientMessages(
            clients=("Java", "kafka-python"),
            words=("ProducerFencedException", "There is a newer producer."),
        ),
        ClientMessages(
            clients=("librdkafka",), words=("Local: fenced by …, epoch …", "call `…` failed")
        ),
    )
    assert fenced_section.stories == ("txnsim scenario run producer-fenced",)
    assert error_names(SECTIONS) == ("PRODUCER_FENCED", "INVALID_TXN_STATE")


@pytest.mark.parametrize(
    "spelling",
    [
        "PRODUCER_FENCED",
        "producer_fenced",
        "producer-fenced",
        "Producer fenced",
        "ProducerFencedException",
        "ProducerFencedError",
        "ErrProducerFenced",
        "RD_KAFKA_RESP_ERR_PRODUCER_FENCED",
        "org.apache.kafka.common.errors.ProducerFencedException",
        "90",
        "error code 90",
        "[Error 90] it was refused",
        "failed with errorCode=90, giving up",
        "the producer got ProducerFencedException at 10:00",
        "there is a  newer\nproducer",
        "LOCAL: FENCED BY shop-1, EPOCH 7.",
        "call `commit` failed",
        "is a newer prod",
    ],
)
def test_every_spelling_of_an_error_means_its_section(spelling: str) -> None:
    assert titles(spelling) == [FENCED]


def test_names_have_a_key_in_common() -> None:
    assert {name_key(name) for name in ("INVALID_TXN_STATE", "InvalidTxnStateError")} == {
        "invalidtxnstate"
    }


def test_a_class_of_many_causes_means_each_and_yields_to_a_message_of_one() -> None:
    assert titles("TimeoutException") == [STATE, READERS]
    assert titles("Timeout expired after 60000ms while awaiting nothing") == [STATE, READERS]
    assert titles("TimeoutException: Timeout expired after 5ms while awaiting EndTxn(true)") == [
        STATE
    ]


PREFIXED: Final = (
    "Failed to acquire transactional PID from broker localhost:9092/1: {}",
    "Failed to initialize Producer ID: {}",
    "Unexpected error in InitProducerIdResponse; {}",
    "Unexpected error in TxnOffsetCommitResponse: {}",
    "producer ID has a fatal, unrecoverable error, err: PRODUCER_FENCED: {}",
    "KafkaJSProtocolError: {}",
    "kafka server: {}",
    "PRODUCER_FENCED: {}",
    "[Error 90] {}",
)
"""Of librdkafka, Java, franz-go, kafkajs, Sarama, kafka-python and aiokafka."""
OF_PREFIXES: Final = """\
## A call times out

**Also seen as:**

- librdkafka: `Failed to acquire … PID from broker …`, `Failed to initialize Producer ID: …`
- Java: `InitProducerIdResponse`, `TxnOffsetCommitResponse`
"""


@pytest.mark.parametrize("prefix", PREFIXED)
def test_what_stands_behind_a_prefix_of_a_client_decides(prefix: str) -> None:
    sections = (*read_sections(OF_PREFIXES), *SECTIONS)
    line = prefix.format("There is a newer producer")
    assert [section.title for section in find_sections(line, sections).sections] == [FENCED]
    prefix_sections = find_sections(PREFIXED[0].format("Local: Timed out"), sections).sections
    assert [section.title for section in prefix_sections] == ["A call times out"]


def test_the_best_match_comes_first() -> None:
    line = "call `EndTxn(x)` failed: INVALID_TXN_STATE"
    assert titles(line) == [STATE, FENCED]
    assert find_sections(line, SECTIONS).sections[0].summary == "Nothing is open."


def test_the_old_address_of_a_section_is_no_text() -> None:
    (section,) = read_sections('## B\n\n<a id="a"></a>\n\n**`code 1`, `code 2`.** It is. It was.\n')
    assert (section.text, section.summary) == ("**`code 1`, `code 2`.** It is. It was.", "It is.")


@pytest.mark.parametrize(
    ("name", "key"),
    [("NETWORK_EXCEPTION", "network"), ("NetworkException", "network"),
     ("NetworkExceptionError", "network")],
)  # fmt: skip
def test_a_name_that_ends_with_exception_has_one_key(name: str, key: str) -> None:
    assert name_key(name) == key


def test_a_line_with_two_errors_means_both() -> None:
    assert titles("ProducerFencedException, caused by INVALID_TXN_STATE") == [FENCED, STATE]


def test_a_title_means_its_section_alone() -> None:
    assert titles("readers stand still") == [READERS]
    assert titles("INVALID_TXN_STATE at an abort") == [STATE]


@pytest.mark.parametrize(
    "text",
    [
        *("fenced", "0", "code 0", "99999", "state", "no such words"),
        *("90:43:48.188 no such words", "90 no such words"),
    ],
)
def test_a_word_of_any_text_means_none(text: str) -> None:
    assert titles(text) == []


def test_a_misspelt_name_has_the_nearest_sections() -> None:
    section_match = find_sections("PRODUCER_FENCD", SECTIONS)
    assert [section.title for section in section_match.nearest] == [FENCED]
    assert section_match.error is None


def test_an_error_of_kafka_without_a_section_is_named() -> None:
    section_match = find_sections("29", SECTIONS)
    assert (section_match.sections, section_match.error) == ((), "TOPIC_AUTHORIZATION_FAILED")


def test_the_page_lies_beside_the_package_in_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert page_file().as_posix().endswith("docs/troubleshooting.md")
    package_folder = tmp_path / "site-packages" / "txnsim_lab"
    package_folder.mkdir(parents=True)
    monkeypatch.setattr(txnsim_lab, "__file__", str(package_folder / "__init__.py"))
    with pytest.raises(ConfigError, match="incomplete"):
        page_file()
    (package_folder / "troubleshooting.md").write_text(PAGE, "utf-8")
    assert page_file() == package_folder / "troubleshooting.md"
