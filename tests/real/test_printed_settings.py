"""The settings that ``serve --security demo`` prints for Java, Go and Node.js: pasted as they are,
a record is sent with them. Those of Python: ``tests/clients/test_printed_settings.py``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Final

import pytest

from tests.support.apache_kafka import run_kafka_tool
from tests.support.foreign_clients import GO_SOURCES
from tests.support.package_clients import node_program
from tests.support.printed_settings import TOPIC, printed_settings

pytestmark = pytest.mark.real

TIMEOUT_S: Final = 60
BUILD_TIMEOUT_S: Final = 600

GO: Final = Template(
    """
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func main() {
	$settings
	if err != nil {
		panic(err)
	}
	record := &kgo.Record{Topic: "$topic", Value: []byte("record")}
	if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
		panic(err)
	}
	fmt.Println("sent")
}
"""
)
NODE: Final = Template(
    """
import fs from 'node:fs'
import { createRequire } from 'node:module'
const { Kafka } = createRequire($modules)('kafkajs')
const client = $settings
const producer = client.producer()
await producer.connect()
await producer.send({ topic: '$topic', messages: [{ value: 'record' }] })
await producer.disconnect()
console.log('sent')
"""
)


@pytest.fixture(scope="module")
def settings_by_library() -> Iterator[dict[str, str]]:
    """The settings that ``txnsim serve`` prints, by client library."""
    with printed_settings() as settings:
        yield settings


def test_java(settings_by_library: dict[str, str]) -> None:
    amount = ("--num-records", "1", "--record-size", "9", "--throughput", "-1")
    result = run_kafka_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", TOPIC, *amount, *settings_by_library["Java's tools"].split()),
        timeout_s=TIMEOUT_S,
    )
    assert result.code == 0, result
    assert "1 records sent" in result.stdout


def test_franz_go(settings_by_library: dict[str, str], tmp_path: Path) -> None:
    source_path, overlay_folder, program_file = (
        tmp_path / "main.go",
        tmp_path / "overlay.json",
        tmp_path / "program",
    )
    source_path.write_text(GO.substitute(settings=settings_by_library["franz-go"], topic=TOPIC))
    # In the module of our Go programs, whose libraries are there, though the file is elsewhere.
    overlay_folder.write_text(
        json.dumps({"Replace": {str(GO_SOURCES / "printed" / "main.go"): str(source_path)}})
    )
    build = (
        "go",
        "build",
        "-overlay",
        str(overlay_folder),
        "-buildvcs=false",
        "-o",
        str(program_file),
    )
    _run_program([*build, "./printed"], directory=GO_SOURCES, timeout_s=BUILD_TIMEOUT_S)
    assert _run_program([str(program_file)], directory=tmp_path) == "sent\n"


def test_kafkajs(settings_by_library: dict[str, str], tmp_path: Path) -> None:
    node_name, _, modules, _ = node_program("kafkajs")
    source_path = tmp_path / "main.mjs"
    source_path.write_text(
        NODE.substitute(
            modules=json.dumps(f"{modules}/"),
            settings=settings_by_library["KafkaJS"].strip(),
            topic=TOPIC,
        )
    )
    assert "sent\n" in _run_program([node_name, str(source_path)], directory=tmp_path)


def _run_program(command: Sequence[str], *, directory: Path, timeout_s: float = TIMEOUT_S) -> str:
    process = subprocess.run(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout
