"""What ``txnsim serve`` says once its cluster is up: for people, as JSON, in the ready file."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim import VERSION
from txnsim import settings as settings_module
from txnsim.cli import _serve_load as serve_load
from txnsim.cli import control_token, ready_file
from txnsim.cli.output import print_data, print_line
from txnsim.extensions import OnDemand
from txnsim.metadata.configs import text
from txnsim.metadata.image import TRANSACTION_VERSION
from txnsim.security.options import NO_SECURITY
from txnsim.server.cluster import SimCluster
from txnsim.settings import CAPPED, Setting, Settings, replicas_wanted
from txnsim.text import spoken_size

if TYPE_CHECKING:
    from txnsim.cli import _security_settings as security_settings
    from txnsim.http.server import ControlServer
    from txnsim.server.security_demo import DemoFiles
else:
    security_settings = OnDemand("txnsim.cli._security_settings")

STOCK_CLIENTS_FAIL: Final = (
    "stock clients fail there on EndTxn v4 and WriteTxnMarkers v1, whose layout is the texts' "
    "(docs/kip-text.md)"
)


def announce(
    cluster: SimCluster,
    control: ControlServer | None,
    args: argparse.Namespace,
    demo: DemoFiles | None,
    *,
    exercise: tuple[str, ...] = (),
) -> None:
    """Print the addresses of the cluster once it is up."""
    http = None if control is None else control.url
    token = None if control is None else control.token
    players = _players(cluster)
    listeners = cluster.options.security.listeners
    servers = {listener.name: cluster.bootstrap_of(listener.name) for listener in listeners}
    facts = _facts(cluster, control, players, demo, servers, exercise)
    if demo is not None:
        security_settings.write_properties(demo.authority.parent, demo, servers)
    loaded = cluster.options.loaded
    if loaded is not None:
        serve_load.warn_of_losses(loaded)
    encoded = msgspec.json.encode(facts)
    if args.ready_file is not None:
        ready_file.write(args.ready_file, encoded, is_secret=token is not None)
    if args.json:
        print_data(encoded.decode())
        return
    count = len(cluster.brokers)
    level = cluster.metadata.image.features.get(TRANSACTION_VERSION, 0)
    print_line(
        f"txnsim {facts['version']}: {count} broker{'s' if count != 1 else ''} up as Apache Kafka"
        f" {facts['release']}, transaction.version {level}"
    )
    if loaded is not None:
        print_line(f"  {serve_load.line(loaded)}")
    if len(players) > 1:
        for release, brokers in players.items():
            print_line(f"  as Apache Kafka {release}: broker {', '.join(brokers)}")
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
        if args.ui:
            secret = "" if token is None or token == args.token else f"#token={token}"
            print_line(f"  see it            {http}/{secret}")
    if token is not None:
        shown = f"that of {control_token.VARIABLE}" if token == args.token else token
        print_line(f"    its token       {shown}  (Authorization: Bearer TOKEN)")
    is_secured = cluster.options.security != NO_SECURITY
    settings = cluster.options.settings
    for line in (
        *_bounds(settings),
        *changed_defaults(settings, is_secured=is_secured, brokers=count),
    ):
        print_line(f"  {line}")
    print_line("  stop with Ctrl-C, or SIGTERM to the process " + str(os.getpid()))
    for line in exercise:
        print_line(line)
    sys.stdout.flush()


def _facts(
    cluster: SimCluster,
    control: ControlServer | None,
    players: dict[str, list[str]],
    demo: DemoFiles | None,
    servers: dict[str, str],
    exercise: tuple[str, ...],
) -> dict[str, Any]:
    """What was started, for programs."""
    http = None if control is None else control.url
    token = None if control is None else control.token
    facts: dict[str, Any] = {
        "bootstrap": cluster.bootstrap,
        "http": http,
        "pid": os.getpid(),
        "version": VERSION,
        "release": " and ".join(players),
    }
    if token is not None:
        facts["token"] = token
    if cluster.kip_text_bootstrap is not None:
        facts["kip_text_bootstrap"] = cluster.kip_text_bootstrap
    if servers:
        facts["security"] = {"bootstrap": servers}
    if demo is not None:
        facts["security"]["directory"] = str(demo.authority.parent)
    loaded = cluster.options.loaded
    if loaded is not None:
        facts["loaded"] = serve_load.facts(loaded)
    if exercise:
        facts["exercise"] = exercise
    return facts


def _players(cluster: SimCluster) -> dict[str, list[str]]:
    """Each Kafka release that is played, with the brokers that play it."""
    players: dict[str, list[str]] = {}
    for broker_id in cluster.brokers:
        release = cluster.fleet.of(broker_id).patch_release
        players.setdefault(release, []).append(str(broker_id))
    return players


def _bounds(settings: Settings) -> list[str]:
    """What happens to memory, one line for each bound."""
    budget = settings.log_budget_bytes
    if not budget:
        return []
    return [f"logs keep {spoken_size(budget)}, then the oldest closed segments go (--log-budget)"]


def changed_defaults(
    settings: Settings, *, is_secured: bool = False, brokers: int | None = None
) -> list[str]:
    """One line for each of Kafka's defaults that this cluster changes, with the reason. Those of
    listeners, users and rights are not among the settings. With the number of brokers also what
    that changes of the replicas of coordinators' topics.
    """
    few = [] if brokers is None else _replicas_of_coordinators(settings, brokers)
    changed = []
    for name, documentation in settings_module.documentation().items():
        value = getattr(settings, name)
        if documentation.kafka is not None and value not in _of_kafka(name, documentation):
            changed.append(
                f"{documentation.kafka}={_shown(value)} (Apache Kafka: "
                f"{_shown(_of_kafka(name, documentation)[0])}; {documentation.purpose})"
            )
    if not changed:
        every = "every other" if is_secured or few else "every"
        changed.append(f"{every} setting has Apache Kafka's default")
    return [*few, *changed]


def _of_kafka(name: str, documentation: Setting) -> tuple[object, ...]:
    """Values that are no change: Kafka's default first, and ours, which is unset where they
    differ.
    """
    default = getattr(settings_module.DEFAULTS, name)
    kafka = documentation.kafka_default
    return (default,) if kafka is msgspec.UNSET else (kafka, default)


def _replicas_of_coordinators(settings: Settings, brokers: int) -> list[str]:
    """What becomes of the replicas of coordinators' topics where there are few brokers."""
    known = settings_module.documentation()
    capped, lines = [], []
    for name in CAPPED:
        given, default = getattr(settings, name), known[name].kafka_default
        wanted = replicas_wanted(settings, name, brokers=brokers)
        if given is None and wanted != default:
            capped.append((f"{known[name].kafka}={wanted}", str(default)))
        elif not name.endswith("_min_isr") and wanted > brokers:
            lines.append(
                f"{known[name].kafka}={wanted} is set, and there "
                f"{'is 1 broker' if brokers == 1 else f'are {brokers} brokers'}: as of a real "
                "broker, clients get COORDINATOR_NOT_AVAILABLE"
            )
    if capped:
        values, defaults = zip(*capped, strict=True)
        lines.append(
            f"{', '.join(values)}: not set, so no more than there are brokers "
            f"(Apache Kafka waits for {', '.join(defaults)})"
        )
    return lines


def _shown(value: object) -> str:
    return "unset" if value is None else text(value)
