"""The bytes of docs/first-client.md are sent, and what comes back is what it shows."""

from __future__ import annotations

import re
import socket  # noqa: TID251 - a client that has nothing else
from pathlib import Path
from typing import Final

from txnsim.testing import SimulatedKafka

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "first-client.md"


def bytes_of(section_text: str, sign: str) -> bytes:
    blocks = re.findall(rf"^{sign} ((?:[0-9a-f]{{2}} )+)", section_text, re.MULTILINE)
    return bytes.fromhex("".join(blocks))


def exchange_bytes(address: str, request: bytes) -> bytes:
    """The bytes of the broker's answer, or those received before it closed the connection."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        wire.sendall(request)
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
            chunk = wire.recv(65_536)
            if not chunk:
                break
            answer += chunk
        return answer


def test_the_bytes_of_the_page_are_answered_as_it_shows() -> None:
    sections = PAGE.read_text("utf-8").split("\n### ")[1:4]
    with SimulatedKafka(brokers=1, trace="brief") as kafka:
        for section_text in sections:
            request = bytes_of(section_text, ">")
            assert int.from_bytes(request[:4], "big") == len(request) - 4, section_text
            answer = exchange_bytes(kafka.bootstrap, request)
            expected_answer = bytes_of(section_text, "<")
            assert answer[: len(expected_answer)] == expected_answer, answer.hex(" ")
            if not expected_answer:
                assert answer == b"", "the connection is closed"
                reason = section_text.split("bad request\n")[1].splitlines()[0]
                (refusal_event,) = kafka.trace.events(kind="conn.refuse")
                assert refusal_event.d["reason"] == reason
