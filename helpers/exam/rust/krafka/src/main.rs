//! krafka sits the exam of txnsim: docs/exam.md.

#[path = "../../src/contract.rs"]
mod contract;

use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, Instant};

use contract::{Answer, Command, serve, unsupported, version};
use krafka::admin::{ListOffsetsOptions, OffsetSpec, TopicPartition};
use krafka::consumer::{AutoOffsetReset, Consumer, ConsumerBuilder, GroupProtocol, IsolationLevel};
use krafka::producer::{Acks, TopicPartitionOffset, TransactionalProducer};
use krafka::{Kafka, KrafkaError, Record};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

type Done = Result<(), Box<dyn Error>>;

const MOMENT: Duration = Duration::from_millis(50);

/// A consumer, with what is asked about it and can't be asked of it.
struct Reader {
    kafka: Kafka,
    consumer: Consumer,
    topic: String,
    committed: bool,
    is_member: bool,
}

/// Producers and consumers by name.
struct Driver {
    runtime: Runtime,
    producers: HashMap<String, TransactionalProducer>,
    readers: HashMap<String, Reader>,
}

fn main() {
    let runtime = Runtime::new().expect("threads");
    let mut driver = Driver { runtime, producers: HashMap::new(), readers: HashMap::new() };
    serve("krafka", version("krafka"), |command| driver.answer(command), describe_error);
}

