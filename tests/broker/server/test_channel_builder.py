"""What a client passes before it is served: TLS, SASL, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import stat
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import scramp
from cryptography import x509

from tests.support.clusters import VirtualCluster, options, run_cluster
from tests.support.raw_connection import WireClient
from tests.support.security import acl, bearer, credentials, unsecured_token
from tests.support.within_environment import within
from txnsim.api.request import Request
from txnsim.errors import ConfigError, ErrorCode, MissingExtraError
from txnsim.runtime.real_world import real_environment
from txnsim.runtime.tls import server_context
from txnsim.security.acls import NO_ACLS, AclOperation, ResourceType
from txnsim.security.options import (
    ClientAuth,
    SecureListener,
    SecurityOptions,
    SecurityProtocol,
    TlsFiles,
    check_security,
)
from txnsim.security.principals import ANONYMOUS
from txnsim.security.sasl import exchange
from txnsim.security.scram import ScramMechanism, credential_of
from txnsim.server._channel_builder import authorizer_of, first_credentials
from txnsim.server._sasl import (
    HANDLE_STEP,
    FrameTreatment,
    SaslRules,
    SaslSession,
    SaslState,
    SaslStep,
)
from txnsim.server.cluster import SimCluster
from txnsim.server.security_demo import (
    LISTENERS,
    Authority,
    DemoFiles,
    demo_security,
    mechanism_of,
    tls_principal,
)
from txnsim.types import BrokerId
from txnsim.wire import codec

# What a client passes before it is served: TLS, SASL, over real sockets.


SASL = SecureListener(name="SASL", protocol=SecurityProtocol.SASL_PLAINTEXT)
MUTUAL = SecureListener(
    name="MUTUAL", protocol=SecurityProtocol.SSL, client_auth=ClientAuth.REQUESTED
)
USERS = SecurityOptions(listeners=(SASL,), plain_users={"alice": "secret"})


def request(wire: WireClient, api_key: int, version: int, **request_fields: Any) -> bytes:
    return wire.frame(
        api_key, version, codec.build(codec.request_class(api_key, version), **request_fields)
    )


async def log_in(wire: WireClient, password: str = "secret") -> Any:
    wire.send(request(wire, 17, 1, mechanism="PLAIN"))
    wire.send(request(wire, 36, 2, auth_bytes=b"\0alice\0" + password.encode()))
    assert (await wire.answer())[1].error_code is ErrorCode.none
    return (await wire.answer())[1]


async def sasl_wire(cluster: VirtualCluster) -> WireClient:
    host, port = cluster.sim.bootstrap_of("SASL").split(",")[0].split(":")
    return await WireClient.open(host, int(port))


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
    addresses = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    assert addresses == cluster.sim.bootstrap_of("SASL")
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
    assert await wire.is_closed_by_broker()
    await wire.close()


@within(run_cluster, cluster_options=msgspec.structs.replace(options(), security=USERS))
async def test_who_has_not_logged_in_is_cut_off(cluster: VirtualCluster) -> None:
    wire = await sasl_wire(cluster)
    wire.send(wire.metadata() + wire.metadata())
    assert await wire.is_closed_by_broker()
    await wire.close()
    closed_wire = await sasl_wire(cluster)
    closed_wire.send(closed_wire.metadata())
    await closed_wire.close()


@within(run_cluster, cluster_options=msgspec.structs.replace(options(), security=USERS))
async def test_who_is_not_known_may_not_send_as_much_as_who_is(cluster: VirtualCluster) -> None:
    too_much = cluster.sim.options.settings.sasl_server_max_receive_size + 1
    known_wire, unknown_wire = await sasl_wire(cluster), await sasl_wire(cluster)
    await log_in(known_wire)
    unknown_wire.send(request(unknown_wire, 17, 1, mechanism="PLAIN"))
    assert (await unknown_wire.answer())[1].error_code is ErrorCode.none
    unknown_wire.send(request(unknown_wire, 36, 2, auth_bytes=bytes(too_much)))
    assert await unknown_wire.is_closed_by_broker()
    known_wire.send(request(known_wire, 36, 2, auth_bytes=bytes(too_much)))
    assert (await known_wire.answer())[1].error_code is ErrorCode.illegal_sasl_state
    await unknown_wire.close()
    await known_wire.close()


def test_those_who_are_not_known_may_not_hold_much_together() -> None:
    async def main(cluster: VirtualCluster) -> None:
        known_wire = await sasl_wire(cluster)
        await log_in(known_wire)
        small_wire, large_wire = await sasl_wire(cluster), await sasl_wire(cluster)
        # Frames that are never whole.
        small_wire.send((50_000).to_bytes(4, "big") + bytes(30_000))
        large_wire.send((90_000).to_bytes(4, "big") + bytes(80_000))
        assert await large_wire.is_closed_by_broker()
        small_wire.send(bytes(20_000))
        assert await small_wire.is_closed_by_broker()  # for what it has sent, not for what it holds
        known_wire.send(request(known_wire, 17, 1, mechanism="PLAIN"))
        assert (await known_wire.answer())[1].error_code is ErrorCode.illegal_sasl_state
        await known_wire.close()
        for wire in (small_wire, large_wire):
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
        assert await wire.is_closed_by_broker()
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
    alice_keys = authority.issue("alice")
    second_listener = msgspec.structs.replace(
        MUTUAL, name="SECOND", principal_mapping_rules="RULE:^CN=(bob|alice),.*$/$1/U"
    )
    third_listener = msgspec.structs.replace(
        MUTUAL, name="THIRD", principal_mapping_rules="RULE:^CN=bob,.*$/bob/"
    )
    security = SecurityOptions(
        listeners=(MUTUAL, second_listener, third_listener),
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
        for expected_text in ("User:ANONYMOUS", "User:CN=alice,O=txnsim"):
            wire = WireClient(*await asyncio.open_connection(host, int(port), ssl=context), "wire")
            wire.send(wire.metadata())
            assert len((await wire.answer())[1].brokers) == 1
            connection = list(cluster.listeners[0].connections)[-1]
            assert connection.principal == expected_text
            await wire.close()
            context.load_cert_chain(alice_keys.certificate, alice_keys.key)
        # Whoever connects after a reset passes the same endpoints.
        await cluster.reset(cluster.snapshot())
        host, port = cluster.bootstrap_of("SECOND").split(":")
        wire = WireClient(*await asyncio.open_connection(host, int(port), ssl=context), "wire")
        wire.send(wire.metadata())
        await wire.answer()
        assert list(cluster.listeners[0].connections)[-1].principal == "User:ALICE"
        await wire.close()
        # No rule makes a name of the subject: SslPrincipalMapper.NoMatchingRule.
        host, port = cluster.bootstrap_of("THIRD").split(":")
        wire = WireClient(*await asyncio.open_connection(host, int(port), ssl=context), "wire")
        assert await wire.reader.read() == b""
        await wire.close()
    finally:
        await cluster.stop()


@within(run_cluster, cluster_options=msgspec.structs.replace(options(), security=USERS))
async def test_a_reset_keeps_users_and_their_endpoints(cluster: VirtualCluster) -> None:
    bootstrap_before = cluster.sim.bootstrap_of("SASL")
    await cluster.sim.reset(cluster.sim.snapshot())
    assert cluster.sim.bootstrap_of("SASL") == bootstrap_before
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
    credentials = first_credentials(SecurityOptions(scram_users={"bob": "secret"}), bytes)
    assert set(credentials) == {
        ("bob", ScramMechanism.SCRAM_SHA_256),
        ("bob", ScramMechanism.SCRAM_SHA_512),
    }


def test_a_password_may_be_of_one_mechanism_alone() -> None:
    by_mechanism = {"SCRAM-SHA-256": {"bob": "a"}, "SCRAM-SHA-512": {"bob": "b", "ann": "c"}}
    salt = b"0123456789abcdef"
    credentials = first_credentials(
        SecurityOptions(scram_users_by_mechanism=by_mechanism), lambda _: salt
    )
    sha_256, sha_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
    assert credentials == {
        ("bob", sha_256): credential_of("a", mechanism=sha_256, salt=salt),
        ("bob", sha_512): credential_of("b", mechanism=sha_512, salt=salt),
        ("ann", sha_512): credential_of("c", mechanism=sha_512, salt=salt),
    }


def test_there_is_an_authorizer_only_where_one_is_asked_for() -> None:
    assert authorizer_of(USERS) is None
    options = SecurityOptions(
        has_authorizer=True,
        super_users=frozenset({"User:admin"}),
        acls=(acl(ResourceType.TOPIC, "orders", AclOperation.READ),),
    )
    authorizer = authorizer_of(options)
    assert authorizer is not None
    assert authorizer.super_users == {"User:admin"}


def test_a_cluster_may_have_secured_listeners_alone() -> None:
    inside_listener = SecureListener(
        name="PLAINTEXT",
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        port=9092,
        host="0.0.0.0",
        advertised_host="kafka.test",
        plain_users={"alice": "secret"},
    )
    outside_listener = SecureListener(
        name="SASL", protocol=SecurityProtocol.SASL_PLAINTEXT, port=9093, max_reauth_ms=5_000
    )

    async def main(cluster: VirtualCluster) -> None:
        # The second broker's ports begin where the first one's end.
        assert cluster.sim.bootstrap == "kafka.test:9092,kafka.test:9094,kafka.test:9096"
        bootstrap = cluster.sim.bootstrap_of("SASL")
        assert [address.rpartition(":")[2] for address in bootstrap.split(",")] == [
            "9093",
            "9095",
            "9097",
        ]
        wire = await sasl_wire(cluster)
        answer = await log_in(wire)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        await wire.close()
        wire = await WireClient.open("127.0.0.1", 9092)
        assert (await log_in(wire)).error_code is ErrorCode.none
        await wire.close()

    security = SecurityOptions(
        listeners=(outside_listener, inside_listener), has_plain_listener=False
    )
    run_cluster(main, cluster_options=msgspec.structs.replace(options(), security=security))


def test_a_listener_may_have_sessions_of_its_own_length() -> None:
    short_listener = msgspec.structs.replace(SASL, max_reauth_ms=5_000)

    async def main(cluster: VirtualCluster) -> None:
        wire = await sasl_wire(cluster)
        assert (await log_in(wire)).session_lifetime == timedelta(seconds=5)
        await wire.close()

    security = msgspec.structs.replace(USERS, listeners=(short_listener,))
    run_cluster(main, cluster_options=msgspec.structs.replace(options(), security=security))


# SASL on one connection: the order of frames, and what each leads to.


WALL_MS = 1_000_000


class LoginBench:
    """A SASL session of the broker, and the client at its other end."""

    def __init__(self, *, max_reauth_ms: int = 0) -> None:
        self.now_ms = 50_000
        self.session = SaslSession(
            SaslRules(
                mechanisms=("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"),
                max_reauth_ms=max_reauth_ms,
                begin_exchange=self._begin_exchange,
                now_ms=lambda: WALL_MS,
                monotonic_ms=lambda: self.now_ms,
            )
        )

    def _begin_exchange(self, mechanism: str) -> Any:
        return exchange(
            mechanism,
            plain_users={"alice": "secret", "bob": "secret"},
            credentials=credentials(),
            make_nonce=lambda: "servernonce",
            now_ms=WALL_MS,
        )

    def send(self, api_key: int, version: int, **values: Any) -> SaslStep:
        message = codec.build(codec.request_class(api_key, version), **values)
        return self.session.treat_frame(codec.encode_request(api_key, version, 7, "c", message)[4:])

    def handshake(self, mechanism: str = "PLAIN", *, version: int = 1) -> tuple[SaslStep, Any]:
        step = self.send(17, version, mechanism=mechanism)
        return step, read(17, version, step)

    def token(self, auth_bytes: bytes, *, version: int = 2) -> tuple[SaslStep, Any]:
        step = self.send(36, version, auth_bytes=auth_bytes)
        return step, read(36, version, step)

    def versions(self) -> SaslStep:
        step = self.send(18, 0)
        if step is HANDLE_STEP:
            self.session.expect_handshake(cast(Request, SimpleNamespace(api_version=0)))
        return step

    def log_in(self, user_name: str = "alice") -> Any:
        self.handshake()
        return self.token(f"\0{user_name}\0secret".encode())[1]


def read(api_key: int, version: int, step: SaslStep) -> Any:
    return codec.read_response(api_key, version, step.answer[4:])[1] if step.answer else None


def test_a_client_asks_for_versions_shakes_hands_and_says_who_it_is() -> None:
    login_bench = LoginBench()
    assert login_bench.versions() is HANDLE_STEP
    step, answer = login_bench.handshake()
    assert (step.treatment, answer.error_code) == (FrameTreatment.SEND, ErrorCode.none)
    assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
    assert login_bench.session.principal == ANONYMOUS
    step, answer = login_bench.token(b"\0alice\0secret")
    assert (step.treatment, answer.error_code) == (FrameTreatment.SEND, ErrorCode.none)
    assert answer.session_lifetime.total_seconds() == 0
    assert login_bench.session.principal == "User:alice"
    assert login_bench.send(3, 1, topics=()) is HANDLE_STEP
    assert (
        login_bench.send(17, 1, mechanism="PLAIN") is HANDLE_STEP
    )  # the handler: ILLEGAL_SASL_STATE


def test_versions_are_told_once() -> None:
    login_bench = LoginBench()
    login_bench.versions()
    assert login_bench.versions().treatment is FrameTreatment.FAIL


def test_an_unknown_mechanism_is_answered_with_those_that_are_known() -> None:
    step, answer = LoginBench().handshake("GSSAPI")
    assert step.treatment is FrameTreatment.FAIL
    assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
    assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")


def test_anything_else_before_it_is_known_who_it_is_ends_the_connection() -> None:
    assert LoginBench().send(3, 1, topics=()) == SaslStep(
        treatment=FrameTreatment.FAIL, reason="Metadata during the SASL handshake"
    )
    login_bench = LoginBench()
    login_bench.handshake()
    step = login_bench.send(3, 1, topics=())
    assert (step.treatment, step.answer) == (FrameTreatment.REFUSE, b"")


@pytest.mark.parametrize(("key", "reason"), [(17, "SaslHandshake v9"), (36, "SaslAuthenticate v9")])
def test_unknown_versions_end_the_connection(key: int, reason: str) -> None:
    login_bench = LoginBench()
    if key == 36:
        login_bench.handshake()
    frame = key.to_bytes(2, "big") + b"\0\x09" + bytes(4) + b"\xff\xff\0"
    step = login_bench.session.treat_frame(frame)
    assert (step.treatment, step.reason) == (FrameTreatment.FAIL, f"{reason} is not supported")


def test_a_wrong_password_is_told_after_a_pause() -> None:
    login_bench = LoginBench()
    login_bench.handshake()
    step, answer = login_bench.token(b"\0alice\0wrong", version=0)
    assert step.treatment is FrameTreatment.FAIL
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert answer.error_message == "Authentication failed: Invalid username or password"


def test_scram_says_only_that_credentials_are_invalid() -> None:
    login_bench = LoginBench()
    login_bench.handshake("SCRAM-SHA-256")
    _, answer = login_bench.token(b"nonsense")
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )


def test_after_the_first_handshake_version_tokens_come_without_headers() -> None:
    login_bench = LoginBench()
    login_bench.handshake("SCRAM-SHA-256", version=0)
    client = scramp.ScramClient(["SCRAM-SHA-256"], "alice", "secret", c_nonce="clientnonce")
    step = login_bench.session.treat_frame(client.get_client_first().encode())
    assert int.from_bytes(step.answer[:4], "big") == len(step.answer) - 4
    client.set_server_first(step.answer[4:].decode())
    step = login_bench.session.treat_frame(client.get_client_final().encode())
    client.set_server_final(step.answer[4:].decode())
    assert login_bench.session.state is SaslState.COMPLETE
    login_bench = LoginBench()
    login_bench.handshake(version=0)
    assert login_bench.session.treat_frame(b"\0alice\0wrong").treatment is FrameTreatment.FAIL


def test_a_session_ends_unless_the_client_authenticates_again() -> None:
    login_bench = LoginBench(max_reauth_ms=60_000)
    assert login_bench.log_in().session_lifetime.total_seconds() == 60
    login_bench.now_ms += 60_000
    assert login_bench.send(3, 1, topics=()) is HANDLE_STEP
    login_bench.now_ms += 1
    assert login_bench.send(3, 1, topics=()).treatment is FrameTreatment.FAIL
    assert login_bench.log_in().error_code is ErrorCode.none
    assert login_bench.send(3, 1, topics=()) is HANDLE_STEP


def test_nobody_authenticates_again_twice_in_a_second() -> None:
    login_bench = LoginBench(max_reauth_ms=60_000)
    login_bench.log_in()
    assert login_bench.log_in().error_code is ErrorCode.none
    login_bench.now_ms += 999
    assert login_bench.send(17, 1, mechanism="PLAIN") is HANDLE_STEP
    login_bench.now_ms += 1
    assert login_bench.handshake()[0].treatment is FrameTreatment.SEND


def test_nobody_comes_back_as_somebody_else() -> None:
    login_bench = LoginBench(max_reauth_ms=60_000)
    login_bench.log_in()
    answer = login_bench.log_in("bob")
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert answer.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )


def test_nobody_comes_back_with_another_mechanism() -> None:
    login_bench = LoginBench(max_reauth_ms=60_000)
    login_bench.log_in()
    step, answer = login_bench.handshake("SCRAM-SHA-256")
    assert (step.treatment, answer.error_code) == (FrameTreatment.SEND, ErrorCode.none)
    assert login_bench.token(b"x")[0].treatment is FrameTreatment.FAIL


def test_failing_again_says_so() -> None:
    login_bench = LoginBench(max_reauth_ms=60_000)
    login_bench.log_in()
    login_bench.handshake()
    _, answer = login_bench.token(b"\0alice\0wrong")
    assert answer.error_code is ErrorCode.sasl_authentication_failed


def test_a_session_ends_with_its_token() -> None:
    login_bench = LoginBench(max_reauth_ms=60_000)
    login_bench.handshake("OAUTHBEARER")
    token = unsecured_token({"sub": "alice", "exp": WALL_MS / 1_000 + 5})
    _, answer = login_bench.token(bearer(token))
    assert answer.session_lifetime.total_seconds() == 5
    login_bench.now_ms += 5_001
    assert login_bench.send(3, 1, topics=()).treatment is FrameTreatment.FAIL


@pytest.mark.parametrize("end", ["1e400", "1e30", "1e12"])
@pytest.mark.parametrize("version", [0, 1])
def test_a_token_that_ends_later_than_a_session_can_closes_the_connection(
    end: str, version: int
) -> None:
    login_bench = LoginBench()
    login_bench.handshake("OAUTHBEARER", version=version)
    token = bearer(unsecured_token(f'{{"sub":"alice","exp":{end}}}'.encode()))
    step = login_bench.token(token)[0] if version else login_bench.session.treat_frame(token)
    assert (step.treatment, step.answer) == (FrameTreatment.FAIL, b"")
    assert step.reason == "the token ends later than a session can"
    assert login_bench.session.principal == ANONYMOUS


def test_the_longest_session_has_kafkas_nanoseconds() -> None:
    login_bench = LoginBench()
    login_bench.handshake("OAUTHBEARER")
    _, answer = login_bench.token(bearer(unsecured_token({"sub": "alice", "exp": 9_000_000_000})))
    assert answer.session_lifetime.total_seconds() == 9_000_000_000 - WALL_MS / 1_000


def test_a_late_end_of_a_token_does_not_matter_where_sessions_end_sooner() -> None:
    login_bench = LoginBench(max_reauth_ms=3_000)
    login_bench.handshake("OAUTHBEARER")
    token = bearer(unsecured_token(b'{"sub":"alice","exp":1e400}'))
    assert login_bench.token(token)[1].session_lifetime.total_seconds() == 3


# Security to try out: who can log in, and what they may do.


TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


@pytest.fixture
def demo(tmp_path: Path) -> tuple[SecurityOptions, DemoFiles]:
    """A security demo whose first port is 9092."""
    return demo_security(tmp_path, port=9092, hosts=("localhost",), now_ms=1_700_000_000_000)


def test_it_makes_sense_and_its_files_are_there(demo: tuple[SecurityOptions, DemoFiles]) -> None:
    options, files = demo
    check_security(options)
    ports = {listener.name: listener.port for listener in options.listeners}
    assert ports == {
        listener_name: 9092 + distance for listener_name, distance in LISTENERS.items()
    }
    assert files.keystore.read_bytes() == files.key.read_bytes() + files.certificate.read_bytes()
    assert files.authority.exists()


def test_free_ports_are_free_everywhere(tmp_path: Path) -> None:
    options, _ = demo_security(tmp_path, port=0, hosts=("localhost",), now_ms=1_700_000_000_000)
    assert {listener.port for listener in options.listeners} == {0}


@pytest.mark.parametrize(
    ("principal", "operation", "resource_type", "resource_name", "is_expected"),
    [
        ("User:admin", AclOperation.ALTER, ResourceType.CLUSTER, "kafka-cluster", True),
        ("User:scram-user", AclOperation.WRITE, TOPIC, "orders", True),
        ("User:scram-user", AclOperation.ALTER, ResourceType.CLUSTER, "kafka-cluster", False),
        (tls_principal(), AclOperation.READ, GROUP, "g", True),
        ("User:guest", AclOperation.READ, TOPIC, "public-news", True),
        ("User:guest", AclOperation.WRITE, TOPIC, "public-news", False),
        ("User:guest", AclOperation.READ, TOPIC, "orders", False),
        ("User:ANONYMOUS", AclOperation.DESCRIBE, TOPIC, "public-news", False),
    ],
)
def test_users_have_rights_and_guests_few(
    demo: tuple[SecurityOptions, DemoFiles],
    principal: str,
    operation: AclOperation,
    resource_type: ResourceType,
    resource_name: str,
    *,
    is_expected: bool,
) -> None:
    options, _ = demo
    authorizer = authorizer_of(options)
    assert authorizer is not None
    is_allowed = authorizer.allows(
        NO_ACLS.plus(options.acls),
        principal=principal,
        host="127.0.0.1",
        operation=operation,
        resource_type=resource_type,
        resource_name=resource_name,
    )
    assert is_allowed is is_expected


def test_everybody_has_a_way_to_log_in() -> None:
    assert mechanism_of("tls-user") is None
    assert mechanism_of("guest") == "SCRAM-SHA-256"
    assert mechanism_of("oauth-user") == "OAUTHBEARER"


# Certificates to try out: who trusts the authority trusts its brokers and clients.


NOW_MS = 1_700_000_000_000


def test_a_broker_is_good_for_its_hosts_and_signed_by_the_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path, now_ms=NOW_MS)
    pair = authority.issue("broker", hosts=("127.0.0.1", "localhost", "localhost"))
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    signer_certificate = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    certificate.verify_directly_issued_by(signer_certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600


def test_a_client_has_its_name_and_no_hosts(tmp_path: Path) -> None:
    pair = Authority(tmp_path, now_ms=NOW_MS).issue("alice")
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    assert certificate.subject.rfc4514_string() == "CN=alice,O=txnsim"
    with pytest.raises(x509.ExtensionNotFound):
        certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[security\]'"):
        Authority(tmp_path, now_ms=NOW_MS)
