"""An S3 server that runs on this machine."""

from __future__ import annotations

import subprocess
import sys
import time  # noqa: TID251 - processes on the real machine
from abc import abstractmethod
from pathlib import Path
from typing import Any, Final

from tests.support.apache_kafka import accepts, free_ports
from tests.support.hadoop_jars import s3a_jars
from tests.support.lifetime import ManagedResource

HOST: Final = "127.0.0.1"
_START_TIMEOUT_S: Final = 300.0
_STOP_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.2
BUCKET: Final = "logs"
_REGION: Final = "us-east-1"
_KEY: Final = "any"
"""Any key: moto does not check it."""


class StoreServer(ManagedResource):
    """A server as a context manager; its process is ended by its id.

    Args:
        directory: For its files and its log; its owner removes it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._port, self._other_port = free_ports(2)

    def _on_enter(self) -> None:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._await()

    def _on_exit(self, error: BaseException | None) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None, "it runs"
        return self._process.pid

    @property
    @abstractmethod
    def uri(self) -> str:
        """The URI of the folder that receives directories."""

    @property
    @abstractmethod
    def config(self) -> dict[str, str]:
        """Spark's settings for this store."""

    @property
    def settings(self) -> tuple[str, ...]:
        """Options for a command that does not start Spark."""
        return tuple(f"--spark-conf={setting_text}" for setting_text in self.hadoop)

    @property
    def hadoop(self) -> tuple[str, ...]:
        """Hadoop's part of the store's settings, as ``NAME=VALUE``."""
        return tuple(
            f"{name}={setting_value}"
            for name, setting_value in self.config.items()
            if name.startswith("spark.hadoop.")
        )

    @abstractmethod
    def upload(self, directory: Path, name: str) -> None:
        """Copy a directory of this machine into the store."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The server's command line."""

    @abstractmethod
    def _accepts_connections(self) -> bool:
        """Whether the server answers."""

    @property
    def log(self) -> Path:
        """The server's log; moto writes a line per request."""
        return self._directory / "server.log"

    def _await(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._accepts_connections():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{self._command()[0]}:\n{self.log.read_text()[-4_000:]}")
            time.sleep(_POLL_S)


class S3Store(StoreServer):
    """moto's server."""

    uri = f"s3a://{BUCKET}"

    @property
    def config(self) -> dict[str, str]:
        """The server's address, any key, and the connector's jars."""
        return {
            "spark.jars": ",".join(sorted(map(str, s3a_jars().glob("*.jar")))),
            "spark.hadoop.fs.s3a.endpoint": self._url,
            "spark.hadoop.fs.s3a.endpoint.region": _REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": _KEY,
            "spark.hadoop.fs.s3a.secret.key": _KEY,
        }

    def upload(self, directory: Path, name: str) -> None:
        """Upload each file as an object."""
        client = self._client()
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                key = f"{name}/{path.relative_to(directory)}"
                client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())

    @property
    def _url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self._port)]

    def _accepts_connections(self) -> bool:
        if not accepts(self._port):
            return False
        self._client().create_bucket(Bucket=BUCKET)
        return True

    def _client(self) -> Any:
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self._url,
            region_name=_REGION,
            aws_access_key_id=_KEY,
            aws_secret_access_key=_KEY,
        )
