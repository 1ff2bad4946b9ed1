"""A simulated cluster in a container, for testcontainers-python, which the user installs: ``pip
install testcontainers``. It is no extra of txnsim, because a package that it needs (certifi) has
the MPL.

A broker tells its clients its own address, and Testcontainers publishes ports that are not known
before the container runs. So the container first waits for a script, which is copied into it when
the ports are known and which starts the brokers with these addresses (Testcontainers' own
KafkaContainer does the same). The same class in Java, Go and Node.js is in ``helpers/``.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException
from typing import Any, Final, Self
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy
from testcontainers.core.waiting_utils import WaitStrategy

from txnsim.errors import ConfigError
from txnsim.runtime.real_world import new_token
from txnsim.testing.options import Topics, options_from_keywords

KAFKA_PORT: Final = 9092
"""Port of the first broker inside the container; those of the others follow."""
CONTROL_PORT: Final = 9080
"""Port of the control port inside the container."""
START_SCRIPT: Final = "/tmp/txnsim-start.sh"
WAIT_COMMAND: Final = f"while [ ! -f {START_SCRIPT} ]; do sleep 0.05; done; exec sh {START_SCRIPT}"
_SCRIPT_MODE: Final = 0o755
_POLL_SECONDS: Final = 0.1
_VERIFY_SECONDS: Final = 10.0
_CONFLICT_STATUS: Final = 409
"""Status of the control port's answer if a fault has never struck."""


