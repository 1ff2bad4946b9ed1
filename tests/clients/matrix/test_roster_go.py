"""The Go clients' versions in the roster are the ones that are compiled in."""

from __future__ import annotations

import re

import pytest

from tests.clients.matrix.client import Client
from tests.clients.matrix.roster.go import CLIENTS
from tests.support.foreign_clients import GO_PROGRAMS, GO_SOURCES

_MODULES = {
    "franz-go": "github.com/twmb/franz-go",
    "Sarama": "github.com/IBM/sarama",
    "confluent-kafka-go": "github.com/confluentinc/confluent-kafka-go/v2",
}


@pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])
def test_a_version_is_that_of_the_module(client: Client) -> None:
    required = dict(re.findall(r"^\t(\S+) v(\S+)$", (GO_SOURCES / "go.mod").read_text(), re.M))
    assert required[_MODULES[client.name]] == client.version


def test_every_program_has_its_package() -> None:
    assert all((GO_SOURCES / name / "main.go").exists() for name in GO_PROGRAMS)
