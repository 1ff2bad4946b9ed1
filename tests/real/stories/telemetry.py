"""Metrics that clients push (KIP-714) to a broker with a receiver for them."""

from __future__ import annotations

import functools
import operator
import uuid
from collections.abc import Callable, Collection
from typing import Any, Final

from txnsim.wire.compression import compress
from txnsim_lab.conformance._book.frame_player import FramePlayer, Story

CLIENT_METRICS: Final = 16
GET, PUSH = "GetTelemetrySubscriptions", "PushTelemetry"
APIS: Final = (71, 72)
BYTES_MAX: Final = 1024
"""``telemetry.max.bytes`` of both brokers."""
METRIC_NAMES: Final = tuple(
    f"org.apache.kafka.{word}.{number}." for word in "ab" for number in range(9)
)


def client_telemetry(player: FramePlayer) -> None:
    """Subscriptions and pushes, each by another client instance."""
    apis = player.ask_unrecorded("ApiVersions", 3, **_software("differ", "1.2"))
    versions = [
        (api.api_key, api.min_version, api.max_version)
        for api in apis.api_keys
        if api.api_key in APIS
    ]
    player.note("ApiVersions v3 of telemetry", versions)
    _without_subscription(player)
    _push_metrics(player)
    _note_subscriptions(player)
    _match_clients(player)


def _without_subscription(player: FramePlayer) -> None:
    answer = player.ask_unrecorded(GET, 0, client_instance_id=None)
    player.note(f"{GET} v0 a new client", (answer.error_code, answer.client_instance_id))
    client = _client(1)
    player.ask(GET, 0, "nothing is wanted", client_instance_id=client)
    player.ask(GET, 0, "too early", client_instance_id=client)
    player.ask(PUSH, 0, "another subscription", **_push(client, 7))
    player.ask(GET, 0, "after that", client_instance_id=client)
    player.ask(GET, 0, "and too early", client_instance_id=client)
    answer = player.ask_unrecorded(GET, 0, client_instance_id=_client(2))
    push = _push(_client(2), answer.subscription_id)
    player.ask(PUSH, 0, "nothing", **push)
    player.ask(PUSH, 0, "too early", **push)
    player.ask(GET, 0, "too early after a push", client_instance_id=_client(2))
    player.ask(PUSH, 0, "the last one", **{**push, "terminating": True})
    player.ask(PUSH, 0, "one more", **push)
    player.ask(PUSH, 0, "one more last one", **{**push, "terminating": True})
    player.ask(GET, 0, "after the last one", client_instance_id=_client(2))
    for number in (0, 1, 2):
        reserved_id = uuid.UUID(int=number)
        player.ask(PUSH, 0, f"of a reserved client {number}", **_push(reserved_id, 0))
    player.ask(PUSH, 0, "of an unknown client", **_push(_client(3), 0))
    player.ask(PUSH, 0, "its last one, unknown", **{**_push(_client(4), 0), "terminating": True})


def _push_metrics(player: FramePlayer) -> None:
    full_payload, bomb = bytes(BYTES_MAX), bytes(BYTES_MAX + 1)
    for number, (note, compression_type, metrics) in enumerate(
        (
            ("plain", 0, b"metrics"),
            ("as much as may be", 0, full_payload),
            ("too much", 0, bomb),
            *((f"compressed by {kind}", kind, compress(kind, b"metrics")) for kind in range(1, 5)),
            ("large when decompressed", 4, compress(4, full_payload)),
            ("too large when decompressed", 4, compress(4, bomb)),
            ("not what it says", 1, b"metrics"),
            ("of no kind", 5, b"metrics"),
            ("of a negative kind", -1, b"metrics"),
        ),
        start=10,
    ):
        client = _client(number)
        answer = player.ask_unrecorded(GET, 0, client_instance_id=client)
        push = {**_push(client, answer.subscription_id), "compression_type": compression_type}
        player.ask(PUSH, 0, note, **{**push, "metrics": metrics})
        player.ask(GET, 0, f"after {note}", client_instance_id=client)


