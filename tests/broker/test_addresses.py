"""Addresses as clients take them."""

from __future__ import annotations

import pytest

from txnsim.addresses import host_and_port, read_host_and_port


@pytest.mark.parametrize(
    ("host", "port", "text"),
    [
        ("127.0.0.1", 9092, "127.0.0.1:9092"),
        ("kafka.test", 0, "kafka.test:0"),
        ("::1", 9092, "[::1]:9092"),
        ("fe80::1%eth0", 65_535, "[fe80::1%eth0]:65535"),
    ],
)
def test_an_address_is_written_as_it_is_read(host: str, port: int, text: str) -> None:
    assert host_and_port(host, port) == text
    assert read_host_and_port(text) == (host, port)


def test_brackets_may_be_missing() -> None:
    assert read_host_and_port("::1:9092") == ("::1", 9092)


@pytest.mark.parametrize("text", ["", "host", ":9092", "[]:9092", "host:", "host:65536", "host:٣"])
def test_what_is_no_address(text: str) -> None:
    assert read_host_and_port(text) is None
