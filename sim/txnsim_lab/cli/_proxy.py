"""``txnsim proxy``: runs a fault proxy in front of a Kafka cluster until a signal comes. It turns
arguments into ``ProxyOptions``, starts a ``FaultProxy`` and its control port, and prints their
addresses and what the proxy can't pass on.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from txnsim.cli.client_properties import read_client_properties
from txnsim.cli.garbage_collection import rare_garbage_collection
from txnsim.cli.output import TERMINAL
from txnsim.cli.serving.long_running import LongRunning
from txnsim.client.connection import ClientSettings
from txnsim.errors import ClientError, ConfigError
from txnsim.http.server import ControlServer
from txnsim.runtime import real_world
from txnsim.runtime.trace import TraceLevel
from txnsim.security.options import TlsFiles
from txnsim.text import host_and_port
from txnsim_lab.http.proxy import ProxyApi
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.options import PEER_PORT_DEFAULT, PORT_DEFAULT, ProxyOptions, peer_from

HTTP_PORT_DEFAULT: Final = 9081
CAN_NOT_PASS_NOTICE: Final = (
    "can't pass: client certificates (TLS ends here), GSSAPI (a ticket is for one host name)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_cluster_arguments(parser.add_argument_group("the cluster"))
    _add_address_arguments(parser.add_argument_group("addresses"))
    _add_control_arguments(parser.add_argument_group("the control port"))
    LongRunning.add_script_arguments(parser.add_argument_group("for scripts and tests"))
    LongRunning.add_log_arguments(parser.add_argument_group("what it logs"))


def _add_cluster_arguments(argument_group: argparse._ArgumentGroup) -> None:
    argument_group.add_argument(
        "--bootstrap-server",
        required=True,
        metavar="HOST:PORT",
        help="the cluster, several brokers separated by commas",
    )
    argument_group.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="client properties, as Kafka's tools read them: how the cluster is reached, and as "
        "which user the proxy looks up its brokers; clients authenticate themselves",
    )
    argument_group.add_argument(
        "--wait",
        type=float,
        default=0,
        metavar="SECONDS",
        help="how long the cluster may take to answer at the start (default: not at all)",
    )


def _add_address_arguments(argument_group: argparse._ArgumentGroup) -> None:
    argument_group.add_argument(
        "--host",
        default=ControlServer.LOOPBACK,
        help=f"where to listen (default {ControlServer.LOOPBACK})",
    )
    argument_group.add_argument(
        "--advertised-host", help="address that clients get (default: --host)"
    )
    argument_group.add_argument(
        "--port",
        type=int,
        default=PORT_DEFAULT,
        metavar="PORT",
        help=f"broker N is at this port plus N (default {PORT_DEFAULT}); 0 picks free ones",
    )
    argument_group.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NODE=HOST:PORT",
        help="where a broker really is for the others, for faults between brokers (docs/proxy.md); "
        "once for each broker",
    )
    argument_group.add_argument(
        "--peer-port",
        type=int,
        default=PEER_PORT_DEFAULT,
        metavar="PORT",
        help="brokers reach broker N at this port plus N, which it has to advertise at its "
        f"inter-broker listener (default {PEER_PORT_DEFAULT}); 0 picks free ones",
    )
    argument_group.add_argument(
        "--certificate", metavar="PEM", help="listen with TLS, with this certificate"
    )
    argument_group.add_argument("--key", metavar="PEM", help="the key of --certificate")
    argument_group.add_argument(
        "--peer-certificate",
        metavar="PEM",
        help="listen for brokers with TLS, with this certificate, and speak TLS to them",
    )
    argument_group.add_argument("--peer-key", metavar="PEM", help="the key of --peer-certificate")


def _add_control_arguments(argument_group: argparse._ArgumentGroup) -> None:
    argument_group.add_argument(
        "--http",
        type=int,
        default=HTTP_PORT_DEFAULT,
        metavar="PORT",
        help=f"the control port (default {HTTP_PORT_DEFAULT}); 0 picks a free one",
    )
    argument_group.add_argument(
        "--http-host",
        default=ControlServer.LOOPBACK,
        metavar="HOST",
        help=f"address that the control port listens on (default {ControlServer.LOOPBACK}); "
        "anywhere but on loopback it wants a token: that of TXNSIM_TOKEN, or one that is made up "
        "and printed",
    )
    argument_group.add_argument("--seed", type=int, metavar="N", help="of all chance in rules")
    argument_group.add_argument(
        "--trace",
        choices=("off", "brief", "full"),
        default="off",
        help="record connections and faults for the control port (default off)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the proxy until SIGINT or SIGTERM; returns the exit status."""
    try:
        long_running = LongRunning(args)
        options = options_from(args)
        with rare_garbage_collection():
            return real_world.run(_serve_proxy(long_running, options, args))
    except BrokenPipeError:
        raise  # the reader of what we print has gone
    except (ClientError, OSError) as error:
        TERMINAL.complain(
            f"{args.bootstrap_server}: {error}" if isinstance(error, ClientError) else str(error)
        )
        return 1


