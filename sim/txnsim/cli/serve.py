"""``txnsim serve``: start a cluster and keep it until a signal comes.

Nothing here knows Kafka: it turns arguments into ``ClusterOptions``, starts a ``SimCluster``, says
where it is, and stops it. The control port is imported only when asked for, and after the brokers
listen.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim import settings as settings_module
from txnsim.cli import control_token, ready_file, security_settings, serve_load
from txnsim.cli.event_log import (
    LEVEL_DEFAULT,
    LEVELS,
    LogFormat,
    set_up_logs,
    tell_left_out,
)
from txnsim.cli.output import print_line, warn
from txnsim.errors import ConfigError, MissingExtraError
from txnsim.metadata.image import TRANSACTION_VERSION
from txnsim.releases import fleet_from
from txnsim.runtime import real
from txnsim.runtime.trace import TraceLevel
from txnsim.security.options import NO_SECURITY
from txnsim.server.cluster import SimCluster
from txnsim.server.first_image import EVERYWHERE
from txnsim.server.options import KIP_TEXT_PORT_DISTANCE, ClusterOptions
from txnsim.server.security_demo import LISTENERS, DemoFiles, demo_security
from txnsim.settings import Settings
from txnsim.storage.disks import Disks
from txnsim.types import BrokerId

if TYPE_CHECKING:
    from txnsim.http.server import ControlServer

HELP: Final = "start a cluster of brokers in this process"
HTTP_PORT_DEFAULT: Final = 9080
COLLECTOR_THRESHOLDS: Final = (10_000, 20, 100)
"""Of Python's cycle collector. A server keeps much and makes next to no cycles
(tests/simulation/test_garbage.py). With the defaults the collector's look at all objects held 32
producers up for a tenth of a second.
"""
PORT_MAX: Final = 65_535
STOCK_CLIENTS_FAIL: Final = (
    "stock clients fail there on EndTxn v4, WriteTxnMarkers v1 and DescribeTransactions v1, whose "
    "layout is the texts' (docs/kip-text.md)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``serve`` takes."""
    parser.add_argument(
        "--brokers", type=int, default=None, metavar="N", help="how many brokers (default 3)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=None,
        metavar="PORT",
        help="first of consecutive ports (default 9092); 0 picks free ones",
    )
    parser.add_argument("--host", default=None, help="address to listen on (default 127.0.0.1)")
    parser.add_argument(
        "--advertised-host",
        default=None,
        help="address that clients are told, for containers and other machines (default: --host)",
    )
    parser.add_argument(
        "--advertised",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="address that clients are told of the first broker, of the second when repeated, and "
        "so on: where somebody translates ports on the way, as containers do",
    )
    parser.add_argument(
        "--config",
        type=Path,
        default=None,
        metavar="FILE",
        help="settings: a YAML file of ours, or a broker's server.properties",
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME:PARTITIONS",
        help="create this topic at start; may be repeated",
    )
    parser.add_argument(
        "--transaction-version",
        type=int,
        choices=(0, 1, 2),
        default=None,
        help="finalized level of the feature transaction.version (default 2: KIP-890's second "
        "part)",
    )
    serve_load.add_arguments(parser)
    _add_kip_text_arguments(parser)
    _add_security_arguments(parser)
    _add_output_arguments(parser)


def _add_kip_text_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kip-text",
        action="store_true",
        help="open one further listener per broker that answers by the letter of KIP-664, KIP-890 "
        "and KIP-994, where Apache Kafka ships something else",
    )
    parser.add_argument(
        "--kip-text-port",
        type=int,
        default=None,
        metavar="PORT",
        help="first of consecutive ports of --kip-text (default: 100 above --port); 0 picks free "
        "ones",
    )


