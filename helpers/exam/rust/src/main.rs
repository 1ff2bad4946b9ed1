//! rdkafka, which is librdkafka, sits the exam of txnsim: docs/exam.md.

mod contract;

use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, Instant};

use contract::{Answer, Command, serve, unsupported, version};
use futures_executor::block_on;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use rdkafka::{Message as _, Offset, TopicPartitionList};
use serde_json::{Value, json};

type Done = Result<(), Box<dyn Error>>;

/// Producers and consumers by name.
#[derive(Default)]
struct Driver {
    producers: HashMap<String, FutureProducer>,
    consumers: HashMap<String, BaseConsumer>,
    patience: Duration,
}

fn main() {
    let mut driver = Driver::default();
    let version = format!("{}, librdkafka {}", version("rdkafka"), rdkafka::util::get_rdkafka_version().1);
    serve("rdkafka", &version, |command| driver.answer(command), describe_error);
}

/// What the library says about an error; about transactions it also says what to do.
fn describe_error(error: &(dyn Error + 'static)) -> Value {
    let Some(kafka_error) = error.downcast_ref::<KafkaError>() else {
        return json!({"name": error.to_string()});
    };
    let code = kafka_error.rdkafka_error_code();
    let (retriable, abortable, fatal) = match kafka_error {
        KafkaError::Transaction(transaction_error) => (transaction_error.is_retriable(), transaction_error.txn_requires_abort(), transaction_error.is_fatal()),
        _ => (false, false, code == Some(RDKafkaErrorCode::Fatal)),
    };
    json!({
        "name": code.map_or("KafkaError".to_owned(), |code| format!("{code:?}")), "class": "rdkafka::error::KafkaError",
        "message": kafka_error.to_string(), "retriable": retriable, "abortable": abortable, "fatal": fatal,
    })
}

impl Driver {
    fn answer(&mut self, command: &Command) -> Answer {
        let (topic, patience) = (command.text("topic"), self.patience);
        let (producer, consumer) = (self.producers.get(command.text("producer")), self.consumers.get(command.text("consumer")));
        match (command.text("do"), producer, consumer) {
            ("init", ..) => self.init(command)?,
            ("begin", Some(producer), _) => producer.begin_transaction()?,
            ("send", Some(producer), _) => return send(producer, command),
            ("send-offsets", Some(producer), member) => send_offsets(producer, member, command, patience)?,
            ("commit", Some(producer), _) => producer.commit_transaction(patience)?,
            ("abort", Some(producer), _) => producer.abort_transaction(patience)?,
            ("consumer", ..) => {
                let mut positions = TopicPartitionList::new();
                positions.add_partition_range(topic, 0, command.number::<i32>("partitions") - 1);
                positions.set_all_offsets(Offset::Beginning)?;
                self.reader(command, &[])?.assign(&positions)?;
            }
            ("subscribe", ..) if command.text("protocol") == "classic" => {
                let session_ms = command.number::<i64>("session_timeout_ms").to_string();
                self.reader(command, &[("session.timeout.ms", &session_ms)])?.subscribe(&[topic])?;
            }
            ("subscribe", ..) => self.reader(command, &[("group.protocol", "consumer")])?.subscribe(&[topic])?,
            ("poll", _, Some(consumer)) => return poll(consumer, Duration::from_millis(command.number("timeout_ms"))),
            ("end-offsets", _, Some(consumer)) => return ends(consumer, patience),
            ("seek", _, Some(consumer)) => consumer.seek(topic, command.number("partition"), Offset::Offset(command.number("offset")), patience)?,
            ("commit-positions", _, Some(consumer)) => consumer.commit_consumer_state(CommitMode::Sync)?,
            ("close", ..) => drop((self.producers.remove(command.text("name")), self.consumers.remove(command.text("name")))),
            _ => return unsupported(),
        }
        Ok(json!({}))
    }

    fn init(&mut self, command: &Command) -> Done {
        let (name, patience_ms) = (command.text("producer"), command.number::<u64>("patience_ms"));
        self.patience = Duration::from_millis(patience_ms);
        // One that is there has timed out: its init goes on.
        if !self.producers.contains_key(name) {
            let mut config = settings(command);
            config.set("transactional.id", command.text("transactional_id")).set("linger.ms", "0");
            config.set("transaction.timeout.ms", command.number::<i64>("transaction_timeout_ms").to_string());
            config.set("socket.timeout.ms", command.number::<i64>("request_timeout_ms").to_string());
            config.set("message.timeout.ms", patience_ms.to_string());
            self.producers.insert(name.to_owned(), config.create()?);
        }
        Ok(self.producers[name].init_transactions(self.patience)?)
    }

    fn reader(&mut self, command: &Command, group_settings: &[(&str, &str)]) -> Result<&BaseConsumer, KafkaError> {
        let mut config = settings(command);
        config.set("group.id", command.text("group")).set("isolation.level", command.text("isolation"));
        config.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest").set("fetch.wait.max.ms", "100");
        group_settings.iter().for_each(|(name, value)| drop(config.set(*name, *value)));
        Ok(self.consumers.entry(command.text("consumer").to_owned()).insert_entry(config.create()?).into_mut())
    }
}

fn settings(command: &Command) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", command.text("bootstrap")).set("client.id", command.text("client_id"));
    config
}

fn send(producer: &FutureProducer, command: &Command) -> Answer {
    let record = FutureRecord::<(), str>::to(command.text("topic")).partition(command.number("partition"));
    let sent = producer.send_result(record.payload(command.text("value"))).map_err(|(error, _)| error)?;
    Ok(if command.wait() { json!({"offset": block_on(sent)?.map_err(|(error, _)| error)?.offset}) } else { json!({}) })
}

fn send_offsets(producer: &FutureProducer, member: Option<&BaseConsumer>, command: &Command, patience: Duration) -> Done {
    let mut positions = TopicPartitionList::new();
    for (topic, partition, offset) in command.offsets() {
        positions.add_partition_offset(topic, partition, Offset::Offset(offset))?;
    }
    let stranger: BaseConsumer = ClientConfig::new().set("group.id", command.text("group")).create()?;
    let metadata = member.unwrap_or(&stranger).group_metadata().ok_or("no metadata of the group")?;
    Ok(producer.send_offsets_to_transaction(&positions, &metadata, patience)?)
}

fn poll(consumer: &BaseConsumer, duration: Duration) -> Answer {
    let (deadline, mut records, mut positions) = (Instant::now() + duration, Vec::new(), json!({}));
    while let Some(remaining) = deadline.checked_duration_since(Instant::now()) {
        if let Some(Ok(message)) = consumer.poll(remaining) {
            records.push(json!([message.partition(), message.offset(), String::from_utf8_lossy(message.payload().unwrap_or_default())]));
        }
    }
    for position in consumer.position()?.elements() {
        if let Offset::Offset(offset) = position.offset() {
            positions[position.partition().to_string()] = offset.into();
        }
    }
    Ok(json!({"records": records, "positions": positions}))
}

fn ends(consumer: &BaseConsumer, patience: Duration) -> Answer {
    let mut ends = json!({});
    for partition in consumer.assignment()?.elements() {
        ends[partition.partition().to_string()] = consumer.fetch_watermarks(partition.topic(), partition.partition(), patience)?.1.into();
    }
    Ok(json!({"ends": ends}))
}
