"""``txnsim serve``: start a cluster and keep it until a signal comes.

This module knows nothing of Kafka: it turns arguments into ``ClusterOptions``, starts a
``SimCluster``, prints its addresses, and stops it. The control port is imported only when asked
for, and after the brokers listen.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import importlib
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim import VERSION
from txnsim import settings as settings_module
from txnsim.api.memory_limit import SHARE_OF_MACHINE, MemoryMark
from txnsim.cli import _serve_load as serve_load
from txnsim.cli.garbage_collection import (
    freeze_present_objects,
    no_garbage_collection,
    rare_garbage_collection,
)
from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import CommandParser, new_folder
from txnsim.cli.serving.long_running import LongRunning
from txnsim.environment_variables import words_of
from txnsim.errors import ConfigError
from txnsim.metadata.configs import text
from txnsim.metadata.image import TRANSACTION_VERSION
from txnsim.on_demand_imports import OnDemand
from txnsim.releases import PROPOSALS, REFERENCE, RELEASES
from txnsim.runtime import real_world
from txnsim.runtime.switch_interval import with_short_switch_interval
from txnsim.runtime.trace import TraceLevel
from txnsim.security.options import NO_SECURITY
from txnsim.server.cluster import SimCluster
from txnsim.server.options import (
    KIP_TEXT_PORT_DISTANCE,
    ClusterOptions,
    check_release,
    topics_of,
    with_proposal,
)
from txnsim.settings import CAPPED, Setting, Settings, replicas_wanted
from txnsim.text import EVERYWHERE, PORT_MAX, read_host_and_port, read_size, spoken_size

if TYPE_CHECKING:
    from txnsim.cli import _security_settings as security_settings
    from txnsim.http.server import ControlServer
    from txnsim.server import security_demo
    from txnsim.server.security_demo import DemoFiles
    from txnsim.storage.disks import Disks
else:
    security_demo = OnDemand("txnsim.server.security_demo")
    security_settings = OnDemand("txnsim.cli._security_settings")


HTTP_PORT_DEFAULT: Final = 9080

Prepare = Callable[[SimCluster, str | None], Awaitable[tuple[str, ...]]]
"""Prepares a situation in the cluster, and returns the lines of its exercise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Environment variables say the same for containers and scripts, as TXNSIM_BROKERS or"
        " TXNSIM_TOPICS (docs/serve.md); options win over them, they over --config."
    )
    _add_cluster_arguments(parser.add_argument_group("the cluster"))
    _add_address_arguments(parser.add_argument_group("addresses"))
    serve_load.add_arguments(parser.add_argument_group("a real cluster's disks"))
    parser.set_defaults(prepare=None)  # `txnsim practise` has something to prepare
    _add_http_arguments(parser.add_argument_group("the control port and the page"))
    _add_security_arguments(parser.add_argument_group("security"))
    LongRunning.add_script_arguments(parser.add_argument_group("for scripts and tests"))
    _add_log_arguments(parser.add_argument_group("what it logs"))


def _add_cluster_arguments(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument("--brokers", type=int, metavar="N", help="how many brokers (default 3)")
    parser.add_argument(
        "--first-broker-id", type=int, metavar="ID", help="of the first broker (default 1)"
    )
    parser.add_argument(
        "--racks",
        metavar="RACK,…",
        help="the rack of each broker, as a,b,c: `replica.selector.class` lets consumers read near",
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="create this topic at start; may be repeated",
    )
    _add_release_arguments(parser)
    parser.add_argument(
        "--transaction-version",
        type=int,
        choices=(0, 1, 2),
        help="finalized level of the feature transaction.version (default 2: KIP-890's second "
        "part)",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings: a YAML file of ours, or a broker's server.properties",
    )
    parser.add_argument(
        "--log-budget",
        metavar="SIZE",
        help="memory for the logs of all brokers (default 1GiB; 0: no bound); at its edge the "
        "oldest closed segments go, as by retention",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="memory of the process above which what needs more is refused (default: four fifths "
        "of the machine's or the container's)",
    )
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="settings that go together and are not Apache Kafka's defaults: tests, for tests that "
        "wait for nothing (docs/time.md); what --config sets wins",
    )
    parser.add_argument(
        "--ready-coordinators",
        action="store_true",
        help="create Kafka's internal topics at the start and load their coordinators, so that the "
        "first client need not wait for them",
    )
    parser.add_argument(
        "--kip-text",
        action="store_true",
        help="open one further listener per broker that answers by the letter of KIP-664, KIP-890 "
        "and KIP-994, where Apache Kafka ships something else",
    )


