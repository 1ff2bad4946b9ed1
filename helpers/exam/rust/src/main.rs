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
    serve("rdkafka", &version, |command| driver.answer(command), said);
}

/// The library's own word on an error; of transactions it has one on what to do.
fn said(error: &(dyn Error + 'static)) -> Value {
    let Some(of) = error.downcast_ref::<KafkaError>() else {
        return json!({"name": error.to_string()});
    };
    let code = of.rdkafka_error_code();
    let (retriable, abortable, fatal) = match of {
        KafkaError::Transaction(told) => (told.is_retriable(), told.txn_requires_abort(), told.is_fatal()),
        _ => (false, false, code == Some(RDKafkaErrorCode::Fatal)),
    };
    json!({
        "name": code.map_or("KafkaError".to_owned(), |code| format!("{code:?}")), "class": "rdkafka::error::KafkaError",
        "message": of.to_string(), "retriable": retriable, "abortable": abortable, "fatal": fatal,
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
                let mut places = TopicPartitionList::new();
                places.add_partition_range(topic, 0, command.number::<i32>("partitions") - 1);
                places.set_all_offsets(Offset::Beginning)?;
                self.reader(command, &[])?.assign(&places)?;
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
            let mut made = settings(command);
            made.set("transactional.id", command.text("transactional_id")).set("linger.ms", "0");
            made.set("transaction.timeout.ms", command.number::<i64>("transaction_timeout_ms").to_string());
            made.set("socket.timeout.ms", command.number::<i64>("request_timeout_ms").to_string());
            made.set("message.timeout.ms", patience_ms.to_string());
            self.producers.insert(name.to_owned(), made.create()?);
        }
        Ok(self.producers[name].init_transactions(self.patience)?)
    }

    fn reader(&mut self, command: &Command, more: &[(&str, &str)]) -> Result<&BaseConsumer, KafkaError> {
        let mut made = settings(command);
        made.set("group.id", command.text("group")).set("isolation.level", command.text("isolation"));
        made.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest").set("fetch.wait.max.ms", "100");
        more.iter().for_each(|(name, value)| drop(made.set(*name, *value)));
        Ok(self.consumers.entry(command.text("consumer").to_owned()).insert_entry(made.create()?).into_mut())
    }
}

fn settings(command: &Command) -> ClientConfig {
    let mut made = ClientConfig::new();
    made.set("bootstrap.servers", command.text("bootstrap")).set("client.id", command.text("client_id"));
    made
}

fn send(producer: &FutureProducer, command: &Command) -> Answer {
    let record = FutureRecord::<(), str>::to(command.text("topic")).partition(command.number("partition"));
    let sent = producer.send_result(record.payload(command.text("value"))).map_err(|(error, _)| error)?;
    Ok(if command.wait() { json!({"offset": block_on(sent)?.map_err(|(error, _)| error)?.offset}) } else { json!({}) })
}

fn send_offsets(producer: &FutureProducer, member: Option<&BaseConsumer>, command: &Command, patience: Duration) -> Done {
    let mut places = TopicPartitionList::new();
    for (topic, partition, offset) in command.offsets() {
        places.add_partition_offset(topic, partition, Offset::Offset(offset))?;
    }
    let stranger: BaseConsumer = ClientConfig::new().set("group.id", command.text("group")).create()?;
    let metadata = member.unwrap_or(&stranger).group_metadata().ok_or("no metadata of the group")?;
    Ok(producer.send_offsets_to_transaction(&places, &metadata, patience)?)
}

fn poll(consumer: &BaseConsumer, lasts: Duration) -> Answer {
    let (until, mut records, mut positions) = (Instant::now() + lasts, Vec::new(), json!({}));
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if let Some(Ok(one)) = consumer.poll(left) {
            records.push(json!([one.partition(), one.offset(), String::from_utf8_lossy(one.payload().unwrap_or_default())]));
        }
    }
    for at in consumer.position()?.elements() {
        if let Offset::Offset(offset) = at.offset() {
            positions[at.partition().to_string()] = offset.into();
        }
    }
    Ok(json!({"records": records, "positions": positions}))
}

fn ends(consumer: &BaseConsumer, patience: Duration) -> Answer {
    let mut ends = json!({});
    for at in consumer.assignment()?.elements() {
        ends[at.partition().to_string()] = consumer.fetch_watermarks(at.topic(), at.partition(), patience)?.1.into();
    }
    Ok(json!({"ends": ends}))
}