def _add_security_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--security",
        choices=("demo",),
        default=None,
        help="open listeners with TLS and SASL beside the plain one, with users, certificates and "
        "ACLs to try out, and print settings for clients (docs/security.md)",
    )
    parser.add_argument(
        "--security-dir",
        type=Path,
        default=None,
        metavar="DIR",
        help="where --security keeps certificates and client settings (default: a temporary "
        "directory)",
    )


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        type=int,
        nargs="?",
        const=HTTP_PORT_DEFAULT,
        default=None,
        metavar="PORT",
        help=f"open the control port on loopback (default {HTTP_PORT_DEFAULT} when given without "
        "a number)",
    )
    parser.add_argument(
        "--http-host",
        default=None,
        metavar="HOST",
        help="address that the control port listens on (default 127.0.0.1); anywhere but on "
        "loopback it wants a token: that of TXNSIM_TOKEN, or one that is made up and printed",
    )
    parser.add_argument(
        "--ready-file",
        type=Path,
        default=None,
        metavar="FILE",
        help="write bootstrap, http, token and pid there as JSON once every listener accepts",
    )
    parser.add_argument(
        "--trace",
        choices=("off", "brief", "full"),
        default="off",
        help="record events for the control port (default off)",
    )
    parser.add_argument("--json", action="store_true", help="say what was started as JSON")
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        default=LEVEL_DEFAULT,
        help="least level of what is logged to standard error (default info); debug logs each "
        "request and connection",
    )
    parser.add_argument(
        "--log-format",
        choices=tuple(LogFormat),
        default=LogFormat.CONSOLE,
        help="how lines of the log look (default console)",
    )
    parser.add_argument(
        "--until-eof",
        action="store_true",
        help="end when standard input ends: a test that starts it over a pipe takes it along, "
        "however the test ends",
    )
    parser.add_argument(
        "--as-version",
        action="append",
        default=[],
        metavar="RELEASE",
        help="behave as that Kafka release: 2.8, 3.6, 3.9, 4.0, 4.1, 4.2 or 4.3 (default); "
        "BROKER=RELEASE for one broker, as in 4.3,1=3.9; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit status."""
    set_up_logs(level=args.log_level, log_format=LogFormat(args.log_format))
    try:
        if args.ready_file is not None:
            ready_file.check(args.ready_file)
        args.token = control_token.token_from(os.environ)
        disks = serve_load.disks_of(args)
        options = options_from(args, disks)
    except ConfigError as error:
        warn(str(error))
        return 2
    try:
        with _seldom_collected():
            return real.run(_serve(options, args, disks))
    except ConfigError as error:
        warn(str(error))
        return 2
    except MissingExtraError as error:
        warn(str(error))
        return 2
    except BrokenPipeError:
        raise  # whoever read what we print has gone
    except OSError as error:
        warn(str(error))
        return 1


def options_from(args: argparse.Namespace, disks: Disks | None = None) -> ClusterOptions:
    """The options that the arguments and the configuration file ask for; arguments win, and over
    both what the disks settle that are to be loaded.

    Raises:
        ConfigError: A value is wrong; the message names it.
    """
    options = ClusterOptions()
    if args.config is not None:
        from txnsim.config import load

        configuration = load(args.config)
        for warning in configuration.warnings:
            warn(warning)
        options = configuration.onto(options)
        if args.http is None:
            args.http = configuration.http_port
    given: dict[str, Any] = {
        "brokers": args.brokers,
        "port": args.port,
        "host": args.host,
        "advertised_host": args.advertised_host,
        "kip_text_port": args.kip_text_port,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if args.topic:
        changes["topics"] = (*options.topics, *(_topic(text) for text in args.topic))
    if args.advertised:
        changes["advertised"] = tuple(_address(text) for text in args.advertised)
    if args.as_version:
        changes["as_version"] = (*options.as_version, *args.as_version)
    settings: dict[str, Any] = {}
    if args.transaction_version is not None:
        settings["transaction_version"] = args.transaction_version
    if args.kip_text:
        settings["kip_text"] = True
    changes["settings"] = msgspec.structs.replace(options.settings, **settings)
    options = msgspec.structs.replace(options, **changes)
    if disks is not None:
        options = serve_load.for_disks(options, disks)
    _check_ports(options, http=args.http)
    _check_security(options, args)
    if disks is None:
        _check_release(options, level=args.transaction_version)
    return options


def _check_ports(options: ClusterOptions, *, http: int | None) -> None:
    last = options.port + options.brokers - 1 if options.port else 0
    if options.port < 0 or last > PORT_MAX:
        raise ConfigError(
            f"--port {options.port}: {options.brokers} brokers need ports from 1 to {PORT_MAX}, "
            "or 0 for free ones"
        )
    _check_kip_text_port(options)
    if options.advertised and len(options.advertised) != options.brokers:
        raise ConfigError(
            f"--advertised: {len(options.advertised)} addresses for {options.brokers} brokers, "
            "give one for each"
        )
    if http is not None and not 0 <= http <= PORT_MAX:
        raise ConfigError(f"--http {http}: a port is a number from 0 to {PORT_MAX}")


def _check_security(options: ClusterOptions, args: argparse.Namespace) -> None:
    if args.security is not None and options.security != NO_SECURITY:
        raise ConfigError(f"--security {args.security}: {args.config} has security of its own")
    if args.security is None:
        if args.security_dir is not None:
            raise ConfigError(f"--security-dir {args.security_dir}: only with --security")
        return
    last = options.port + max(LISTENERS.values()) + options.brokers - 1
    if options.port and last > PORT_MAX:
        raise ConfigError(
            f"--security: its listeners would need port {last}; choose a lower --port, or 0"
        )


def _check_release(options: ClusterOptions, *, level: int | None) -> None:
    fleet = fleet_from(options.as_version, brokers=options.brokers)
    brokers = (BrokerId(index + 1) for index in range(options.brokers))
    highest = fleet.new_cluster_levels(brokers).get(TRANSACTION_VERSION, 0)
    if level is not None and level > highest:
        raise ConfigError(
            f"--transaction-version {level}: brokers of {', '.join(options.as_version)} know it up "
            f"to {highest} only"
        )
    if options.settings.kip_text and options.as_version:
        raise ConfigError("--kip-text: the texts stand beside Kafka 4.3, not beside --as-version")


def _check_kip_text_port(options: ClusterOptions) -> None:
    port = options.kip_text_port
    if not options.settings.kip_text:
        if port is not None:
            raise ConfigError(f"--kip-text-port {port}: only with --kip-text")
        return
    if port is None:
        port = options.port and options.port + KIP_TEXT_PORT_DISTANCE
    if port < 0 or (port and port + options.brokers - 1 > PORT_MAX):
        raise ConfigError(
            f"--kip-text-port {port}: {options.brokers} brokers need ports from 1 to {PORT_MAX}, "
            "or 0 for free ones"
        )


def _topic(text: str) -> tuple[str, int]:
    name, separator, partitions = text.rpartition(":")
    if not separator or not name or not partitions.isdigit() or int(partitions) < 1:
        raise ConfigError(f"--topic {text}: expected NAME:PARTITIONS, as in orders:6")
    return name, int(partitions)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 1 <= int(port) <= PORT_MAX:
        raise ConfigError(f"--advertised {text}: expected HOST:PORT, as in kafka.test:9092")
    return host, int(port)


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Let the collector look seldom, as long as the server runs."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def _serve(
    options: ClusterOptions, args: argparse.Namespace, disks: Disks | None = None
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if args.until_eof:
        _stop_at_eof(loop, stop)
    _tell_left_out_for_ever(loop)
    environment = real.real_environment(
        trace_level=TraceLevel[args.trace.upper()],
        trace_ring_bytes=options.settings.trace_ring_bytes,
        logs_requests=args.log_level == "debug",
    )
    if args.clock_at is not None:
        serve_load.set_clock(environment, args.clock_at, disks)
    if disks is not None:
        options = serve_load.load(options, disks, now_ms=environment.clock.now_ms())
    with contextlib.ExitStack() as files:
        demo = None
        if args.security is not None:
            options, demo = _secured(options, args, files, now_ms=environment.clock.now_ms())
        cluster = SimCluster(environment, options)
        try:
            await cluster.start()
        except OSError as error:
            warn(_address_trouble(error, options))
            return 1
        return await _serve_until(stop, cluster, args, demo)


def _tell_left_out_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    tell_left_out()
    loop.call_later(1, _tell_left_out_for_ever, loop)


def _stop_at_eof(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Set ``stop`` when standard input ends; what comes before is read and forgotten."""

    def read() -> None:
        if not os.read(sys.stdin.fileno(), 65_536):
            loop.remove_reader(sys.stdin.fileno())
            stop.set()

    loop.add_reader(sys.stdin.fileno(), read)


def _secured(
    options: ClusterOptions,
    args: argparse.Namespace,
    stack: contextlib.ExitStack,
    *,
    now_ms: int,
) -> tuple[ClusterOptions, DemoFiles]:
    """The options with security, whose files live as long as the stack unless a directory was
    given.
    """
    directory: Path | None = args.security_dir
    if directory is None:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txnsim-")))
    directory.mkdir(parents=True, exist_ok=True)
    hosts = dict.fromkeys(
        ("localhost", "127.0.0.1", real.host_name(), options.host, options.advertised_host)
    )
    security, demo = demo_security(
        directory.absolute(),
        port=options.port,
        hosts=[host for host in hosts if host and host not in EVERYWHERE],
        now_ms=now_ms,
    )
    return msgspec.structs.replace(options, security=security), demo


async def _serve_until(
    stop: asyncio.Event, cluster: SimCluster, args: argparse.Namespace, demo: DemoFiles | None
) -> int:
    """Announce the running cluster, and stop it when it is time."""
    try:
        async with contextlib.AsyncExitStack() as stack:
            server = None
            if args.http is not None:
                # The control port is an extra and is imported after the brokers listen: clients
                # need not wait for it.
                from txnsim.http.server import LOOPBACK, ControlServer

                server = ControlServer(
                    cluster, port=args.http, host=args.http_host or LOOPBACK, token=args.token
                )
                try:
                    await stack.enter_async_context(server)
                except OSError as error:
                    warn(
                        f"control port: {error.strerror}: choose another --http, or --http 0 for "
                        "a free one"
                    )
                    return 1
            _announce(cluster, server, args, demo)
            await stop.wait()
    finally:
        await cluster.stop()
        tell_left_out(at_once=True)
    return 0


def _announce(
    cluster: SimCluster,
    control: ControlServer | None,
    args: argparse.Namespace,
    demo: DemoFiles | None,
) -> None:
    http = None if control is None else control.url
    token = None if control is None else control.token
    facts: dict[str, Any] = {"bootstrap": cluster.bootstrap, "http": http, "pid": os.getpid()}
    if token is not None:
        facts["token"] = token
    if cluster.kip_text_bootstrap is not None:
        facts["kip_text_bootstrap"] = cluster.kip_text_bootstrap
    servers = security_settings.addresses(cluster)
    if servers:
        facts["security"] = {"bootstrap": servers}
    if demo is not None:
        directory = demo.authority.parent
        security_settings.write_properties(directory, demo, servers)
        facts["security"]["directory"] = str(directory)
    loaded = cluster.options.loaded
    if loaded is not None:
        facts["loaded"] = serve_load.facts(loaded)
        serve_load.warn_of_losses(loaded)
    encoded = msgspec.json.encode(facts)
    if args.ready_file is not None:
        ready_file.write(args.ready_file, encoded, is_secret=token is not None)
    if args.json:
        print_line(encoded.decode())
        return
    count = len(cluster.brokers)
    level = cluster.metadata.image.features.get(TRANSACTION_VERSION, 0)
    print_line(f"txnsim: {count} broker{'s' if count != 1 else ''} up, transaction.version {level}")
    if loaded is not None:
        print_line(f"  {serve_load.line(loaded)}")
    for line in _releases(cluster):
        print_line(line)
    print_line(f"  bootstrap.servers={cluster.bootstrap}")
    if cluster.kip_text_bootstrap is not None:
        print_line(f"  KIP text          {cluster.kip_text_bootstrap}")
        print_line(f"    {STOCK_CLIENTS_FAIL}")
    if demo is not None:
        for line in security_settings.announcement(servers, demo):
            print_line(f"  {line}")
    else:
        for name, where in servers.items():
            print_line(f"  {name:<17} {where}")
    if http is not None:
        print_line(f"  control port      {http}  (OpenAPI: {http}/openapi.json)")
    if token is not None:
        shown = f"that of {control_token.VARIABLE}" if token == args.token else token
        print_line(f"    its token       {shown}  (Authorization: Bearer TOKEN)")
    for line in changed_defaults(cluster.options.settings):
        print_line(f"  {line}")
    print_line("  stop with Ctrl-C, or SIGTERM to the process " + str(os.getpid()))
    sys.stdout.flush()


def _releases(cluster: SimCluster) -> list[str]:
    """Which releases are played, where it is not the newest alone."""
    if not cluster.options.as_version:
        return []
    players: dict[str, list[str]] = {}
    for broker_id in cluster.brokers:
        release = cluster.fleet.of(broker_id).patch_release
        players.setdefault(release, []).append(str(broker_id))
    return [
        f"  as Apache Kafka {release}: broker {', '.join(brokers)}"
        for release, brokers in players.items()
    ]


def changed_defaults(settings: Settings) -> list[str]:
    """One line for each of Kafka's defaults that this cluster changes, with the reason."""
    lines = []
    for name, documentation in settings_module.documentation().items():
        value = getattr(settings, name)
        default = getattr(settings_module.DEFAULTS, name)
        kafka = (
            documentation.kafka_default
            if documentation.kafka_default is not msgspec.UNSET
            else default
        )
        if documentation.kafka is not None and value != kafka:
            told = "unset" if kafka is None else kafka
            lines.append(
                f"{documentation.kafka}={value} (Apache Kafka: {told}; {documentation.reason})"
            )
    if not lines:
        return ["every setting has Apache Kafka's default"]
    return lines


def _address_trouble(error: OSError, options: ClusterOptions) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{error.strerror}: choose another --port, or --port 0 for free ones"
    return f"can't listen on {options.host}: {error.strerror or error}"