def _add_release_arguments(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--as-version",
        action="append",
        default=[],
        metavar="RELEASE",
        help=f"behave as that Kafka release: {', '.join(map(str, RELEASES.values()))} "
        f"(default {REFERENCE.name}); "
        f"BROKER=RELEASE for one broker, as in {REFERENCE.name},1=3.9; may be repeated",
    )
    parser.add_argument(
        "--kip",
        action="append",
        type=int,
        default=[],
        choices=sorted(PROPOSALS),
        help="what is under review for that KIP (docs/kip-text.md): needs --as-version "
        f"{next(reversed(RELEASES))}, and brokers of other releases stay without it",
    )


def _add_address_arguments(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--port",
        type=int,
        metavar="PORT",
        help="first of consecutive ports (default 9092); 0 picks free ones",
    )
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument(
        "--advertised-host",
        help="address that clients get, for containers and other machines (default: --host)",
    )
    parser.add_argument(
        "--advertised",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="address that clients get for the first broker, of the second when repeated, and "
        "so on: where ports are translated on the way, as containers do",
    )
    parser.add_argument(
        "--kip-text-port",
        type=int,
        metavar="PORT",
        help="first of consecutive ports of --kip-text (default: 100 above --port); 0 picks free "
        "ones",
    )


def _add_http_arguments(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--http",
        type=int,
        nargs="?",
        const=HTTP_PORT_DEFAULT,
        metavar="PORT",
        help=f"open the control port on loopback (default {HTTP_PORT_DEFAULT} when given without "
        "a number)",
    )
    parser.add_argument(
        "--http-host",
        metavar="HOST",
        help="address that the control port listens on (default 127.0.0.1); anywhere but on "
        "loopback it wants a token: that of TXNSIM_TOKEN, or one that is made up and printed",
    )
    parser.add_argument(
        "--ui",
        action="store_true",
        help="the page that shows transactions: the control port, with the page at /, and --trace "
        "brief",
    )


def _add_security_arguments(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--security",
        choices=("demo",),
        help="open listeners with TLS and SASL beside the plain one, with users, certificates and "
        "ACLs to try out, and print settings for clients (docs/security.md)",
    )
    parser.add_argument(
        "--security-dir",
        type=new_folder,
        metavar="DIR",
        help="where --security keeps certificates and client settings (default: a temporary "
        "directory)",
    )


def _add_log_arguments(parser: argparse._ArgumentGroup) -> None:
    LongRunning.add_log_arguments(parser)
    parser.add_argument(
        "--trace",
        choices=("off", "brief", "full"),
        default="off",
        help="record events for the control port (default off)",
    )


