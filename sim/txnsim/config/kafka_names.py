"""The properties of a real broker, and why some have no effect here.

``KNOWN`` is what ``KafkaConfig.configDef()`` of Apache Kafka 4.3 lists. It tells a property that we
do without from a typing error. Settings of ours and the properties that name listeners have an
effect, and so do those of security; every other one (``IDLE``) has a reason why not, by the family
that its name begins with.
"""

from __future__ import annotations

from typing import Final

from txnsim.settings import documentation

LISTENER_PROPERTIES: Final = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "listener.security.protocol.map",
        "listeners",
    }
)
"""Read by ``txnsim.config.listeners``: where clients find us."""

AUTHORIZER_PROPERTIES: Final = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""StandardAuthorizer's own, which KafkaConfig does not list."""

SECURITY_PROPERTIES: Final = AUTHORIZER_PROPERTIES | {
    "authorizer.class.name",
    "connection.failed.authentication.delay.ms",
    "connections.max.reauth.ms",
    "principal.builder.class",
    "sasl.enabled.mechanisms",
    "sasl.server.callback.handler.class",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
}
"""Read by ``txnsim.config.broker_security``."""

NO_DISK: Final = "partitions are kept in memory"
NO_TIERS: Final = "there is no tiered storage"
ONE_LOG: Final = "followers fetch by one fetcher per leader, and consumers from whom they ask"
ONE_PROCESS: Final = "brokers and controller share one process; brokers are numbered from 1"
ONE_LOOP: Final = "one event loop serves every connection"
NO_DYNAMIC: Final = "stores are read once, at the start"
NO_LOGIN: Final = "brokers ask each other within the process and log in nowhere"
NO_KERBEROS: Final = "Kerberos is not spoken"
UNSIGNED: Final = "tokens of OAUTHBEARER are unsecured: they have no signature"
NO_TOKENS: Final = "there are no delegation tokens"
OPENSSL: Final = "OpenSSL decides on that"
NO_LISTENER_FOR_IT: Final = "no listener has a use for it"
NO_GROUPS: Final = "groups keep their defaults"
NO_CLASSES: Final = "Java classes can't be loaded"
OWN_METRICS: Final = "metrics are those of the HTTP port"
NOT_MODELLED: Final = "nothing here depends on it"
BEFORE_4: Final = "Kafka 4 has no such property any more"

_FAMILIES: Final = (
    ("alter.config.policy.", NO_CLASSES),
    ("alter.log.dirs.", NO_DISK),
    ("background.", ONE_LOOP),
    ("broker.", ONE_PROCESS),
    ("client.quota.", ONE_LOOP),
    ("compression.", NO_DISK),
    ("config.providers", NO_CLASSES),
    ("connections.", ONE_LOOP),
    ("controlled.shutdown.", ONE_PROCESS),
    ("controller.", ONE_PROCESS),
    ("cordoned.log.dirs", NO_DISK),
    ("create.topic.policy.", NO_CLASSES),
    ("delegation.token.", NO_TOKENS),
    ("follower.", NO_TIERS),
    ("group.", NO_GROUPS),
    ("initial.broker.", ONE_PROCESS),
    ("inter.broker.", ONE_PROCESS),
    ("internal.metadata.", ONE_PROCESS),
    ("kafka.metrics.", OWN_METRICS),
    ("log.local.", NO_TIERS),
    ("log.", NO_DISK),
    ("max.connection", ONE_LOOP),
    ("metadata.", ONE_PROCESS),
    ("metric", OWN_METRICS),
    ("node.id", ONE_PROCESS),
    ("num.network.", ONE_LOOP),
    ("num.io.", ONE_LOOP),
    ("num.recovery.", NO_DISK),
    ("num.replica.alter.", NO_DISK),
    ("num.replica.", ONE_LOG),
    ("offset", NO_GROUPS),
    ("process.roles", ONE_PROCESS),
    ("queued.", ONE_LOOP),
    ("quota.", ONE_LOOP),
    ("remote.", NO_TIERS),
    ("replica", ONE_LOG),
    (
        "sasl.jaas.config",
        "it needs listener and mechanism: listener.name.NAME.plain.sasl.jaas.config",
    ),
    ("sasl.kerberos.", NO_KERBEROS),
    ("sasl.oauthbearer.", UNSIGNED),
    ("sasl.", NO_LOGIN),
    ("security.inter.", NO_LOGIN),
    ("security.", NO_CLASSES),
    ("share.", NO_GROUPS),
    ("socket.", ONE_LOOP),
    ("ssl.engine.", NO_CLASSES),
    ("ssl.endpoint.", NO_LOGIN),
    ("ssl.allow.", NO_DYNAMIC),
    ("ssl.", OPENSSL),
    ("transaction.state.log.load.", NO_DISK),
)


def why_without_effect(name: str) -> str | None:
    """Why this property of a real broker changes nothing here; None where it does or is unknown."""
    if name in FORMER or name.startswith(ZOOKEEPER):
        return BEFORE_4
    if name not in IDLE:
        return None
    return next((why for family, why in _FAMILIES if name.startswith(family)), NOT_MODELLED)


ZOOKEEPER: Final = "zookeeper."
"""What all its properties begin with, in any release that had it."""

