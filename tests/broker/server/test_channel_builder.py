"""What a client passes before it is served: TLS, SASL, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.clusters import VirtualCluster, options, run_cluster
from tests.support.security import acl
from tests.support.wires import Wire
from tests.support.within import within
from txnsim.errors import ConfigError, ErrorCode
from txnsim.runtime.real import real_environment
from txnsim.runtime.tls import server_context
from txnsim.security.acls import Operation, ResourceType
from txnsim.security.options import (
    ClientAuth,
    SecureListener,
    SecurityOptions,
    SecurityProtocol,
    TlsFiles,
)
from txnsim.security.scram import ScramMechanism, credential_of
from txnsim.server._channel_builder import authorizer_of, first_credentials
from txnsim.server.cluster import SimCluster
from txnsim.server.security_demo import Authority
from txnsim.types import BrokerId
from txnsim.wire import codec

SASL = SecureListener(name="SASL", protocol=SecurityProtocol.SASL_PLAINTEXT)
MUTUAL = SecureListener(
    name="MUTUAL", protocol=SecurityProtocol.SSL, client_auth=ClientAuth.REQUESTED
)
USERS = SecurityOptions(listeners=(SASL,), plain_users={"alice": "secret"})


def request(wire: Wire, key: int, version: int, **values: Any) -> bytes:
    return wire.frame(key, version, codec.build(codec.request_class(key, version), **values))


async def log_in(wire: Wire, password: str = "secret") -> Any:
    wire.send(request(wire, 17, 1, mechanism="PLAIN"))
    wire.send(request(wire, 36, 2, auth_bytes=b"\0alice\0" + password.encode()))
    assert (await wire.answer())[1].error_code is ErrorCode.none
    return (await wire.answer())[1]


async def sasl_wire(cluster: VirtualCluster) -> Wire:
    host, port = cluster.sim.bootstrap_of("SASL").split(",")[0].split(":")
    return await Wire.open(host, int(port))


@within(run_cluster, cluster_options=msgspec.structs.replace(options(), security=USERS))
async def test_who_has_logged_in_is_served_and_led_to_listeners_of_the_same_kind(
    cluster: VirtualCluster,
) -> None:
    wire = await sasl_wire(cluster)
    wire.send(request(wire, 18, 0))
    assert (await wire.answer())[1].error_code is ErrorCode.none
    assert (await log_in(wire)).error_code is ErrorCode.none
    wire.send(wire.metadata())
    brokers = (await wire.answer())[1].brokers
    told = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    assert told == cluster.sim.bootstrap_of("SASL")
    wire.send(request(wire, 17, 1, mechanism="PLAIN"))
    assert (await wire.answer())[1].error_code is ErrorCode.illegal_sasl_state
    wire.send(request(wire, 36, 2, auth_bytes=b""))
    assert (await wire.answer())[1].error_code is ErrorCode.illegal_sasl_state
    await wire.close()


@within(run_cluster, cluster_options=msgspec.structs.replace(options(), security=USERS))
async def test_a_wrong_password_is_told_after_a_pause_and_the_connection_closed(
    cluster: VirtualCluster,
) -> None:
    wire = await sasl_wire(cluster)
    began_ms = cluster.env.clock.monotonic_ms()
    answer = await log_in(wire, "wrong")
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert cluster.env.clock.monotonic_ms() - began_ms >= 100
    assert await wire.closed()
    await wire.close()


@within(run_cluster, cluster_options=msgspec.structs.replace(options(), security=USERS))
async def test_who_has_not_logged_in_is_cut_off(cluster: VirtualCluster) -> None:
    wire = await sasl_wire(cluster)
    wire.send(wire.metadata() + wire.metadata())
    assert await wire.closed()
    await wire.close()
    gone = await sasl_wire(cluster)
    gone.send(gone.metadata())
    await gone.close()


@within(run_cluster, cluster_options=msgspec.structs.replace(options(), security=USERS))
async def test_who_is_not_known_may_not_send_as_much_as_who_is(cluster: VirtualCluster) -> None:
    too_much = cluster.sim.options.settings.sasl_server_max_receive_size + 1
    known, unknown = await sasl_wire(cluster), await sasl_wire(cluster)
    await log_in(known)
    unknown.send(request(unknown, 17, 1, mechanism="PLAIN"))
    assert (await unknown.answer())[1].error_code is ErrorCode.none
    unknown.send(request(unknown, 36, 2, auth_bytes=bytes(too_much)))
    assert await unknown.closed()
    known.send(request(known, 36, 2, auth_bytes=bytes(too_much)))
    assert (await known.answer())[1].error_code is ErrorCode.illegal_sasl_state
    await unknown.close()
    await known.close()


def test_those_who_are_not_known_may_not_hold_much_together() -> None:
    async def main(cluster: VirtualCluster) -> None:
        known = await sasl_wire(cluster)
        await log_in(known)
        small, large = await sasl_wire(cluster), await sasl_wire(cluster)
        # Frames that are never whole.
        small.send((50_000).to_bytes(4, "big") + bytes(30_000))
        large.send((90_000).to_bytes(4, "big") + bytes(80_000))
        assert await large.closed()
        small.send(bytes(20_000))
        assert await small.closed()  # for what it has sent, not for what it holds
        known.send(request(known, 17, 1, mechanism="PLAIN"))
        assert (await known.answer())[1].error_code is ErrorCode.illegal_sasl_state
        await known.close()
        for wire in (small, large):
            with contextlib.suppress(ConnectionResetError):
                await wire.close()

    settings = msgspec.structs.replace(options().settings, unknown_clients_max_bytes=100_000)
    run_cluster(
        main,
        cluster_options=msgspec.structs.replace(options(), security=USERS, settings=settings),
    )


@within(run_cluster, cluster_options=msgspec.structs.replace(options(), security=USERS))
async def test_a_request_in_place_of_a_token_is_refused_in_its_own_words(
    cluster: VirtualCluster,
) -> None:
    for key, version, values in ((18, 0, {}), (0, 9, {"acks": 0, "timeout": timedelta(0)})):
        wire = await sasl_wire(cluster)
        wire.send(request(wire, 17, 1, mechanism="PLAIN"))
        await wire.answer()
        if key == 0:
            values = {**values, "transactional_id": None, "topic_data": ()}
        wire.send(request(wire, key, version, **values))
        if key == 18:
            assert (await wire.answer())[1].error_code is ErrorCode.illegal_sasl_state
        assert await wire.closed()
        await wire.close()


@within(run_cluster, cluster_options=msgspec.structs.replace(options(), security=USERS))
async def test_a_client_of_the_future_asks_again_before_it_shakes_hands(
    cluster: VirtualCluster,
) -> None:
    wire = await sasl_wire(cluster)
    names = {"client_software_name": "c", "client_software_version": "1"}
    wire.expect(18, 0)
    wire.send(b"\0\0\0\x0b\0\x12\0\x63\0\0\0\1\xff\xff\0")  # v99
    assert (await wire.answer())[1].error_code is ErrorCode.unsupported_version
    wire.send(request(wire, 18, 3, **{**names, "client_software_name": "?"}))
    assert (await wire.answer())[1].error_code is ErrorCode.invalid_request
    wire.send(request(wire, 18, 3, **names))
    assert (await wire.answer())[1].error_code is ErrorCode.none
    assert (await log_in(wire)).error_code is ErrorCode.none
    await wire.close()


@within(run_cluster, cluster_options=options(as_version=("4.3",), security=USERS))
async def test_a_broker_that_starts_again_has_its_listeners_again(cluster: VirtualCluster) -> None:
    await cluster.sim.stop_broker(BrokerId(1))
    await cluster.sim.start_broker(BrokerId(1), as_version="4.4")
    wire = await sasl_wire(cluster)
    assert (await log_in(wire)).error_code is ErrorCode.none
    wire.send(wire.metadata())
    assert len((await wire.answer())[1].brokers) == 3
    await wire.close()


async def test_a_certificate_says_who_somebody_is(tmp_path: Path) -> None:
    environment = real_environment()
    authority = Authority(tmp_path, now_ms=environment.clock.now_ms())
    broker = authority.issue("broker", hosts=("127.0.0.1",))
    alice = authority.issue("alice")
    second = msgspec.structs.replace(
        MUTUAL, name="SECOND", principal_mapping_rules="RULE:^CN=(bob|alice),.*$/$1/U"
    )
    third = msgspec.structs.replace(
        MUTUAL, name="THIRD", principal_mapping_rules="RULE:^CN=bob,.*$/bob/"
    )
    security = SecurityOptions(
        listeners=(MUTUAL, second, third),
        tls=TlsFiles(
            certificate=str(broker.certificate),
            key=str(broker.key),
            authority=str(authority.certificate),
        ),
    )
    cluster = SimCluster(
        environment, msgspec.structs.replace(options(brokers=1), security=security)
    )
    await cluster.start()
    try:
        host, port = cluster.bootstrap_of("MUTUAL").split(":")
        context = ssl.create_default_context(cafile=str(authority.certificate))
        for expected in ("User:ANONYMOUS", "User:CN=alice,O=txnsim"):
            wire = Wire(*await asyncio.open_connection(host, int(port), ssl=context), "wire")
            wire.send(wire.metadata())
            assert len((await wire.answer())[1].brokers) == 1
            connection = list(cluster.listeners[0].connections)[-1]
            assert connection.principal == expected
            await wire.close()
            context.load_cert_chain(alice.certificate, alice.key)
        # Whoever connects after a reset passes the same doors.
        await cluster.reset(cluster.snapshot())
        host, port = cluster.bootstrap_of("SECOND").split(":")
        wire = Wire(*await asyncio.open_connection(host, int(port), ssl=context), "wire")
        wire.send(wire.metadata())
        await wire.answer()
        assert list(cluster.listeners[0].connections)[-1].principal == "User:ALICE"
        await wire.close()
        # No rule makes a name of the subject: SslPrincipalMapper.NoMatchingRule.
        host, port = cluster.bootstrap_of("THIRD").split(":")
        wire = Wire(*await asyncio.open_connection(host, int(port), ssl=context), "wire")
        assert await wire.reader.read() == b""
        await wire.close()
    finally:
        await cluster.stop()


@within(run_cluster, cluster_options=msgspec.structs.replace(options(), security=USERS))
async def test_a_reset_keeps_users_and_their_doors(cluster: VirtualCluster) -> None:
    before = cluster.sim.bootstrap_of("SASL")
    await cluster.sim.reset(cluster.sim.snapshot())
    assert cluster.sim.bootstrap_of("SASL") == before
    for password, error in (("wrong", ErrorCode.sasl_authentication_failed), ("secret", 0)):
        wire = await sasl_wire(cluster)
        assert (await log_in(wire, password)).error_code == error
        await wire.close()


def test_files_that_are_no_certificates_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    path = str(tmp_path / "a")
    with pytest.raises(ConfigError, match="TLS files"):
        server_context(TlsFiles(certificate=path, key=path), ClientAuth.NONE)
    with pytest.raises(ConfigError, match="TLS files"):
        server_context(TlsFiles(certificate=path + "b", key=path), ClientAuth.NONE)


def test_a_cluster_is_formatted_with_credentials_of_both_mechanisms() -> None:
    found = first_credentials(SecurityOptions(scram_users={"bob": "secret"}), bytes)
    assert set(found) == {
        ("bob", ScramMechanism.SCRAM_SHA_256),
        ("bob", ScramMechanism.SCRAM_SHA_512),
    }


def test_a_password_may_be_of_one_mechanism_alone() -> None:
    """The last one won for both, so that logins by SCRAM-SHA-256 failed."""
    by_mechanism = {"SCRAM-SHA-256": {"bob": "a"}, "SCRAM-SHA-512": {"bob": "b", "ann": "c"}}
    salt = b"0123456789abcdef"
    found = first_credentials(SecurityOptions(scram_users_of=by_mechanism), lambda _: salt)
    small, large = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
    assert found == {
        ("bob", small): credential_of("a", mechanism=small, salt=salt),
        ("bob", large): credential_of("b", mechanism=large, salt=salt),
        ("ann", large): credential_of("c", mechanism=large, salt=salt),
    }


def test_there_is_an_authorizer_only_where_one_is_asked_for() -> None:
    assert authorizer_of(USERS) is None
    options = SecurityOptions(
        has_authorizer=True,
        super_users=frozenset({"User:admin"}),
        acls=(acl(ResourceType.TOPIC, "orders", Operation.READ),),
    )
    authorizer = authorizer_of(options)
    assert authorizer is not None
    assert authorizer.super_users == {"User:admin"}


def test_a_cluster_may_have_secured_listeners_alone() -> None:
    inside = SecureListener(
        name="PLAINTEXT",
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        port=9092,
        host="0.0.0.0",
        advertised_host="kafka.test",
        plain_users={"alice": "secret"},
    )
    outside = SecureListener(
        name="SASL", protocol=SecurityProtocol.SASL_PLAINTEXT, port=9093, max_reauth_ms=5_000
    )

    async def main(cluster: VirtualCluster) -> None:
        # The second broker's ports begin where the first one's end.
        assert cluster.sim.bootstrap == "kafka.test:9092,kafka.test:9094,kafka.test:9096"
        told = cluster.sim.bootstrap_of("SASL")
        assert [one.rpartition(":")[2] for one in told.split(",")] == ["9093", "9095", "9097"]
        wire = await sasl_wire(cluster)
        answer = await log_in(wire)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        await wire.close()
        wire = await Wire.open("127.0.0.1", 9092)
        assert (await log_in(wire)).error_code is ErrorCode.none
        await wire.close()

    security = SecurityOptions(listeners=(outside, inside), has_plain_listener=False)
    run_cluster(main, cluster_options=msgspec.structs.replace(options(), security=security))


def test_a_listener_may_have_sessions_of_its_own_length() -> None:
    short = msgspec.structs.replace(SASL, max_reauth_ms=5_000)

    async def main(cluster: VirtualCluster) -> None:
        wire = await sasl_wire(cluster)
        assert (await log_in(wire)).session_lifetime == timedelta(seconds=5)
        await wire.close()

    security = msgspec.structs.replace(USERS, listeners=(short,))
    run_cluster(main, cluster_options=msgspec.structs.replace(options(), security=security))