def serve(arguments: Sequence[str], *, prepare: Prepare) -> int:
    """Serve with these arguments until SIGINT or SIGTERM; returns the exit status.

    Args:
        arguments: Arguments of ``txnsim serve``.
        prepare: Called once the brokers are up, with the control port's address.
    """
    parser = CommandParser(prog="txnsim serve")
    add_arguments(parser)
    args = parser.parse_args(arguments)
    args.prepare = prepare
    return run(args)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit status."""
    try:
        long_running = LongRunning(args)
        disks = serve_load.disks_of(args)
        options = options_from(args, disks)
        with rare_garbage_collection(), _fork_server(serves_page=args.ui) as args.fork_server:
            return real_world.run(_serve(long_running, options, args, disks))
    except BrokenPipeError:
        raise  # the reader of what we print has gone
    except OSError as error:
        TERMINAL.complain(str(error))
        return 1


@contextlib.contextmanager
def _fork_server(*, serves_page: bool) -> Iterator[Any]:
    """The process that the page's runs are forked from; started before there is an event loop or a
    socket.
    """
    if not serves_page:
        yield None
        return
    from txnsim.on_demand_imports import borrowed  # costs the start of a server without a page

    module = borrowed("txnsim_lab.scenario.driver_commands", "the page").MODULE
    fork_server = borrowed("txnsim_lab.scenario.forked_processes", "the page").ForkServer(module)
    fork_server.fork()
    try:
        yield fork_server
    finally:
        fork_server.close()


def rewrite(command_line: Sequence[str]) -> list[str]:
    """The arguments, with options from environment variables added unless given.

    Raises:
        ValueError: A variable's value is wrong.
    """
    return with_variables(command_line)


def with_variables(
    arguments: Sequence[str], *, variable_names: Sequence[str] | None = None
) -> list[str]:
    """The arguments of a serving command, with options from environment variables added
    (``txnsim.environment_variables``).

    Args:
        arguments: The arguments after the program's name.
        variable_names: The options that this command has; all options of ``serve`` if None.

    Raises:
        ValueError: A variable's value is wrong.
    """
    options_start = (
        next(i for i, argument in enumerate(arguments) if not argument.startswith("-")) + 1
    )
    variable_words = words_of(os.environ, arguments, known_options=variable_names)
    return [*arguments[:options_start], *variable_words, *arguments[options_start:]]


def options_from(args: argparse.Namespace, disks: Disks | None = None) -> ClusterOptions:
    """The cluster options from the configuration file and the arguments. Arguments override the
    file, and loaded disks override both.

    Raises:
        ConfigError: A value is wrong; the message names it.
    """
    options = ClusterOptions()
    if args.config is not None:
        from txnsim.config import load

        configuration = load(args.config, as_version=args.as_version)
        for warning in configuration.warnings:
            TERMINAL.complain(warning)
        options = configuration.onto(options)
        if args.http is None:
            args.http = configuration.http_port
    if args.ui:
        if args.http is None:
            args.http = HTTP_PORT_DEFAULT
        if args.trace == TraceLevel.OFF:
            args.trace = TraceLevel.BRIEF.value
    option_values: dict[str, Any] = {
        "brokers": args.brokers,
        "first_broker_id": args.first_broker_id,
        "racks": None if args.racks is None else tuple(args.racks.split(",")),
        "port": args.port,
        "host": args.host,
        "advertised_host": args.advertised_host,
        "kip_text_port": args.kip_text_port,
        "ready_coordinators": args.ready_coordinators or None,
    }
    option_changes = {
        option_name: option_value
        for option_name, option_value in option_values.items()
        if option_value is not None
    }
    if args.port == 0:
        option_changes["advertised_port"] = None  # what the file says was not said of a free port
    if args.topic:
        option_changes["topics"] = (*options.topics, *topics_of(args.topic).items())
    if args.advertised:
        option_changes["advertised"] = tuple(
            _parse_address(value_text) for value_text in args.advertised
        )
    if args.as_version:
        option_changes["as_version"] = (*options.as_version, *args.as_version)
    if args.preset is not None:
        from txnsim.config.presets import with_preset

        preset_settings = with_preset(options.settings, args.preset)
        options = msgspec.structs.replace(options, settings=preset_settings)
    option_changes["settings"] = msgspec.structs.replace(options.settings, **_settings_of(args))
    options = msgspec.structs.replace(options, **option_changes)
    if disks is not None:
        options = serve_load.options_for_disks(options, disks)
    for kip_number in args.kip:
        options = with_proposal(options, kip_number)
    _check_ports(options, http_port=args.http)
    _check_security(options, args)
    if disks is None:
        check_release(options, transaction_version=args.transaction_version)
    return options


def _settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that have command-line options of their own, as the options set them."""
    settings: dict[str, Any] = {}
    if args.transaction_version is not None:
        settings["transaction_version"] = args.transaction_version
    if args.kip_text:
        settings["kip_text"] = True
    if args.log_budget is not None:
        settings["log_budget_bytes"] = _parse_size("--log-budget", args.log_budget)
    if args.memory is not None:
        settings["memory_max_bytes"] = _parse_size("--memory", args.memory)
    return settings


