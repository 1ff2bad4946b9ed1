//! Consumers: assigned ones that read to the end, and members of groups.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use checks::driver::{self, Answer, Failure, Kind, PATIENCE, Record, Taken};
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerGroupMetadata};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::context::{Context, failure_of};
use crate::library::Rdkafka;

const MOMENT: Duration = Duration::from_millis(50);

/// Everything up to the end that the isolation level shows.
pub fn read(
    library: &Rdkafka,
    topic: &str,
    partitions: i32,
    committed: bool,
) -> Answer<Vec<Record>> {
    let consumer: BaseConsumer<Context> = library.make(&[
        ("group.id", &format!("{topic}-reader")),
        ("enable.auto.commit", "false"),
        ("enable.partition.eof", "true"),
        ("fetch.wait.max.ms", "50"),
        ("isolation.level", if committed { "read_committed" } else { "read_uncommitted" }),
    ])?;
    let mut assignment = TopicPartitionList::new();
    for partition in 0..partitions {
        assignment.add_partition_offset(topic, partition, Offset::Beginning).map_err(failure_of)?;
    }
    consumer.assign(&assignment).map_err(failure_of)?;
    let deadline = Instant::now() + PATIENCE;
    let mut open: BTreeSet<i32> = (0..partitions).collect();
    let mut records = Vec::new();
    while !open.is_empty() {
        if Instant::now() > deadline {
            return Err(Failure::new(
                Kind::Other,
                format!("no end of {topic}, partitions {open:?}"),
            ));
        }
        match consumer.poll(MOMENT) {
            None => {}
            Some(Ok(message)) => records.push(record_of(&message)),
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                open.remove(&partition);
            }
            Some(Err(error)) => return Err(failure_of(error)),
        }
    }
    records.sort_by_key(|record| (record.partition, record.offset));
    Ok(records)
}

/// A member of a group.
pub struct Member {
    consumer: BaseConsumer<Context>,
}

impl Member {
    pub fn new(library: &Rdkafka, group: &str, topic: &str) -> Answer<Self> {
        let consumer: BaseConsumer<Context> = library.make(&[
            ("group.id", group),
            ("enable.auto.commit", "false"),
            ("auto.offset.reset", "earliest"),
            ("isolation.level", "read_committed"),
            ("heartbeat.interval.ms", "200"),
            ("session.timeout.ms", "30000"),
            ("fetch.wait.max.ms", "50"),
        ])?;
        consumer.subscribe(&[topic]).map_err(failure_of)?;
        Ok(Self { consumer })
    }
}

impl driver::Member for Member {
    type Metadata = Rc<ConsumerGroupMetadata>;

    fn poll(&mut self) -> Answer<Taken<Self>> {
        let mut records = Vec::new();
        // One more step of the group's work could change who the member is.
        if let Some(polled) = self.consumer.poll(MOMENT) {
            records.push(record_of(&polled.map_err(failure_of)?));
        }
        Ok(Taken { records, metadata: self.consumer.group_metadata().map(Rc::new) })
    }

    fn partitions(&self) -> Answer<Vec<i32>> {
        let assignment = self.consumer.assignment().map_err(failure_of)?;
        Ok(assignment.elements().iter().map(|element| element.partition()).collect())
    }
}

fn record_of(message: &BorrowedMessage<'_>) -> Record {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        let owned = |value: &[u8]| value.to_vec();
        headers.iter().map(|one| (one.key.to_owned(), one.value.map(owned))).collect()
    });
    Record {
        partition: message.partition(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
        timestamp_ms: message.timestamp().to_millis(),
        offset: message.offset(),
    }
}