def _note_subscriptions(player: FramePlayer) -> None:
    client = _client(30)
    player.ask(GET, 0, "before there is a subscription", client_instance_id=client)
    for note, configs_by_name in (
        ("one metric", {"one": {"metrics": "a.", "interval.ms": "3000000"}}),
        ("several", {"one": {"metrics": ",".join(METRIC_NAMES), "interval.ms": "400000"}}),
        (
            "of two",
            {"one": {"metrics": "a.,b."}, "two": {"metrics": "b.,c.", "interval.ms": "20000"}},
        ),
        ("all of them", {"one": {"metrics": "a."}, "two": {"metrics": "*,x"}}),
    ):
        for config_name, configs in configs_by_name.items():
            _subscribe(player, config_name, configs)
        names = {
            prefix
            for configs in configs_by_name.values()
            for prefix in configs["metrics"].split(",")
        }
        expected = {"*"} if "*" in names else names
        _until_wanted(player, _client(31), functools.partial(operator.eq, expected))
        player.ask(GET, 0, note, client_instance_id=client)
        player.ask(GET, 0, f"{note}, too early", client_instance_id=client)
    for config_name in ("one", "two"):
        _subscribe(player, config_name, {})


def _match_clients(player: FramePlayer) -> None:
    for number, (match, client_id) in enumerate(
        (
            ("client_id=.*", "differ"),
            ("client_id=dif", "differ"),
            ("client_id=dif.*", "differ"),
            ("client_id=.*", None),
            ("client_software_name=differ,client_software_version=1\\..*", "x"),
            ("client_software_name=differ,client_software_version=2\\..*", "x"),
            ("client_source_address=127\\.0\\.0\\.1", "x"),
            ("client_source_address=/127\\.0\\.0\\.1", "x"),
            ("client_source_port=[0-9]+", "x"),
            ("client_instance_id=AAAAAAAA.*", "x"),
            ("client_instance_id=00000000-.*", "x"),
        ),
        start=40,
    ):
        mark_text = f"mark.{number}"
        _subscribe(player, "chosen", {"metrics": "yes", "match": match})
        _subscribe(player, "mark", {"metrics": mark_text})
        _until_wanted(player, _client(39), {mark_text}.issubset)
        player.reconnect(client_id=client_id)
        player.ask_unrecorded("ApiVersions", 3, **_software("differ", "1.2"))
        answer = player.ask_unrecorded(GET, 0, client_instance_id=_client(number))
        is_chosen = "yes" in answer.requested_metrics
        player.note(f"{GET} v0 {match} of {client_id}", (answer.error_code, is_chosen))


# Asking


def _until_wanted(
    player: FramePlayer, client: uuid.UUID, is_so: Callable[[Collection[str]], bool]
) -> None:
    """Wait until the broker knows of the subscription."""
    player.ask_until(
        lambda answer: is_so(set(answer.requested_metrics)), GET, 0, client_instance_id=client
    )


def _client(number: int) -> uuid.UUID:
    """The id of a client instance. It is the same in every play, as the id of its subscription
    depends on it.
    """
    return uuid.UUID(int=0xFACADE_0000 + number)


def _software(client_software_name: str, version: str) -> dict[str, str]:
    return {"client_software_name": client_software_name, "client_software_version": version}


def _push(client: uuid.UUID, subscription_id: int) -> dict[str, Any]:
    return {
        "client_instance_id": client,
        "subscription_id": subscription_id,
        "terminating": False,
        "compression_type": 0,
        "metrics": b"",
    }


def _subscribe(player: FramePlayer, resource_name: str, configs: dict[str, str]) -> None:
    """Replace the settings of a subscription."""
    player.ask_unrecorded(
        "AlterConfigs",
        2,
        resources=[
            {
                "resource_type": CLIENT_METRICS,
                "resource_name": resource_name,
                "configs": [
                    {"name": config_name, "value": config_value}
                    for config_name, config_value in configs.items()
                ],
            }
        ],
    )


STORIES: Final[tuple[Story, ...]] = (client_telemetry,)
