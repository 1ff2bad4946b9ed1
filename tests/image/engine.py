"""Stands for a container engine where none can run: the part of Docker's HTTP API that the
Testcontainers libraries speak, over processes.

A container is a process in network, mount and process namespaces of its own: its ports are its own,
so that only what is published can be reached, its /tmp is its own, and it is process 1. It sees the
files of this machine, or those of an image (``root``). A published port is a listener here that
connects inside. Root on Linux; standard library only::

    python -m tests.image.engine              # prints DOCKER_HOST and serves until Ctrl-C
"""

from __future__ import annotations

import ctypes
import fcntl
import io
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from tests.support.apache_kafka import REPOSITORY

IMAGE: Final = "txnsim:latest"
API_VERSION: Final = "1.44"
_ROOT: Final = Path("/")
_NEW_NETWORK: Final = 0x40000000
"""CLONE_NEWNET."""
_BUFFER: Final = 65_536
_STDOUT: Final = 1
_UPGRADED: Final = 101


class EngineError(Exception):
    """A container can't be made here; the message says why."""


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """A container image: its files and its settings."""

    name: str = IMAGE
    root: Path = _ROOT
    """The files that a container sees."""
    entry_point: tuple[str, ...] = ("python", "-m", "txnsim.testing.container")
    environment: tuple[str, ...] = ()
    user: str = ""
    kept_paths: tuple[Path, ...] = ()
    """Folders that a container still sees where its own ``/tmp`` would hide them."""


def checkout() -> Image:
    """This repository as it stands, without any image: ``python`` is the one that runs us."""
    python_program = Path(sys.executable).parent
    return Image(
        environment=(
            f"PATH={python_program}:/usr/sbin:/usr/bin:/sbin:/bin",
            f"PYTHONPATH={REPOSITORY / 'sim'}",
            "HOME=/tmp",
        ),
        kept_paths=(REPOSITORY, Path(sys.prefix), Path(sys.base_prefix)),
    )


class Engine:
    """Serves on a free port of loopback while it is entered."""

    def __init__(self, image: Image | None = None) -> None:
        if os.geteuid() != 0:
            raise EngineError("namespaces of networks and mounts: only root can make them here")
        self.image = image or checkout()
        self.containers: dict[str, Container] = {}
        self.commands: dict[str, tuple[Container, Sequence[str]]] = {}
        """Those that are to run in a container, by their id."""
        self.statuses: dict[str, int] = {}
        self.made = 0
        self.places = Path(tempfile.mkdtemp(prefix="txnsim-engine-"))
        engine = self

        class Handler(_Handler):
            """Answers HTTP requests to this engine."""

            def engine(self) -> Engine:
                return engine

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """The value for DOCKER_HOST."""
        return f"tcp://127.0.0.1:{self._server.server_address[1]}"

    def variables(self) -> dict[str, str]:
        """Environment variables for Testcontainers: this engine's address, no clean-up."""
        return {
            "DOCKER_HOST": self.address,
            "TESTCONTAINERS_RYUK_DISABLED": "true",
            # In a container of its own a library would look for ours on a bridge.
            "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
            "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
            "TXNSIM_TEST_IMAGE": self.image.name,
        }

    def __enter__(self) -> Engine:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for container in self.containers.values():
            container.kill()
        shutil.rmtree(self.places)