def _check_ports(options: ClusterOptions, *, http_port: int | None) -> None:
    _check_ports_of_brokers("--port", options.port, options.brokers)
    _check_kip_text_port(options)
    if options.advertised and len(options.advertised) != options.brokers:
        raise ConfigError(
            f"--advertised: {len(options.advertised)} addresses for {options.brokers} brokers, "
            "give one for each"
        )
    if http_port is not None and not 0 <= http_port <= PORT_MAX:
        raise ConfigError(f"--http {http_port}: a port is a number from 0 to {PORT_MAX}")


def _check_security(options: ClusterOptions, args: argparse.Namespace) -> None:
    if args.security is not None and options.security != NO_SECURITY:
        raise ConfigError(f"--security {args.security}: {args.config} has security of its own")
    if args.security is None:
        if args.security_dir is not None:
            raise ConfigError(f"--security-dir {args.security_dir}: only with --security")
        return
    last_port = options.port + max(security_demo.LISTENERS.values()) + options.brokers - 1
    if options.port and last_port > PORT_MAX:
        raise ConfigError(
            f"--security: its listeners would need port {last_port}; choose a lower --port, or 0"
        )


def _check_kip_text_port(options: ClusterOptions) -> None:
    port = options.kip_text_port
    if not options.settings.kip_text:
        if port is not None:
            raise ConfigError(f"--kip-text-port {port}: only with --kip-text")
        return
    if port is None:
        port = options.port and options.port + KIP_TEXT_PORT_DISTANCE
    _check_ports_of_brokers("--kip-text-port", port, options.brokers)


def _check_ports_of_brokers(option: str, first_port: int, broker_count: int) -> None:
    if first_port < 0 or (first_port and first_port + broker_count - 1 > PORT_MAX):
        raise ConfigError(
            f"{option} {first_port}: {broker_count} brokers need ports from 1 to {PORT_MAX}, or 0 "
            "for free ones"
        )


def _parse_address(address_text: str) -> tuple[str, int]:
    address = read_host_and_port(address_text)
    if address is None or address[1] == 0:
        raise ConfigError(f"--advertised {address_text}: expected HOST:PORT, as in kafka.test:9092")
    return address


def _parse_size(option: str, size_text: str) -> int:
    try:
        return read_size(size_text)
    except ValueError as error:
        raise ConfigError(f"{option} {error}") from error


async def _serve(
    long_running: LongRunning,
    options: ClusterOptions,
    args: argparse.Namespace,
    disks: Disks | None = None,
) -> int:
    stop_event = long_running.stop_of(args)
    environment = real_world.real_environment(
        trace_level=TraceLevel[args.trace.upper()],
        trace_ring_bytes=options.settings.trace_ring_bytes,
        logs_requests=args.log_level == "debug",
    )
    if args.clock_at is not None:
        serve_load.set_clock(environment, args.clock_at, disks)
    if disks is not None:
        options = serve_load.load(options, disks, now_ms=environment.clock.now_ms())
    with contextlib.ExitStack() as open_files:
        demo = None
        if args.security is not None:
            options, demo = _with_security(
                options, args, open_files, now_ms=environment.clock.now_ms()
            )
        cluster = SimCluster(environment, options)
        try:
            await cluster.start()
        except OSError as error:
            TERMINAL.complain(
                _address_trouble(error, options.host, option="--port", host_option="--host")
            )
            return 1
        return await _serve_until(long_running, stop_event, cluster, args, demo)


