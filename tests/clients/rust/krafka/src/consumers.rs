//! Consumers: assigned ones that read to the end, and members of groups.

use std::sync::Arc;
use std::time::{Duration, Instant};

use checks::driver::{self, Answer, Failure, Kind, PATIENCE, Record, Taken};
use krafka::consumer::{
    AutoOffsetReset, Consumer, ConsumerGroupMetadata, GroupProtocol, IsolationLevel,
};
use krafka::{ConsumerRecord, Kafka};
use tokio::runtime::Runtime;

use crate::failures::answer;

const MOMENT: Duration = Duration::from_millis(50);

/// Everything up to the end that the isolation level shows.
pub fn read(
    runtime: &Runtime,
    kafka: &Kafka,
    topic: &str,
    ends: &[i64],
    committed: bool,
) -> Answer<Vec<Record>> {
    let isolation =
        if committed { IsolationLevel::ReadCommitted } else { IsolationLevel::ReadUncommitted };
    let building = kafka
        .consumer_without_group()
        .isolation_level(isolation)
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .fetch_max_wait(MOMENT)
        .build();
    let consumer = answer(runtime, "build", building)?;
    let partitions: Vec<i32> = (0..).take(ends.len()).collect();
    answer(runtime, "assign", consumer.assign(topic, partitions.clone()))?;
    for partition in &partitions {
        answer(runtime, "seek", consumer.seek_to_beginning(topic, *partition))?;
    }
    let deadline = Instant::now() + PATIENCE;
    let mut records = Vec::new();
    loop {
        let positions: Vec<i64> = runtime.block_on(async {
            let mut positions = Vec::new();
            for partition in &partitions {
                positions.push(consumer.position(topic, *partition).await.unwrap_or(-1));
            }
            positions
        });
        if positions.iter().zip(ends).all(|(position, end)| position >= end) {
            break;
        }
        if Instant::now() > deadline {
            let text = format!("{topic}: positions {positions:?}, ends {ends:?}");
            return Err(Failure::new(Kind::Other, text));
        }
        let polled = answer(runtime, "poll", consumer.poll(MOMENT))?;
        records.extend(polled.iter().map(record_of));
    }
    answer(runtime, "close", consumer.close())?;
    records.sort_by_key(|record: &Record| (record.partition, record.offset));
    Ok(records)
}

/// A member of a group.
pub struct Member {
    runtime: Arc<Runtime>,
    consumer: Consumer,
    topic: String,
}

impl Member {
    pub fn new(
        runtime: &Arc<Runtime>,
        kafka: &Kafka,
        protocol: GroupProtocol,
        group: &str,
        topic: &str,
    ) -> Answer<Self> {
        let building = kafka
            .consumer(group)
            .group_protocol(protocol)
            .isolation_level(IsolationLevel::ReadCommitted)
            .auto_offset_reset(AutoOffsetReset::Earliest)
            .enable_auto_commit(false)
            .heartbeat_interval(Duration::from_millis(200))
            .fetch_max_wait(MOMENT)
            .build();
        let consumer = answer(runtime, "build", building)?;
        answer(runtime, "subscribe", consumer.subscribe([topic]))?;
        Ok(Self { runtime: Arc::clone(runtime), consumer, topic: topic.to_owned() })
    }
}

impl driver::Member for Member {
    type Metadata = ConsumerGroupMetadata;

    fn poll(&mut self) -> Answer<Taken<Self>> {
        let polled = answer(&self.runtime, "poll", self.consumer.poll(MOMENT))?;
        let metadata = self.runtime.block_on(self.consumer.group_metadata());
        Ok(Taken { records: polled.iter().map(record_of).collect(), metadata })
    }

    fn partitions(&self) -> Answer<Vec<i32>> {
        let mut assignment = self.runtime.block_on(self.consumer.assignment());
        Ok(assignment.remove(&self.topic).unwrap_or_default())
    }
}

fn record_of(record: &ConsumerRecord) -> Record {
    Record {
        partition: record.partition,
        key: record.key.as_ref().map(|key| key.to_vec()),
        value: record.value.as_ref().map(|value| value.to_vec()),
        headers: record
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.as_ref().map(|value| value.to_vec())))
            .collect(),
        timestamp_ms: Some(record.timestamp),
        offset: record.offset,
    }
}