class Container:
    """A container, from its creation on."""

    def __init__(
        self, image: Image, request: Mapping[str, Any], folder: Path, *, number: int
    ) -> None:
        self.id = f"{number:064x}"
        self.image = image
        self.wanted = request
        self._output = folder / self.id
        self._output.touch()
        self._process: subprocess.Popen[bytes] | None = None
        self._inside = 0
        """The process id of its process 1."""
        self._listeners: dict[str, socket.socket] = {}

    def start(self) -> None:
        """Start its process and publish its ports.

        Raises:
            EngineError: It was gone before it ran.
        """
        environment = [*self.image.environment, *(self.wanted.get("Env") or ())]
        entry_point = self.wanted.get("Entrypoint") or self.image.entry_point
        story = {
            "root": str(self.image.root),
            "user": self.image.user,
            "kept": [str(path) for path in self.image.kept_paths],
            "environment": dict(setting.split("=", 1) for setting in environment),
            "command": [*entry_point, *(self.wanted.get("Cmd") or ())],
        }
        read_end, telling = os.pipe()
        with self._output.open("wb") as output:
            isolation_command = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child")
            self._process = subprocess.Popen(
                [*isolation_command, sys.executable, str(Path(__file__)), "--inside", str(telling)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                pass_fds=(telling,),
            )
        os.close(telling)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(story).encode())
        self._process.stdin.close()
        with os.fdopen(read_end) as line:
            if not line.readline():  # closed by exec, after the line, or by its end
                raise EngineError(f"no container: {self._output.read_text()}")
        children = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
        self._inside = int(Path(children).read_text().split()[0])
        for port in self.wanted.get("ExposedPorts") or {}:
            self._publish(port)

    def _publish(self, port: str) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self._listeners[port] = listener
        number = int(port.partition("/")[0])
        threading.Thread(target=self._serve, args=(listener, number), daemon=True).start()

    def _serve(self, listener: socket.socket, port: int) -> None:
        while True:
            try:
                outer_socket, _ = listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._carry, args=(outer_socket, port), daemon=True).start()

    def _carry(self, outer_socket: socket.socket, port: int) -> None:
        """Copy the bytes of one connection, in a thread in the container's network."""
        with outer_socket:
            try:
                namespace = os.open(f"/proc/{self._inside}/ns/net", os.O_RDONLY)
            except OSError:
                return  # the container has ended
            try:
                if ctypes.CDLL(None, use_errno=True).setns(namespace, _NEW_NETWORK) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            finally:
                os.close(namespace)
            try:
                inner = socket.create_connection(("127.0.0.1", port))
            except OSError:
                return  # nothing listens there yet: as a client of Docker's proxy sees it
            with inner:
                back_thread = threading.Thread(
                    target=_pump, args=(inner, outer_socket), daemon=True
                )
                back_thread.start()
                _pump(outer_socket, inner)
                back_thread.join()

    def unpack(self, path: str, archive: bytes) -> None:
        """Unpack a tar archive inside."""
        root = Path(f"/proc/{self._inside}/root")
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar.getmembers():
                if not member.isfile():
                    continue
                content = tar.extractfile(member)
                assert content is not None
                target_path = root / path.lstrip("/") / member.name.lstrip("/")
                # Whole or not at all: somebody waits for it inside.
                partial_file = target_path.with_name(target_path.name + ".partial")
                partial_file.write_bytes(content.read())
                partial_file.chmod(member.mode or 0o644)
                partial_file.replace(target_path)

    def execute(self, command: Sequence[str]) -> tuple[int, bytes]:
        """Run a command inside, as the container's user: its status, and what it printed."""
        user_name, _, group = (self.image.user or "0:0").partition(":")
        enter = ("nsenter", "--target", str(self._inside), "--net", "--mount", "--pid", "--root")
        enter_command = (*enter, "--wd", "--setuid", user_name, "--setgid", group)
        finished_process = subprocess.run(
            [*enter_command, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return finished_process.returncode, finished_process.stdout

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def stop(self, patience_s: float) -> None:
        """SIGTERM to its process 1, and SIGKILL to one that does not end by that."""
        if self._process is None or not self.is_running:
            return
        os.kill(self._inside, signal.SIGTERM)
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, and unpublish its ports."""
        if self._process is not None and self._process.poll() is None:
            if self._inside:
                # By its own number: a process that becomes another user forgets --kill-child.
                os.kill(self._inside, signal.SIGKILL)  # unshare ends with it
            else:
                self._process.kill()
        if self._process is not None:
            self._process.wait()
        while self._listeners:
            self._listeners.popitem()[1].close()

    def logs(self) -> bytes:
        """The container's output, as one frame of Docker's stream."""
        return _frame(self._output.read_bytes())

    def describe(self) -> dict[str, Any]:
        """The container in the form of ``docker inspect``."""
        status = "running" if self.is_running else "created" if self._process is None else "exited"
        code = None if self._process is None else self._process.poll()
        published = {
            port: [{"HostIp": "127.0.0.1", "HostPort": str(listener.getsockname()[1])}]
            for port, listener in self._listeners.items()
        }
        return {
            "Id": self.id,
            "Name": f"/txnsim-{self.id[-12:]}",
            "Created": "2026-01-01T00:00:00.000000000Z",
            "Image": f"sha256:{self.id}",
            "State": {
                "Status": status,
                "Running": self.is_running,
                "Paused": False,
                "Restarting": False,
                "OOMKilled": False,
                "Dead": False,
                "Pid": self._inside,
                "ExitCode": code or 0,
                "Error": "",
                "StartedAt": "2026-01-01T00:00:00.000000000Z",
                "FinishedAt": "0001-01-01T00:00:00Z",
            },
            "Config": {**self.wanted, "Hostname": self.id[:12]},
            "HostConfig": self.wanted.get("HostConfig") or {},
            "NetworkSettings": {
                "Ports": published,
                "Networks": {"bridge": {"NetworkID": "bridge", "IPAddress": "127.0.0.1"}},
            },
        }


def _frame(text: bytes) -> bytes:
    return struct.pack(">BxxxL", _STDOUT, len(text)) + text if text else b""


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := source.recv(_BUFFER):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it was closed before


# The API


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def engine(self) -> Engine:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a test tells what went wrong."""

    def _answer(self) -> None:
        body = self._body()
        split = urlsplit(self.path)
        path = re.sub(r"^/v\d+\.\d+", "", split.path)
        query = {
            parameter_name: values[-1] for parameter_name, values in parse_qs(split.query).items()
        }
        for method, pattern, make_answer in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and self.command in method.split():
                try:
                    status, content = make_answer(self.engine(), match.groups(), query, body)
                except KeyError:
                    status, content = 404, {"message": f"no such thing: {path}"}
                except EngineError as failure:
                    status, content = 500, {"message": str(failure)}
                self._send(status, content)
                return
        self._send(501, {"message": f"tests/image/engine.py has no {self.command} {path}"})

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size_bytes := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size_bytes))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(chunks)

    def _send(self, status: int, content: object) -> None:
        is_bytes = isinstance(content, bytes)
        encoded = content if isinstance(content, bytes) else json.dumps(content).encode()
        if status in (204, 304):
            encoded = b""
        if status == _UPGRADED:  # the connection is a stream of frames from here on
            self.send_response(status)
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", "tcp")
            self.end_headers()
            self.wfile.write(encoded)
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Api-Version", API_VERSION)
        self.send_header("Ostype", "linux")
        kind = "application/octet-stream" if is_bytes else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(encoded)