def _with_security(
    options: ClusterOptions,
    args: argparse.Namespace,
    stack: contextlib.ExitStack,
    *,
    now_ms: int,
) -> tuple[ClusterOptions, DemoFiles]:
    """The options with security. The security files are deleted when the stack closes, unless a
    directory was given.
    """
    directory: Path | None = args.security_dir
    if directory is None:
        import tempfile  # it takes hashes and chance along

        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txnsim-")))
    directory.mkdir(parents=True, exist_ok=True)
    host_names = dict.fromkeys(
        ("localhost", "127.0.0.1", real_world.host_name(), options.host, options.advertised_host)
    )
    security, demo = security_demo.demo_security(
        directory.absolute(),
        port=options.port,
        hosts=[host for host in host_names if host and host not in EVERYWHERE],
        now_ms=now_ms,
    )
    return msgspec.structs.replace(options, security=security), demo


async def _serve_until(
    long_running: LongRunning,
    stop_event: asyncio.Event,
    cluster: SimCluster,
    args: argparse.Namespace,
    demo: DemoFiles | None,
) -> int:
    """Announce the running cluster, and stop it on a signal."""
    try:
        async with contextlib.AsyncExitStack() as stack:
            server = None
            if args.http is not None:
                # The control port is an extra and is imported after the brokers listen: clients
                # need not wait for it.
                with no_garbage_collection():
                    from txnsim.http.server import ControlServer

                server = ControlServer.of_simulated(
                    cluster,
                    port=args.http,
                    host=args.http_host or ControlServer.LOOPBACK,
                    token=long_running.token,
                    serves_page=args.ui,
                    fork_server=args.fork_server,
                )
                try:
                    await stack.enter_async_context(server)
                except OSError as error:
                    host = args.http_host or ControlServer.LOOPBACK
                    address_trouble = _address_trouble(
                        error, host, option="--http", host_option="--http-host"
                    )
                    TERMINAL.complain(f"control port: {address_trouble}")
                    return 1
            exercise_lines: tuple[str, ...] = ()
            if args.prepare is not None:
                exercise_lines = await args.prepare(cluster, None if server is None else server.url)
            announce(long_running, cluster, server, args, demo, exercise_lines=exercise_lines)
            freeze_present_objects()
            threading.Thread(
                target=with_short_switch_interval, args=(_import_log,), daemon=True
            ).start()
            _watch_memory(cluster)
            await stop_event.wait()
    finally:
        long_running.say_ended()
        await cluster.stop()
        long_running.end()
    return 0


def _import_log() -> None:
    """Import what the first log line needs. It takes a quarter of a second, which would stop the
    event loop when a client causes that line.
    """
    importlib.import_module("structlog")


def _watch_memory(cluster: SimCluster) -> None:
    """Watch the memory mark, on systems that report memory."""
    machine_bytes = real_world.memory_bytes()
    if machine_bytes is not None:
        memory_setting = cluster.options.settings.memory_max_bytes
        limit_bytes = memory_setting or int(SHARE_OF_MACHINE * machine_bytes)
        clock = cluster.environment.clock
        MemoryMark(limit_bytes, clock, lambda: cluster.listeners, real_world.resident_bytes).look()


def _address_trouble(error: OSError, host: str, *, option: str, host_option: str) -> str:
    """Explain an error of listening on a port or host, and name the option to change."""
    if error.errno == errno.EADDRINUSE:
        return (
            f"{error.strerror}: choose another {option}, or {option} 0 for a free one"
            f"{_make_hint(option)}"
        )
    return (
        f"can't listen on {host}: {error.strerror or error}: {host_option} takes an address of "
        "this machine"
    )


def _make_hint(option: str) -> str:
    """The make variable for the option; empty unless make started the program."""
    return f": make run ARGS='{option} 0'" if "MAKELEVEL" in os.environ else ""


# What ``txnsim serve`` says once its cluster is up: for people, as JSON, in the ready file

STOCK_CLIENTS_FAIL: Final = (
    "stock clients fail there on EndTxn v4 and WriteTxnMarkers v1, whose layout is the texts' "
    "(docs/kip-text.md)"
)