def options_from(args: argparse.Namespace) -> ProxyOptions:
    """The proxy's options from the arguments.

    Raises:
        ConfigError: A value is wrong; the message names it.
    """
    settings = ClientSettings(client_id="txnsim-proxy")
    if args.command_config is not None:
        settings, _, ignored_settings = read_client_properties(args.command_config)
        for setting_name in ignored_settings:
            TERMINAL.warn(f"{args.command_config}: {setting_name} has no effect here")
    if args.wait < 0:
        raise ConfigError(f"--wait {args.wait:g}: expected seconds, not less than 0")
    return ProxyOptions(
        bootstrap=args.bootstrap_server,
        settings=settings,
        host=args.host,
        advertised_host=args.advertised_host,
        port=args.port,
        peers=tuple(peer_from(peer_text) for peer_text in args.peer),
        peer_port=args.peer_port,
        tls=_tls_files("", args.certificate, args.key),
        peer_tls=_tls_files("peer-", args.peer_certificate, args.peer_key),
        wait_ms=round(args.wait * 1_000),
        seed=args.seed,
    )


def _tls_files(option_prefix: str, certificate: str | None, key: str | None) -> TlsFiles | None:
    """Files for listening with TLS; None for listening in plain text."""
    if certificate is not None and key is not None:
        return TlsFiles(certificate=certificate, key=key)
    if certificate is None and key is None:
        return None
    raise ConfigError(f"--{option_prefix}certificate and --{option_prefix}key: give both, or none")


async def _serve_proxy(
    long_running: LongRunning, options: ProxyOptions, args: argparse.Namespace
) -> int:
    stop_event = long_running.stop_of(args)
    environment = real_world.real_environment(
        seed=options.seed, trace_level=TraceLevel[args.trace.upper()]
    )
    proxy = FaultProxy(environment, options)
    await proxy.start()
    try:
        async with contextlib.AsyncExitStack() as exit_stack:
            server = ControlServer(
                ProxyApi(proxy),
                environment.tasks,
                port=args.http,
                host=args.http_host,
                token=long_running.token,
            )
            await exit_stack.enter_async_context(server)
            _announce(long_running, proxy, server, args)
            await stop_event.wait()
    finally:
        long_running.say_ended()
        await proxy.stop()
        await environment.tasks.close()
        long_running.end()
    return 0


def _announce(
    long_running: LongRunning, proxy: FaultProxy, server: ControlServer, args: argparse.Namespace
) -> None:
    ready_facts: dict[str, Any] = {
        "bootstrap": proxy.bootstrap,
        "http": server.url,
        "pid": os.getpid(),
        "upstream": proxy.options.bootstrap,
        "cluster_id": proxy.cluster_id,
    }
    if server.token is not None:
        ready_facts["token"] = server.token
    peer_ports = {listener.node_id: listener.port for listener in proxy.peers}
    if peer_ports:
        ready_facts["peers"] = {
            str(node_id): proxy.peers.address(node_id) for node_id in peer_ports
        }
    long_running.say_ready(args, ready_facts)
    if args.json:
        TERMINAL.data(msgspec.json.encode(ready_facts).decode())
        return
    TERMINAL.line(
        f"txnsim proxy: in front of {proxy.options.bootstrap} (cluster {proxy.cluster_id})"
    )
    TERMINAL.line(f"  bootstrap.servers={proxy.bootstrap}")
    for listener in (*proxy.clients, *proxy.peers):
        caller_words = "other brokers" if listener.is_peer else "clients"
        host, port = listener.upstream
        TERMINAL.line(
            f"    broker {listener.node_id} for {caller_words}: port {listener.port}"
            f" -> {host_and_port(host, port)}"
        )
    TERMINAL.line(f"  control port      {server.url}  (OpenAPI: {server.url}/openapi.json)")
    if server.token is not None:
        token_text = long_running.shown_token(server.token)
        TERMINAL.line(f"    its token       {token_text}  (Authorization: Bearer TOKEN)")
    if not peer_ports:
        TERMINAL.line("  no faults between brokers: give --peer for each (docs/proxy.md)")
    TERMINAL.line(f"  {CAN_NOT_PASS_NOTICE}")
    TERMINAL.line(f"  stop with Ctrl-C, or SIGTERM to the process {os.getpid()}")
