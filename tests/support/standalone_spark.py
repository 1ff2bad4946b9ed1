"""A standalone Spark cluster on this machine: a master and workers as processes of their own, from
the jars that PySpark brings along.

What the tasks of an application did is read from its event log, which Spark's driver writes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyspark

from tests.support.apache_kafka import free_ports
from tests.support.lifetime import ManagedResource
from tests.support.patience import until
from tests.support.quick_spark import quick_environment

HOST: Final = "127.0.0.1"
WORKERS: Final = 2
_START_TIMEOUT_S: Final = 180.0
_PAUSE_S: Final = 0.2
_STOP_TIMEOUT_S: Final = 20.0
_DAEMON_MEMORY: Final = "128m"
WORKER_MEMORY: Final = "512m"
DEFAULTS: Final = {
    "spark.executor.memory": WORKER_MEMORY,
    "spark.driver.memory": "512m",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    # No task before every worker has made its executor: a job may else be over with the first one.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    # How long a result waits for Python, which is slow on a busy machine: 15 s otherwise.
    "spark.python.authenticate.socketTimeout": "300s",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
"""Spark's defaults for applications."""


class SparkTask(NamedTuple):
    """A task that ended well."""

    stage: int
    executor: str


class StandaloneSpark(ManagedResource):
    """A cluster as a context manager; its processes are ended by their ids.

    Args:
        directory: For logs, work, configuration and event logs; its owner removes it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._events = directory / "events"
        self._defaults = directory / "spark-defaults.conf"
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        """Processes by number; 0 is the master."""
        self._spawned = 0
        self._port, self._web_port = free_ports(2)

    def _on_enter(self) -> None:
        self._events.mkdir(parents=True)
        settings = {**DEFAULTS, "spark.eventLog.dir": self._events.as_uri()}
        self._defaults.write_text(
            "".join(
                f"{setting_name} {setting_value}\n"
                for setting_name, setting_value in settings.items()
            )
        )
        ports = ("--port", str(self._port), "--webui-port", str(self._web_port))
        self._processes[0] = self._spawn_process(
            "org.apache.spark.deploy.master.Master", "--host", HOST, *ports
        )
        self._await(lambda state: state["status"] == "ALIVE", "the master")
        self._start_workers()

    def _on_exit(self, error: BaseException | None) -> None:
        """Stop the workers first, as they end their executors."""
        for _, process in sorted(self._processes.items(), reverse=True):
            process.terminate()
            try:
                process.wait(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    @property
    def url(self) -> str:
        """The master's URL, for ``--master``."""
        return f"spark://{HOST}:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment for an application on this cluster: our defaults of Spark, and this
        Python.
        """
        return {
            **quick_environment(),
            "SPARK_HOME": str(_home()),
            # Not SPARK_CONF_DIR: that is a part of the class path, and shared classes go by it.
            "PYSPARK_SUBMIT_ARGS": f"--properties-file {self._defaults} pyspark-shell",
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    def submit(
        self, script_file: Path, *args: str, config: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """``spark-submit`` of a script to this master."""
        settings = [
            f"--conf={name}={setting_value}" for name, setting_value in (config or {}).items()
        ]
        program = [str(_home() / "bin" / "spark-submit"), "--master", self.url]
        defaults = ("--properties-file", str(self._defaults))
        return self.run(*program, *defaults, *settings, str(script_file), *args)

    def begin(self, *command: str) -> subprocess.Popen[str]:
        """Start a command with our environment, without waiting for its end."""
        return subprocess.Popen(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors, as if their machine were lost.

        Args:
            number: 1 or above; its directory is ``worker-NUMBER``.
        """
        worker = self._processes.pop(number)
        children = Path(f"/proc/{worker.pid}/task").glob("*/children")
        executors = [int(pid) for path in children for pid in path.read_text().split()]
        for process in (worker.pid, *executors):
            os.kill(process, signal.SIGKILL)
        worker.wait()

    def replace_killed(self) -> None:
        """Start a new worker for each that was killed."""
        self._await_workers(len(self._processes) - 1)  # the master has noticed
        self._start_workers()

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command with our environment."""
        return subprocess.run(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    # What happened

    def tasks(self) -> list[SparkTask]:
        """The successful tasks of the last application that has ended."""
        return [
            SparkTask(event["Stage ID"], event["Task Info"]["Executor ID"])
            for event in self.task_ends()
            if event["Task End Reason"]["Reason"] == "Success"
        ]

    def task_ends(self) -> list[Any]:
        """What Spark's driver wrote of each task that ended, well or not; read off the event log of
        the last application, which is removed.
        """
        (path,) = [path for path in self._events.iterdir() if not path.name.endswith(".inprogress")]
        events = [json.loads(line) for line in path.read_text().splitlines()]
        path.unlink()
        return [event for event in events if event["Event"] == "SparkListenerTaskEnd"]

    def state(self) -> Any:
        """The master's JSON about workers and applications."""
        url = f"http://{HOST}:{self._web_port}/json/"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)

    # Processes

    def _start_workers(self) -> None:
        for worker_number in range(1, WORKERS + 1):
            if worker_number not in self._processes:
                self._processes[worker_number] = self._spawn_worker(worker_number)
        self._await_workers(WORKERS)

    def _spawn_worker(self, number: int) -> subprocess.Popen[bytes]:
        (port,) = free_ports(1)
        work_folder = self._directory / f"worker-{number}"
        return self._spawn_process(
            "org.apache.spark.deploy.worker.Worker",
            *("--host", HOST, "--webui-port", str(port), "--work-dir", str(work_folder)),
            *("--cores", "1", "--memory", WORKER_MEMORY, self.url),
        )

    def _await_workers(self, count: int) -> None:
        self._await(lambda state: state["aliveworkers"] == count, f"{count} workers")

    def _await(self, is_so: Callable[[Any], bool], expectation: str) -> None:
        def ask() -> Any:
            for process in self._processes.values():
                assert process.poll() is None, self._log_tails()
            try:
                return self.state()
            except OSError:
                # It does not listen yet: it needs the processor more than we do.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._processes[0].wait(_PAUSE_S)
                return None
            except json.JSONDecodeError:
                return None  # pages of the web UI are attached one by one; another one answered

        until(
            ask,
            lambda state: state is not None and is_so(state),
            expectation,
            patience_s=_START_TIMEOUT_S,
        )

    def _log_tails(self) -> str:
        return "\n".join(path.read_text()[-2_000:] for path in self._directory.glob("*.log"))

    def _spawn_process(self, main_class: str, *args: str) -> subprocess.Popen[bytes]:
        environment = {**self.environment, "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY}
        log = self._directory / f"{main_class.rpartition('.')[2]}-{self._spawned}.log"
        self._spawned += 1
        with log.open("wb") as output:
            return subprocess.Popen(  # the script becomes the JVM, so its id is the JVM's
                [str(_home() / "bin" / "spark-class"), main_class, *args],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )


def _home() -> Path:
    (folder_path,) = pyspark.__path__
    return Path(folder_path)