def announce(
    long_running: LongRunning,
    cluster: SimCluster,
    control: ControlServer | None,
    args: argparse.Namespace,
    demo: DemoFiles | None,
    *,
    exercise_lines: tuple[str, ...] = (),
) -> None:
    """Print the addresses of the cluster once it is up."""
    brokers_by_release = _brokers_by_release(cluster)
    listeners = cluster.options.security.listeners
    server_by_listener = {
        listener.name: cluster.bootstrap_of(listener.name) for listener in listeners
    }
    facts = _cluster_facts(
        cluster, control, brokers_by_release, demo, server_by_listener, exercise_lines
    )
    if demo is not None:
        security_settings.write_properties(demo.authority.parent, demo, server_by_listener)
    loaded_cluster = cluster.options.loaded
    if loaded_cluster is not None:
        serve_load.warn_of_losses(loaded_cluster)
    long_running.say_ready(args, facts)
    if args.json:
        TERMINAL.data(msgspec.json.encode(facts).decode())
        return
    broker_count = len(cluster.brokers)
    transaction_version = cluster.metadata.image.features.get(TRANSACTION_VERSION, 0)
    TERMINAL.line(
        f"txnsim {facts['version']}: {broker_count} broker{'s' if broker_count != 1 else ''} up"
        f" as Apache Kafka {facts['release']}, transaction.version {transaction_version}"
    )
    if loaded_cluster is not None:
        TERMINAL.line(f"  {serve_load.line(loaded_cluster)}")
    if len(brokers_by_release) > 1:
        for release, brokers in brokers_by_release.items():
            TERMINAL.line(f"  as Apache Kafka {release}: broker {', '.join(brokers)}")
    TERMINAL.line(f"  bootstrap.servers={cluster.bootstrap}")
    if cluster.kip_text_bootstrap is not None:
        TERMINAL.line(f"  KIP text          {cluster.kip_text_bootstrap}")
        TERMINAL.line(f"    {STOCK_CLIENTS_FAIL}")
    if demo is not None:
        for line in security_settings.announcement(server_by_listener, demo):
            TERMINAL.line(f"  {line}")
    else:
        for listener_name, server_address in server_by_listener.items():
            TERMINAL.line(f"  {listener_name:<17} {server_address}")
    if control is not None:
        _announce_control_port(long_running, control, has_page=args.ui)
    is_secured = cluster.options.security != NO_SECURITY
    settings = cluster.options.settings
    for line in (
        *_bound_lines(settings),
        *changed_defaults(settings, is_secured=is_secured, broker_count=broker_count),
    ):
        TERMINAL.line(f"  {line}")
    TERMINAL.line("  stop with Ctrl-C, or SIGTERM to the process " + str(os.getpid()))
    for line in exercise_lines:
        TERMINAL.line(line)
    sys.stdout.flush()


def _announce_control_port(
    long_running: LongRunning, control: ControlServer, *, has_page: bool
) -> None:
    """Print the addresses of the control port and its page, and the token."""
    token = control.token
    TERMINAL.line(f"  control port      {control.url}  (OpenAPI: {control.url}/openapi.json)")
    if has_page:
        token_fragment = "" if token is None or token == long_running.token else f"#token={token}"
        TERMINAL.line(f"  see it            {control.url}/{token_fragment}")
    else:
        TERMINAL.line("  see it            a page shows the transactions: add --ui")
    if token is not None:
        token_text = long_running.shown_token(token)
        TERMINAL.line(f"    its token       {token_text}  (Authorization: Bearer TOKEN)")


def _cluster_facts(
    cluster: SimCluster,
    control: ControlServer | None,
    brokers_by_release: dict[str, list[str]],
    demo: DemoFiles | None,
    server_by_listener: dict[str, str],
    exercise_lines: tuple[str, ...],
) -> dict[str, Any]:
    """The facts about the started cluster, for the ready file and ``--json``."""
    control_url = None if control is None else control.url
    token = None if control is None else control.token
    cluster_facts: dict[str, Any] = {
        "bootstrap": cluster.bootstrap,
        "http": control_url,
        "pid": os.getpid(),
        "version": VERSION,
        "release": " and ".join(brokers_by_release),
    }
    if token is not None:
        cluster_facts["token"] = token
    if cluster.kip_text_bootstrap is not None:
        cluster_facts["kip_text_bootstrap"] = cluster.kip_text_bootstrap
    if server_by_listener:
        cluster_facts["security"] = {"bootstrap": server_by_listener}
    if demo is not None:
        cluster_facts["security"]["directory"] = str(demo.authority.parent)
    loaded_cluster = cluster.options.loaded
    if loaded_cluster is not None:
        cluster_facts["loaded"] = serve_load.facts(loaded_cluster)
    if exercise_lines:
        cluster_facts["exercise"] = exercise_lines
    return cluster_facts