class TxnsimContainer(DockerContainer):
    """A simulated Kafka cluster in a container.

    Args:
        image: The image, as built from the Containerfile.
        brokers: Number of brokers; each takes a port.
        topics: Initial topics: ``orders``, ``orders:3``, a list of these, or name -> partitions.
        transaction_version: Level of the feature, 0 to 2; the newest unless given.
        as_version: Kafka release to emulate, such as ``3.9``.
        settings: Settings of the brokers, by Kafka's names.
        control_token: Token of the control port, 16 to 256 letters, digits and characters of
            ``-._~+/=``; a new one for each container unless given.
        faults_may_miss: Whether a fault that never struck is no error when the container stops.
        container_arguments: Arguments of DockerContainer, such as ``name`` and ``network``.

    Raises:
        ConfigError: An option is wrong.
    """

    def __init__(
        self,
        image: str = "txnsim:latest",
        *,
        brokers: int = 3,
        topics: Topics = (),
        transaction_version: int | None = None,
        as_version: str | Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
        control_token: str | None = None,
        faults_may_miss: bool = False,
        **container_arguments: Any,
    ) -> None:
        options = options_from_keywords(
            brokers=brokers,
            topics=topics,
            transaction_version=transaction_version,
            as_version=as_version,
            settings=dict(settings or {}),
            faults_may_miss=faults_may_miss,
        )
        if options.brokers < 1:
            raise ConfigError(f"a cluster needs at least one broker, not {options.brokers}")
        options.options()  # refuses early what the container would refuse
        super().__init__(image, entrypoint=["sh"], **container_arguments)
        self._brokers = options.brokers
        self._faults_may_miss = options.faults_may_miss
        self._is_serving = False
        self._token = control_token or new_token()
        self.with_command(["-c", WAIT_COMMAND])
        self.with_exposed_ports(*range(KAFKA_PORT, KAFKA_PORT + options.brokers), CONTROL_PORT)
        environment = {
            "TXNSIM_BROKERS": str(options.brokers),
            "TXNSIM_PORT": str(KAFKA_PORT),
            "TXNSIM_HTTP_PORT": str(CONTROL_PORT),
            "TXNSIM_TOKEN": self._token,
            "TXNSIM_TOPICS": ",".join(
                f"{name}:{partition_count}" for name, partition_count in options.topics.items()
            ),
            "TXNSIM_TRANSACTION_VERSION": _property_text(options.transaction_version),
            "TXNSIM_AS_VERSION": ",".join(options.as_version),
            **{
                variable_of(name): _property_text(value) for name, value in options.settings.items()
            },
        }
        for name, value in environment.items():
            if value:
                self.with_env(name, value)
        health_strategy = HttpWaitStrategy(CONTROL_PORT, "/healthz").with_poll_interval(
            _POLL_SECONDS
        )
        self._awaited: WaitStrategy = health_strategy

    @property
    def control_token(self) -> str:
        """Token of the control port: ``Authorization: Bearer TOKEN``."""
        return self._token

    def get_bootstrap_servers(self) -> str:
        """Addresses for a client's ``bootstrap.servers``."""
        host = self.get_container_host_ip()
        ports = range(KAFKA_PORT, KAFKA_PORT + self._brokers)
        return ",".join(f"{host}:{self.get_exposed_port(port)}" for port in ports)

    def get_control_url(self) -> str:
        """URL of the control port, for faults, the clock and more; ``/openapi.json`` describes
        it.
        """
        return f"http://{self.get_container_host_ip()}:{self.get_exposed_port(CONTROL_PORT)}"

    def waiting_for(self, strategy: WaitStrategy) -> Self:
        """Set what ``start`` waits for; the health of the cluster by default."""
        self._awaited = strategy
        return self

    def start(self) -> Self:
        """Start the container, give it its addresses, and wait until every broker
        serves clients.
        """
        super().start()
        archive = _script_archive(start_script(self.get_bootstrap_servers()))
        self.get_wrapped_container().put_archive("/", archive)
        self._awaited.wait_until_ready(self)
        self._is_serving = True
        return self

    def stop(  # its arguments are those of DockerContainer
        self,
        force: bool = True,  # noqa: FBT001, FBT002 - theirs
        delete_volume: bool = True,  # noqa: FBT001, FBT002 - theirs
    ) -> None:
        """Stops and removes the container; the end of a ``with`` block does the same.

        Raises:
            AssertionError: An armed fault has never struck, or the control port does not answer,
                and no other exception is being raised.
        """
        __tracebackhide__ = True
        checks_faults = self._is_serving and not self._faults_may_miss and sys.exception() is None
        self._is_serving = False
        try:
            if checks_faults:
                self._assert_all_faults_struck()
        finally:
            super().stop(force, delete_volume)

    def _assert_all_faults_struck(self) -> None:
        __tracebackhide__ = True
        try:
            verification = Request(f"{self.get_control_url()}/api/v1/faults/verify", method="POST")
            verification.add_header("Authorization", f"Bearer {self._token}")
            build_opener(ProxyHandler({})).open(verification, timeout=_VERIFY_SECONDS).close()
        except HTTPError as error:
            with error:
                error_text = error.read().decode(errors="replace")
            if error.code == _CONFLICT_STATUS:
                error_text = json.loads(error_text)["error"]
            raise AssertionError(error_text) from None
        except (OSError, HTTPException) as error:
            raise AssertionError(
                f"whether every fault has struck can't be asked: {error}. If the container is to "
                "end before its test, give it faults_may_miss=True"
            ) from error


def start_script(bootstrap_addresses: str) -> str:
    """The script for which the container waits: it starts the brokers, which tell clients these
    addresses.
    """
    return (
        "#!/bin/sh\n"
        f"export TXNSIM_ADVERTISED='{bootstrap_addresses}'\n"
        "exec python -m txnsim.testing.container --ready-coordinators\n"
    )


def variable_of(setting_name: str) -> str:
    """The environment variable of a setting, as in the image apache/kafka."""
    variable_suffix = setting_name.replace("_", "__").replace("-", "___").replace(".", "_")
    return f"KAFKA_{variable_suffix.upper()}"


def _property_text(value: object) -> str:
    """The value as text for server.properties."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)


def _script_archive(script_text: str) -> bytes:
    script_bytes = script_text.encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        script_file = tarfile.TarInfo(START_SCRIPT.lstrip("/"))
        script_file.size, script_file.mode = len(script_bytes), _SCRIPT_MODE
        tar.addfile(script_file, io.BytesIO(script_bytes))
    return buffer.getvalue()