/// What the library says about an error, and what to do about it.
fn describe_error(error: &(dyn Error + 'static)) -> Value {
    let Some(error) = error.downcast_ref::<KrafkaError>() else {
        return json!({"name": error.to_string()});
    };
    let variant = format!("{error:?}").split([' ', '(', '{']).next().unwrap_or_default().to_owned();
    let name = if let KrafkaError::Broker { code, .. } = error { format!("{code:?}") } else { variant };
    json!({
        "name": name, "class": "krafka::KrafkaError", "message": error.to_string(),
        "retriable": error.is_retriable(), "abortable": error.requires_abort(), "fatal": error.is_fatal(),
    })
}

impl Driver {
    fn answer(&mut self, command: &Command) -> Answer {
        if command.text("do") == "init" {
            self.init(command)?;
            return Ok(json!({}));
        }
        let (producer, reader) = (self.producers.get(command.text("producer")), self.readers.get(command.text("consumer")));
        let work = async {
            match (command.text("do"), producer, reader) {
                ("begin", Some(producer), _) => producer.begin()?,
                ("send", Some(producer), _) => return send(producer, command).await,
                ("send-offsets", Some(producer), Some(member)) => send_offsets(producer, member, command).await?,
                ("commit", Some(producer), _) => producer.commit().await?,
                ("abort", Some(producer), _) => producer.abort().await?,
                ("poll", _, Some(reader)) => return poll(reader, Duration::from_millis(command.number("timeout_ms"))).await,
                ("end-offsets", _, Some(reader)) => return ends(reader).await,
                ("seek", _, Some(reader)) => reader.consumer.seek(command.text("topic"), command.number("partition"), command.number("offset")).await?,
                // Without a group the library's commit does nothing, and says that all is well.
                ("commit-positions", _, Some(reader)) if reader.is_member => reader.consumer.commit().await?,
                ("consumer" | "subscribe" | "close", ..) => return Ok(Value::Null),
                _ => return unsupported(),
            }
            Ok(json!({}))
        };
        let outcome = self.runtime.block_on(work)?;
        if !outcome.is_null() {
            return Ok(outcome);
        }
        match command.text("do") {
            "close" => self.close(command.text("name"))?,
            _ => self.read(command)?,
        }
        Ok(json!({}))
    }

    /// The library initialises a producer where it makes it, and not again.
    fn init(&mut self, command: &Command) -> Done {
        let request_timeout = Duration::from_millis(command.number("request_timeout_ms"));
        let producer = self.runtime.block_on(async {
            let kafka = connected(command, Some(request_timeout)).await?;
            // krafka refuses a delivery timeout below the request timeout.
            let patience = Duration::from_millis(command.number("patience_ms")).max(request_timeout);
            let transaction_timeout = Duration::from_millis(command.number("transaction_timeout_ms"));
            let builder = kafka.producer().acks(Acks::All).linger(Duration::ZERO).delivery_timeout(patience);
            builder.transaction_timeout(transaction_timeout).build_transactional(command.text("transactional_id")).await
        })?;
        self.producers.insert(command.text("producer").to_owned(), producer);
        Ok(())
    }

    /// Makes a reader of partitions, or a member of a group.
    fn read(&mut self, command: &Command) -> Done {
        let (topic, committed) = (command.text("topic").to_owned(), command.text("isolation") == "read_committed");
        let isolation = if committed { IsolationLevel::ReadCommitted } else { IsolationLevel::ReadUncommitted };
        let is_member = command.text("do") == "subscribe";
        let reader = self.runtime.block_on(async {
            let kafka = connected(command, None).await?;
            // A consumer of a group takes no assignment by hand.
            let builder: ConsumerBuilder = if is_member { kafka.consumer(command.text("group")) } else { kafka.consumer_without_group() };
            let builder = builder.isolation_level(isolation).auto_offset_reset(AutoOffsetReset::Earliest).enable_auto_commit(false).fetch_max_wait(MOMENT);
            let consumer = match (command.text("do"), command.text("protocol")) {
                ("consumer", _) => {
                    let consumer = builder.build().await?;
                    let partitions: Vec<i32> = (0..command.number("partitions")).collect();
                    consumer.assign(&topic, partitions.clone()).await?;
                    for partition in partitions {
                        consumer.seek_to_beginning(&topic, partition).await?;
                    }
                    consumer
                }
                (_, "classic") => {
                    let session_timeout = Duration::from_millis(command.number("session_timeout_ms"));
                    let builder = builder.group_protocol(GroupProtocol::Classic).session_timeout(session_timeout);
                    let consumer = builder.heartbeat_interval(session_timeout / 3).build().await?;
                    consumer.subscribe([topic.as_str()]).await?;
                    consumer
                }
                _ => {
                    let consumer = builder.group_protocol(GroupProtocol::Consumer).build().await?;
                    consumer.subscribe([topic.as_str()]).await?;
                    consumer
                }
            };
            Ok::<_, KrafkaError>(Reader { kafka, consumer, topic, committed, is_member })
        })?;
        self.readers.insert(command.text("consumer").to_owned(), reader);
        Ok(())
    }

    fn close(&mut self, name: &str) -> Done {
        if let Some(producer) = self.producers.remove(name) {
            self.runtime.block_on(producer.close())?;
        }
        if let Some(reader) = self.readers.remove(name) {
            self.runtime.block_on(reader.consumer.close())?;
        }
        Ok(())
    }
}

/// Connections of one's own: clients do not wait for each other.
async fn connected(command: &Command, request_timeout: Option<Duration>) -> Result<Kafka, KrafkaError> {
    let builder = Kafka::builder(command.text("bootstrap")).client_id(command.text("client_id"));
    match request_timeout {
        Some(timeout) => builder.request_timeout(timeout).connect_timeout(timeout).connect().await,
        None => builder.connect().await,
    }
}

async fn send(producer: &TransactionalProducer, command: &Command) -> Answer {
    let record = Record::new(command.text("topic"), command.text("value").as_bytes().to_vec()).partition(command.number("partition"));
    let delivery = producer.enqueue(record).await?;
    Ok(if command.wait() { json!({"offset": delivery.await?.offset}) } else { json!({}) })
}

/// The library takes positions with the metadata of a member alone.
async fn send_offsets(producer: &TransactionalProducer, member: &Reader, command: &Command) -> Done {
    let positions: Vec<_> = command.offsets().map(|(topic, partition, offset)| TopicPartitionOffset::new(topic, partition, offset)).collect();
    let metadata = member.consumer.group_metadata().await.ok_or("no metadata of the group")?;
    Ok(producer.send_offsets(&positions, &metadata).await?)
}

async fn poll(reader: &Reader, duration: Duration) -> Answer {
    let (deadline, mut records, mut positions) = (Instant::now() + duration, Vec::new(), json!({}));
    while let Some(remaining) = deadline.checked_duration_since(Instant::now()) {
        for record in reader.consumer.poll(remaining.min(MOMENT)).await.unwrap_or_default() {
            let value = record.value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
            records.push(json!([record.partition, record.offset, value.unwrap_or_default()]));
        }
    }
    for partition in partitions(reader).await {
        if let Some(position) = reader.consumer.position(&reader.topic, partition).await {
            positions[partition.to_string()] = position.into();
        }
    }
    Ok(json!({"records": records, "positions": positions}))
}

async fn ends(reader: &Reader) -> Answer {
    let mut ends = json!({});
    let questions = partitions(reader).await.into_iter().map(|partition| (TopicPartition::new(&reader.topic, partition), OffsetSpec::Latest));
    let options = ListOffsetsOptions::default().read_committed(reader.committed);
    for (partition, listed) in reader.kafka.admin().list_offsets(questions, options).await? {
        ends[partition.partition.to_string()] = listed?.offset.into();
    }
    Ok(json!({"ends": ends}))
}

async fn partitions(reader: &Reader) -> Vec<i32> {
    reader.consumer.assignment().await.remove(&reader.topic).unwrap_or_default()
}