FORMER: Final = frozenset(
    """
    advertised.host.name advertised.port
    alter.config.policy.kraft.compatibility.enable auto.include.jmx.reporter
    broker.id.generation.enable control.plane.listener.name controlled.shutdown.max.retries
    controlled.shutdown.retry.backoff.ms delegation.token.master.key
    eligible.leader.replicas.enable
    group.coordinator.new.enable group.share.enable group.share.max.groups host.name
    inter.broker.protocol.version leader.imbalance.per.broker.percentage
    log.message.downconversion.enable log.message.format.version
    log.message.timestamp.difference.max.ms metadata.log.segment.min.bytes
    offsets.commit.required.acks password.encoder.cipher.algorithm password.encoder.iterations
    password.encoder.key.length password.encoder.keyfactory.algorithm password.encoder.old.secret
    password.encoder.secret port quota.consumer.default quota.producer.default
    reserved.broker.max.id
    """.split()  # noqa: SIM905 - as a list it would be 30 lines
)
"""What ``KafkaConfig`` of 2.7.2 or 3.9.2 lists and that of 4.3 does not, besides ZooKeeper's: an
old server.properties is read, and they are named.
"""

IDLE: Final = frozenset(
    """
    alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds background.threads broker.id broker.rack
    client.quota.callback.class compression.lz4.level config.providers connections.max.idle.ms
    controlled.shutdown.enable controller.performance.always.log.threshold.ms
    controller.performance.sample.period.ms controller.quorum.append.linger.ms
    controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
    controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
    controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
    controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
    controller.quorum.retry.backoff.ms controller.quorum.voters controller.quota.window.num
    controller.quota.window.size.seconds controller.socket.timeout.ms cordoned.log.dirs
    create.topic.policy.class.name delegation.token.expiry.check.interval.ms
    delegation.token.expiry.time.ms delegation.token.max.lifetime.ms delegation.token.secret.key
    delete.records.purgatory.purge.interval.requests early.start.listeners
    fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    group.coordinator.append.linger.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.coordinator.rebalance.protocols
    group.coordinator.threads group.share.assignment.interval.ms group.share.assignors
    group.share.delivery.count.limit group.share.heartbeat.interval.ms
    group.share.initialize.retry.interval.ms group.share.max.assignment.interval.ms
    group.share.max.delivery.count.limit group.share.max.heartbeat.interval.ms
    group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms
    group.share.max.session.timeout.ms group.share.max.share.sessions group.share.max.size
    group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
    group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
    group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
    group.share.partition.max.record.locks group.share.persister.class.name
    group.share.record.lock.duration.ms group.share.session.timeout.ms
    group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms
    group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
    group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms
    group.streams.max.size group.streams.max.standby.replicas
    group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
    group.streams.min.session.timeout.ms group.streams.num.standby.replicas
    group.streams.session.timeout.ms initial.broker.registration.timeout.ms
    inter.broker.listener.name internal.metadata.delete.delay.millis
    internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
    kafka.metrics.polling.interval.secs kafka.metrics.reporters log.cleaner.io.buffer.size
    log.cleaner.io.max.bytes.per.second log.cleaner.threads log.dir log.dir.failure.timeout.ms
    log.dirs log.flush.interval.messages log.flush.interval.ms
    log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms
    log.local.retention.bytes log.local.retention.ms log.preallocate log.segment.delete.delay.ms
    max.connection.creation.rate max.connections max.connections.per.ip
    max.connections.per.ip.overrides metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
    metadata.max.retention.bytes metadata.max.retention.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms node.id num.io.threads num.network.threads
    num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
    offsets.load.buffer.size offsets.topic.compression.codec process.roles
    producer.purgatory.purge.interval.requests queued.max.request.bytes queued.max.requests
    quota.window.num quota.window.size.seconds remote.fetch.max.wait.ms
    remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
    remote.log.index.file.cache.ttl.ms remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
    remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
    remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
    remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
    remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter
    remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
    remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
    remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
    remote.log.reader.max.pending.tasks remote.log.reader.threads
    remote.log.storage.manager.class.name remote.log.storage.manager.class.path
    remote.log.storage.manager.impl.prefix remote.log.storage.system.enable replica.fetch.min.bytes
    replica.selector.class replica.socket.receive.buffer.bytes replica.socket.timeout.ms
    replication.quota.window.num replication.quota.window.size.seconds
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
    sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.inter.broker.protocol security.providers
    server.max.startup.time.ms share.coordinator.append.linger.ms
    share.coordinator.cached.buffer.max.bytes share.coordinator.cold.partition.snapshot.interval.ms
    share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
    share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms
    share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms socket.listen.backlog.size socket.receive.buffer.bytes
    ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.keymanager.algorithm
    ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
    transaction.state.log.load.buffer.size unstable.feature.versions.enable
    """.split()  # noqa: SIM905 - as a list it would be 240 lines
)
"""What ``KafkaConfig.configDef()`` of 4.3 lists besides what has an effect here."""

KNOWN: Final = (
    IDLE
    | LISTENER_PROPERTIES
    | (SECURITY_PROPERTIES - AUTHORIZER_PROPERTIES)
    | {setting.kafka for setting in documentation().values() if setting.kafka is not None}
)
"""All that it lists."""
