"""What the kit of Apache Kafka's own tests starts ends with its JVM, also where that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.peers.java import lasting_brokers
from tests.support.apache_kafka import accepts
from tests.support.patience import until


@pytest.mark.real
def test_brokers_end_with_a_jvm_that_is_killed(tmp_path: Path) -> None:
    command = lasting_brokers(f"-Djava.io.tmpdir={tmp_path}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as jvm:
        assert jvm.stdout is not None
        port = int(jvm.stdout.readline().rsplit(":", 1)[1])
        assert accepts(port)
        jvm.kill()
    try:
        until(lambda: accepts(port), lambda answers: not answers, "the port is closed")
    except AssertionError:
        (ready_file,) = tmp_path.glob("*/ready.json")
        os.kill(json.loads(ready_file.read_text())["pid"], signal.SIGKILL)
        raise
