//! Producers, with transactions and without.

use std::sync::Arc;

use checks::driver::{self, Answer, Failure, Kind, ProducerOptions, Record, Taken};
use krafka::producer::{Acks, TopicPartitionOffset, TransactionalProducer};
use krafka::{Compression, Kafka};
use tokio::runtime::Runtime;

use crate::consumers::Member;
use crate::failures::{answer, failure_of};

pub struct Producer {
    runtime: Arc<Runtime>,
    client: Client,
}

enum Client {
    Plain(Box<krafka::producer::Producer>),
    Transactional(Box<TransactionalProducer>),
}

impl Producer {
    pub fn new(runtime: &Arc<Runtime>, kafka: &Kafka, options: &ProducerOptions) -> Answer<Self> {
        let compression = match options.codec {
            "gzip" => Compression::Gzip,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            _ => Compression::None,
        };
        let builder = kafka.producer().acks(Acks::All).compression(compression);
        let client = match &options.transactional_id {
            Some(id) => {
                let timeout = options.transaction_timeout;
                let builder = builder.transaction_timeout(timeout);
                let building = builder.build_transactional(id);
                Client::Transactional(Box::new(answer(runtime, "build_transactional", building)?))
            }
            None => {
                let building = builder.idempotent(options.idempotent).build();
                Client::Plain(Box::new(answer(runtime, "build", building)?))
            }
        };
        Ok(Self { runtime: Arc::clone(runtime), client })
    }

    fn transactional(&self) -> Answer<&TransactionalProducer> {
        match &self.client {
            Client::Transactional(client) => Ok(client),
            Client::Plain(_) => Err(Failure::new(Kind::Other, "has no transactional id")),
        }
    }
}

impl driver::Producer for Producer {
    type Member = Member;

    fn begin(&mut self) -> Answer<()> {
        self.transactional()?.begin().map_err(failure_of)
    }

    fn send(&mut self, topic: &str, records: &[Record]) -> Answer<Vec<i64>> {
        answer(&self.runtime, "send", async {
            let mut deliveries = Vec::new();
            for record in records {
                let sent = to_send(topic, record);
                deliveries.push(match &self.client {
                    Client::Plain(client) => client.enqueue(sent).await?,
                    Client::Transactional(client) => client.enqueue(sent).await?,
                });
            }
            let mut offsets = Vec::new();
            for delivery in deliveries {
                offsets.push(delivery.await?.offset);
            }
            Ok(offsets)
        })
    }

    fn send_offsets(&mut self, topic: &str, taken: &Taken<Member>) -> Answer<()> {
        let positions: Vec<TopicPartitionOffset> = taken
            .positions()
            .into_iter()
            .map(|(partition, offset)| TopicPartitionOffset::new(topic, partition, offset))
            .collect();
        let metadata = taken
            .metadata
            .as_ref()
            .ok_or_else(|| Failure::new(Kind::Other, "no metadata of the group"))?;
        let asked = self.transactional()?.send_offsets(&positions, metadata);
        answer(&self.runtime, "send_offsets", asked)
    }

    fn commit(&mut self) -> Answer<()> {
        answer(&self.runtime, "commit", self.transactional()?.commit())
    }

    fn abort(&mut self) -> Answer<()> {
        answer(&self.runtime, "abort", self.transactional()?.abort())
    }
}

fn to_send(topic: &str, record: &Record) -> krafka::Record {
    let mut sent = krafka::Record::new(topic, record.value.clone().unwrap_or_default())
        .partition(record.partition);
    if record.value.is_none() {
        sent = sent.without_value();
    }
    if let Some(key) = &record.key {
        sent = sent.key(key.clone());
    }
    if let Some(timestamp_ms) = record.timestamp_ms {
        sent = sent.timestamp(timestamp_ms);
    }
    record.headers.iter().fold(sent, |sent, (name, value)| match value {
        Some(value) => sent.header(name, value.clone()),
        None => sent.null_header(name),
    })
}
