//! The cluster, and how clients are made.

use std::time::{Duration, Instant};

use checks::driver::{Answer, Failure, Kind, Library, PATIENCE, ProducerOptions, Record, Security};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::metadata::Metadata;
use rdkafka::producer::{Producer as _, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::consumers::{self, Member};
use crate::context::{Context, failure_of};
use crate::producers::Producer;

const ASK: Duration = Duration::from_millis(500);

pub struct Rdkafka {
    config: ClientConfig,
    user: String,
    /// Its thread polls, as tokens and errors of connections ask for.
    client: ThreadedProducer<Context>,
}

impl Rdkafka {
    /// A client of some kind with these settings beside the common ones.
    pub fn make<C>(&self, settings: &[(&str, &str)]) -> Answer<C>
    where
        C: FromClientConfigAndContext<Context>,
    {
        let mut config = self.config.clone();
        for (name, value) in settings {
            config.set(*name, *value);
        }
        config.create_with_context(Context::new(&self.user)).map_err(failure_of)
    }

    /// Metadata of one topic, or of the cluster.
    fn metadata(&self, topic: Option<&str>) -> Answer<Metadata> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // An unanswered question has many reasons, this one is told elsewhere.
            match self.client.client().fetch_metadata(topic, ASK) {
                Ok(metadata) => return Ok(metadata),
                Err(error) if Instant::now() > deadline => return Err(failure_of(error)),
                Err(_) => {}
            }
            if let Some(failure) = self.client.context().wrong_password() {
                return Err(failure);
            }
        }
    }
}

impl Library for Rdkafka {
    type Producer = Producer;
    type Member = Member;

    const CODECS: &'static [&'static str] = &["none", "gzip", "snappy", "lz4", "zstd"];

    fn new(bootstrap: &str, security: &Security) -> Answer<Self> {
        let config = configured(bootstrap, security);
        let user = security.sasl.as_ref().map_or("", |sasl| &sasl.username).to_owned();
        let client = config.create_with_context(Context::new(&user)).map_err(failure_of)?;
        Ok(Self { config, user, client })
    }

    fn brokers(&self) -> Answer<usize> {
        Ok(self.metadata(None)?.brokers().len())
    }

    fn create_topic(&self, topic: &str, partitions: i32, replicas: i16) -> Answer<()> {
        let admin: AdminClient<DefaultClientContext> = self.config.create().map_err(failure_of)?;
        let wanted = NewTopic::new(topic, partitions, TopicReplication::Fixed(replicas.into()));
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let results = runtime
            .map_err(|error| Failure::new(Kind::Other, error.to_string()))?
            .block_on(admin.create_topics([&wanted], &options))
            .map_err(failure_of)?;
        for result in results {
            result.map_err(|(name, code)| Failure::new(Kind::Other, format!("{name}: {code}")))?;
        }
        Ok(())
    }

    fn leaders(&self, topic: &str) -> Answer<Vec<i32>> {
        let metadata = self.metadata(Some(topic))?;
        let mut partitions: Vec<(i32, i32)> = metadata.topics()[0]
            .partitions()
            .iter()
            .map(|partition| (partition.id(), partition.leader()))
            .collect();
        partitions.sort_unstable();
        Ok(partitions.into_iter().map(|(_, leader)| leader).collect())
    }

    fn positions(&self, group: &str, topic: &str, partitions: i32) -> Answer<Vec<Option<i64>>> {
        let consumer: BaseConsumer<Context> = self.make(&[("group.id", group)])?;
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(topic, 0, partitions - 1);
        let found = consumer.committed_offsets(asked, PATIENCE).map_err(failure_of)?;
        Ok((0..partitions)
            .map(|partition| match found.find_partition(topic, partition)?.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            })
            .collect())
    }

    fn producer(&self, options: ProducerOptions) -> Answer<Producer> {
        Producer::new(self, &options)
    }

    fn member(&self, group: &str, topic: &str) -> Answer<Member> {
        Member::new(self, group, topic)
    }

    fn read(&self, topic: &str, committed: bool) -> Answer<Vec<Record>> {
        let partitions = self.leaders(topic)?.len();
        consumers::read(self, topic, i32::try_from(partitions).unwrap_or(0), committed)
    }
}

fn configured(bootstrap: &str, security: &Security) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("topic.metadata.refresh.interval.ms", "1000");
    let protocol = match (&security.tls, &security.sasl) {
        (None, _) => "PLAINTEXT",
        (Some(_), None) => "SSL",
        (Some(_), Some(_)) => "SASL_SSL",
    };
    config.set("security.protocol", protocol);
    if let Some(tls) = &security.tls {
        config.set("ssl.ca.location", tls.ca.to_string_lossy());
        if let Some((certificate, key)) = &tls.certificate_and_key {
            config.set("ssl.certificate.location", certificate.to_string_lossy());
            config.set("ssl.key.location", key.to_string_lossy());
        }
    }
    if let Some(sasl) = &security.sasl {
        config.set("sasl.mechanism", sasl.mechanism);
        if sasl.mechanism != "OAUTHBEARER" {
            config.set("sasl.username", &sasl.username).set("sasl.password", &sasl.password);
        }
    }
    config
}