_Answer = tuple[int, object]
_Query = Mapping[str, str]


def _version(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    fields = {"Version": "27.0.0", "ApiVersion": API_VERSION, "MinAPIVersion": "1.24"}
    return 200, {**fields, "Os": "linux", "Arch": "amd64"}


def _info(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    fields = {"ID": "txnsim", "ServerVersion": "27.0.0", "OperatingSystem": "namespaces"}
    return 200, {
        **fields,
        "OSType": "linux",
        "Architecture": "x86_64",
        "NCPU": 2,
        "MemTotal": 1 << 33,
    }


def _networks(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    return 200, [_bridge()]


def _network(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    return 200, _bridge()


def _bridge() -> dict[str, object]:
    gateway = {"Config": [{"Subnet": "127.0.0.0/8", "Gateway": "127.0.0.1"}]}
    return {"Name": "bridge", "Id": "bridge", "Driver": "bridge", "Scope": "local", "IPAM": gateway}


def _image(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    if path_groups[0] != engine.image.name:
        raise KeyError(path_groups[0])
    return 200, {"Id": "sha256:txnsim", "RepoTags": [engine.image.name], "Config": {}}


def _images(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    return 200, [{"Id": "sha256:txnsim", "RepoTags": [engine.image.name], "Created": 0}]


def _containers(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    return 200, []


def _create(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    request = json.loads(body)
    if request["Image"] != engine.image.name:
        raise KeyError(request["Image"])
    engine.made += 1
    container = Container(engine.image, request, engine.places, number=engine.made)
    engine.containers[container.id] = container
    return 201, {"Id": container.id, "Warnings": []}


def _start(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    engine.containers[path_groups[0]].start()
    return 204, None


def _inspect(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    return 200, engine.containers[path_groups[0]].describe()


def _logs(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    return 200, engine.containers[path_groups[0]].logs()


def _answer_put(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    engine.containers[path_groups[0]].unpack(query["path"], body)
    return 200, b""


def _exec(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    exec_id = f"{len(engine.commands):064x}"
    engine.commands[exec_id] = (engine.containers[path_groups[0]], json.loads(body)["Cmd"])
    return 201, {"Id": exec_id}


def _exec_start(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    container, command = engine.commands[path_groups[0]]
    engine.statuses[path_groups[0]], output = container.execute(command)
    return _UPGRADED, _frame(output)


def _exec_inspect(
    engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes
) -> _Answer:
    container, _ = engine.commands[path_groups[0]]
    status = engine.statuses.get(path_groups[0])
    fields = {"ID": path_groups[0], "ContainerID": container.id, "Running": status is None}
    return 200, {**fields, "ExitCode": status}


def _stop(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    engine.containers[path_groups[0]].stop(float(query.get("t", 10)))
    return 204, None


def _kill(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    engine.containers[path_groups[0]].kill()
    return 204, None


def _remove(engine: Engine, path_groups: Sequence[str], query: _Query, body: bytes) -> _Answer:
    engine.containers.pop(path_groups[0]).kill()
    return 204, None


_ONE: Final = r"/containers/([0-9a-f]{64})"
_ROUTES: Final[
    Sequence[tuple[str, str, Callable[[Engine, Sequence[str], _Query, bytes], _Answer]]]
] = (
    ("GET HEAD", "/_ping", lambda *_: (200, "OK")),
    ("GET", "/version", _version),
    ("GET", "/info", _info),
    ("GET", "/networks", _networks),
    ("GET", "/networks/bridge", _network),
    ("GET", "/images/json", _images),
    ("GET", "/images/(.+)/json", _image),
    ("GET", "/containers/json", _containers),
    ("POST", "/containers/create", _create),
    ("POST", f"{_ONE}/start", _start),
    ("GET", f"{_ONE}/json", _inspect),
    ("GET", f"{_ONE}/logs", _logs),
    ("PUT", f"{_ONE}/archive", _answer_put),
    ("POST", f"{_ONE}/exec", _exec),
    ("POST", "/exec/([0-9a-f]{64})/start", _exec_start),
    ("GET", "/exec/([0-9a-f]{64})/json", _exec_inspect),
    ("POST", f"{_ONE}/stop", _stop),
    ("POST", f"{_ONE}/kill", _kill),
    ("DELETE", _ONE, _remove),
)


# Inside of the namespaces


def _become(telling: int) -> None:
    """Set up the container's environment, then replace this process by its command."""
    story = json.loads(sys.stdin.buffer.read())
    with socket.socket() as any_socket:  # loopback is down in a new network
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS
    root = Path(story["root"])
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    tmp = root / "tmp"
    hidden_paths = [Path(path) for path in story["kept"] if tmp in Path(path).parents]
    descriptors = [os.open(path, os.O_PATH) for path in hidden_paths]
    for kind, path in (("tmpfs", tmp), ("proc", root / "proc")):
        subprocess.run(["mount", "-t", kind, kind, str(path)], check=True)
    tmp.chmod(0o1777)
    for path, descriptor_number in zip(hidden_paths, descriptors, strict=True):
        path.mkdir(parents=True, exist_ok=True)
        # By its descriptor: its name leads into the new /tmp by now.
        source = f"/proc/self/fd/{descriptor_number}"
        bind = ("mount", "--no-canonicalize", "--bind", source, str(path))
        subprocess.run(bind, check=True, pass_fds=(descriptor_number,))
        os.close(descriptor_number)
    if root != _ROOT:
        subprocess.run(["mount", "--rbind", "/dev", str(root / "dev")], check=True)
        os.chroot(root)
        os.chdir("/")
    if story["user"]:
        user, _, group = story["user"].partition(":")
        os.setgroups([])
        os.setgid(int(group))
        os.setuid(int(user))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.write(telling, b"here\n")
    os.set_inheritable(telling, False)
    command, environment = story["command"], story["environment"]
    os.execvpe(command[0], command, environment)


def main(argv: Sequence[str]) -> int:
    """Serve until the end of standard input, or Ctrl-C."""
    if argv[:1] == ["--inside"]:
        _become(int(argv[1]))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    with Engine() as engine:
        for variable_name, variable_value in engine.variables().items():
            sys.stdout.write(f"export {variable_name}={variable_value}\n")
        sys.stdout.flush()
        # Both end it in order, so that no container stays behind.
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
