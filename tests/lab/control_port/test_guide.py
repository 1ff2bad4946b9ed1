"""The examples of docs/control-api.md, run in their order against a control port: every answer
begins as the page says.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import pytest

from tests.support.clusters import real_cluster
from txnsim.http._app import ControlApi

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "control-api.md"


class Example(NamedTuple):
    """A command and the line that it prints; what comes after … is left out."""

    line: int
    words: list[str]
    printed: str


def examples() -> list[Example]:
    examples_read = []
    lines = PAGE.read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        if line.startswith("$ curl "):
            examples_read.append(Example(number + 1, shlex.split(line[2:]), lines[number + 1]))
    return examples_read


@pytest.mark.costly
@pytest.mark.slow
async def test_the_guide_shows_what_is_answered() -> None:
    async with real_cluster(topics=(("orders", 3),)) as sim:
        api = ControlApi(sim)
        transport = httpx.ASGITransport(app=api.app())
        async with httpx.AsyncClient(transport=transport, timeout=120) as client:
            for example in examples():
                answer = await client.request(*request_of(example.words), content=body(example))
                assert begins_as(answer.text, example.printed), (
                    f"{PAGE.name}:{example.line}: {answer.text[:500]}"
                )
                is_refusal = example.printed.startswith('{"error":"')
                assert (answer.status_code >= 400) == is_refusal, f"{PAGE.name}:{example.line}"
        api.close()


def request_of(arguments: list[str]) -> tuple[str, str]:
    """Method and URL of a curl command."""
    (url,) = (argument for argument in arguments if argument.startswith("http://"))
    implied = "POST" if "-d" in arguments else "GET"
    return (arguments[arguments.index("-X") + 1] if "-X" in arguments else implied), url


def body(example: Example) -> str | None:
    example_words = example.words
    return example_words[example_words.index("-d") + 1] if "-d" in example_words else None


def begins_as(text: str, shown_text: str) -> bool:
    """Whether the output begins as the text does before its first …, with any port numbers."""
    expected_part, ellipsis, _ = shown_text.partition("…")
    expected_text, printed_text = _without_ports(expected_part), _without_ports(text)
    return (
        printed_text.startswith(expected_text)
        if ellipsis
        else printed_text.strip() == expected_text
    )


def _without_ports(text: str) -> str:
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", text)


def test_the_comparison_can_fail() -> None:
    assert begins_as('{"a":1,"b":2}', '{"a":1,…')
    assert not begins_as('{"a":2}', '{"a":1,…')
    assert not begins_as('{"a":1,"b":2}', '{"a":1}')
    assert len(examples()) > 15
