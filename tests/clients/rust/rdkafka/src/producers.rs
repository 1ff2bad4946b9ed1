//! Producers: a thread polls for deliveries, transactions are ended by calls that block.

use std::rc::Rc;
use std::time::Instant;

use checks::driver::{self, Answer, Failure, Kind, PATIENCE, ProducerOptions, Record, Taken};
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::consumers::Member;
use crate::context::{Context, Opaque, deliveries, failure_of};
use crate::library::Rdkafka;

pub struct Producer {
    client: ThreadedProducer<Context>,
}

impl Producer {
    pub fn new(library: &Rdkafka, options: &ProducerOptions) -> Answer<Self> {
        let timeout_ms = options.transaction_timeout.as_millis().to_string();
        let idempotent = options.idempotent.to_string();
        let mut settings = vec![
            ("acks", "all"),
            ("enable.idempotence", &*idempotent),
            ("compression.type", options.codec),
            ("linger.ms", "1"),
        ];
        if let Some(id) = &options.transactional_id {
            settings.push(("transactional.id", id));
            settings.push(("transaction.timeout.ms", &timeout_ms));
        }
        let client: ThreadedProducer<Context> = library.make(&settings)?;
        if options.transactional_id.is_some() {
            client.init_transactions(PATIENCE).map_err(failure_of)?;
        }
        Ok(Self { client })
    }
}

impl driver::Producer for Producer {
    type Member = Member;

    fn begin(&mut self) -> Answer<()> {
        self.client.begin_transaction().map_err(failure_of)
    }

    fn send(&mut self, topic: &str, records: &[Record]) -> Answer<Vec<i64>> {
        let (sender, receiver) = deliveries();
        for (at, record) in records.iter().enumerate() {
            let opaque = Box::new((at, sender.clone()));
            self.client
                .send(to_send(topic, record, opaque))
                .map_err(|(error, _)| failure_of(error))?;
        }
        let deadline = Instant::now() + PATIENCE;
        let mut offsets = vec![-1; records.len()];
        for _ in records {
            let left = deadline.saturating_duration_since(Instant::now());
            let (at, offset) = receiver
                .recv_timeout(left)
                .map_err(|_| Failure::new(Kind::Other, "not delivered in time"))?;
            offsets[at] = offset?;
        }
        Ok(offsets)
    }

    fn send_offsets(&mut self, topic: &str, taken: &Taken<Member>) -> Answer<()> {
        let mut positions = TopicPartitionList::new();
        for (partition, offset) in taken.positions() {
            positions
                .add_partition_offset(topic, partition, Offset::Offset(offset))
                .map_err(failure_of)?;
        }
        let metadata: &Rc<ConsumerGroupMetadata> = taken
            .metadata
            .as_ref()
            .ok_or_else(|| Failure::new(Kind::Other, "no metadata of the group"))?;
        self.client.send_offsets_to_transaction(&positions, metadata, PATIENCE).map_err(failure_of)
    }

    fn commit(&mut self) -> Answer<()> {
        self.client.commit_transaction(PATIENCE).map_err(failure_of)
    }

    fn abort(&mut self) -> Answer<()> {
        self.client.abort_transaction(PATIENCE).map_err(failure_of)
    }
}

fn to_send<'a>(
    topic: &'a str,
    record: &'a Record,
    opaque: Opaque,
) -> BaseRecord<'a, [u8], [u8], Opaque> {
    let mut sent = BaseRecord::with_opaque_to(topic, opaque).partition(record.partition);
    if let Some(key) = &record.key {
        sent = sent.key(key.as_slice());
    }
    if let Some(value) = &record.value {
        sent = sent.payload(value.as_slice());
    }
    if let Some(timestamp_ms) = record.timestamp_ms {
        sent = sent.timestamp(timestamp_ms);
    }
    if record.headers.is_empty() {
        return sent;
    }
    let headers = record.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(Header { key, value: value.as_deref() })
    });
    sent.headers(headers)
}