def _brokers_by_release(cluster: SimCluster) -> dict[str, list[str]]:
    """Each emulated Kafka release, with the brokers that emulate it."""
    brokers_by_release: dict[str, list[str]] = {}
    for broker_id in cluster.brokers:
        release = cluster.fleet.release_of(broker_id).patch_release
        brokers_by_release.setdefault(release, []).append(str(broker_id))
    return brokers_by_release


def _bound_lines(settings: Settings) -> list[str]:
    """The bounds on memory, one line for each."""
    budget = settings.log_budget_bytes
    if not budget:
        return []
    return [f"logs keep {spoken_size(budget)}, then the oldest closed segments go (--log-budget)"]


def changed_defaults(
    settings: Settings, *, is_secured: bool = False, broker_count: int | None = None
) -> list[str]:
    """One line for each Kafka default that this cluster changes, with the reason; without settings
    of listeners, users and rights. If the number of brokers is given, also how it changes the
    replicas of coordinators' topics.
    """
    replica_lines = (
        [] if broker_count is None else _coordinator_replica_lines(settings, broker_count)
    )
    changed_lines = []
    for setting_name, setting in settings_module.documentation().items():
        value = getattr(settings, setting_name)
        if setting.kafka is not None and value not in _default_values(setting_name, setting):
            changed_lines.append(
                f"{setting.kafka}={_setting_text(value)} (Apache Kafka: "
                f"{_setting_text(_default_values(setting_name, setting)[0])}; "
                f"{setting.purpose})"
            )
    if not changed_lines:
        unchanged_phrase = "every other" if is_secured or replica_lines else "every"
        changed_lines.append(f"{unchanged_phrase} setting has Apache Kafka's default")
    return [*replica_lines, *changed_lines]


def _default_values(setting_name: str, setting: Setting) -> tuple[object, ...]:
    """Values that count as unchanged: Kafka's default, and ours (unset) if they differ."""
    default = getattr(settings_module.DEFAULTS, setting_name)
    kafka_default = setting.kafka_default
    return (default,) if kafka_default is msgspec.UNSET else (kafka_default, default)


def _coordinator_replica_lines(settings: Settings, broker_count: int) -> list[str]:
    """Lines about coordinators' topics that have fewer replicas because of few brokers."""
    setting_docs = settings_module.documentation()
    capped_settings, lines = [], []
    for setting_name in CAPPED:
        setting_value, default = (
            getattr(settings, setting_name),
            setting_docs[setting_name].kafka_default,
        )
        wanted_count = replicas_wanted(settings, setting_name, broker_count=broker_count)
        if setting_value is None and wanted_count != default:
            if setting_name.startswith("share_"):
                continue  # most clusters have no share partitions
            capped_settings.append(
                (f"{setting_docs[setting_name].kafka}={wanted_count}", str(default))
            )
        elif not setting_name.endswith("_min_isr") and wanted_count > broker_count:
            lines.append(
                f"{setting_docs[setting_name].kafka}={wanted_count} is set, and there "
                f"{'is 1 broker' if broker_count == 1 else f'are {broker_count} brokers'}: as of a "
                "real broker, clients get COORDINATOR_NOT_AVAILABLE"
            )
    if capped_settings:
        replica_settings, default_texts = zip(*capped_settings, strict=True)
        lines.append(
            f"{', '.join(replica_settings)}: not set, so no more than there are brokers "
            f"(Apache Kafka waits for {', '.join(default_texts)})"
        )
    return lines


def _setting_text(value: object) -> str:
    return "unset" if value is None else text(value)
