//! The cluster, and how clients are made.

use std::sync::Arc;

use checks::driver::{Answer, Failure, Kind, Library, ProducerOptions, Record, Security};
use checks::security::unsecured_token;
use krafka::Kafka;
use krafka::admin::{
    AdminClient, ListConsumerGroupOffsetsOptions, ListOffsetsOptions, NewTopic, OffsetSpec,
    TopicPartition,
};
use krafka::auth::{AuthConfig, TlsConfig};
use krafka::consumer::GroupProtocol;
use tokio::runtime::Runtime;

use crate::consumers::{self, Member};
use crate::failures::{answer, failure_of};
use crate::producers::Producer;

/// Its members speak the consumer protocol (KIP-848) or the classic one.
pub struct Krafka<const KIP_848: bool = false> {
    bootstrap: String,
    security: AuthConfig,
    pub runtime: Arc<Runtime>,
    kafka: Kafka,
    pub admin: AdminClient,
}

impl<const KIP_848: bool> Krafka<KIP_848> {
    /// Connections of one's own: while one member waits for its turn to join, a broker answers
    /// nothing else on that connection.
    fn apart(&self) -> Answer<Kafka> {
        connected(&self.runtime, &self.bootstrap, &self.security)
    }

    /// The offsets behind the last records that the isolation level shows.
    fn ends(&self, topic: &str, read_committed: bool) -> Answer<Vec<i64>> {
        let partitions = i32::try_from(self.leaders(topic)?.len()).unwrap_or_default();
        let asked = (0..partitions).map(|at| (TopicPartition::new(topic, at), OffsetSpec::Latest));
        let options = ListOffsetsOptions::default().read_committed(read_committed);
        let asked = self.admin.list_offsets(asked, options);
        let mut found = answer(&self.runtime, "list_offsets", asked)?;
        (0..partitions)
            .map(|partition| match found.remove(&TopicPartition::new(topic, partition)) {
                Some(listed) => Ok(listed.map_err(failure_of)?.offset),
                None => Err(Failure::new(Kind::Other, format!("no end of {topic}-{partition}"))),
            })
            .collect()
    }
}

impl<const KIP_848: bool> Library for Krafka<KIP_848> {
    type Producer = Producer;
    type Member = Member;

    const CODECS: &'static [&'static str] = &["none", "gzip", "snappy", "lz4", "zstd"];

    fn new(bootstrap: &str, security: &Security) -> Answer<Self> {
        let runtime =
            Runtime::new().map_err(|error| Failure::new(Kind::Other, error.to_string()))?;
        let security = credentials(security)?;
        let kafka = connected(&runtime, bootstrap, &security)?;
        let admin = kafka.admin();
        let bootstrap = bootstrap.to_owned();
        Ok(Self { bootstrap, security, runtime: Arc::new(runtime), kafka, admin })
    }

    fn brokers(&self) -> Answer<usize> {
        let asked = self.admin.describe_cluster(Default::default());
        Ok(answer(&self.runtime, "describe_cluster", asked)?.brokers.len())
    }

    fn create_topic(&self, topic: &str, partitions: i32, replicas: i16) -> Answer<()> {
        let wanted = NewTopic::new(topic, partitions, replicas).map_err(failure_of)?;
        let asked = self.admin.create_topics([wanted], Default::default());
        for (_, result) in answer(&self.runtime, "create_topics", asked)? {
            result.map_err(failure_of)?;
        }
        Ok(())
    }

    fn leaders(&self, topic: &str) -> Answer<Vec<i32>> {
        let asked = self.admin.describe_topics([topic], Default::default());
        match answer(&self.runtime, "describe_topics", asked)?.remove(topic) {
            Some(Ok(found)) => {
                Ok(found.partitions.iter().map(|each| each.leader.unwrap_or(-1)).collect())
            }
            // It is not known everywhere yet.
            Some(Err(error)) if error.is_retriable() => Ok(vec![]),
            Some(Err(error)) => Err(failure_of(error)),
            None => Ok(vec![]),
        }
    }

    fn positions(&self, group: &str, topic: &str, partitions: i32) -> Answer<Vec<Option<i64>>> {
        let all = (0..partitions).map(|partition| TopicPartition::new(topic, partition));
        let options = ListConsumerGroupOffsetsOptions::default().partitions(all.collect());
        let asked = self.admin.list_consumer_group_offsets(group, options);
        let mut found = answer(&self.runtime, "list_consumer_group_offsets", asked)?;
        (0..partitions)
            .map(|partition| match found.remove(&TopicPartition::new(topic, partition)) {
                Some(committed) => Ok(committed.map_err(failure_of)?.offset),
                None => Ok(None),
            })
            .collect()
    }

    fn producer(&self, options: ProducerOptions) -> Answer<Producer> {
        Producer::new(&self.runtime, &self.kafka, &options)
    }

    fn member(&self, group: &str, topic: &str) -> Answer<Member> {
        let protocol = if KIP_848 { GroupProtocol::Consumer } else { GroupProtocol::Classic };
        Member::new(&self.runtime, &self.apart()?, protocol, group, topic)
    }

    fn read(&self, topic: &str, committed: bool) -> Answer<Vec<Record>> {
        let ends = self.ends(topic, committed)?;
        consumers::read(&self.runtime, &self.kafka, topic, &ends, committed)
    }
}

fn connected(runtime: &Runtime, bootstrap: &str, security: &AuthConfig) -> Answer<Kafka> {
    let builder = Kafka::builder(bootstrap).client_id("client-matrix").security(security.clone());
    answer(runtime, "connect", builder.connect())
}

fn credentials(security: &Security) -> Answer<AuthConfig> {
    let Some(tls) = &security.tls else {
        return Ok(AuthConfig::plaintext());
    };
    let mut config = TlsConfig::new().with_ca_cert(tls.ca.to_string_lossy());
    if let Some((certificate, key)) = &tls.certificate_and_key {
        config = config.with_client_cert(certificate.to_string_lossy(), key.to_string_lossy());
    }
    let Some(sasl) = &security.sasl else {
        return Ok(AuthConfig::ssl(config));
    };
    let (user, password) = (&sasl.username, &sasl.password);
    let login = match sasl.mechanism {
        "SCRAM-SHA-256" => AuthConfig::sasl_scram_sha256(user, password),
        "SCRAM-SHA-512" => AuthConfig::sasl_scram_sha512(user, password),
        "PLAIN" => AuthConfig::sasl_plain(user, password),
        _ => AuthConfig::sasl_oauthbearer(unsecured_token(user).0),
    };
    Ok(login.with_tls(config))
}
