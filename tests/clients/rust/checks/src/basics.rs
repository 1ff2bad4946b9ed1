//! Producing without transactions.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::driver::{Answer, Library, Producer, ProducerOptions, Record};
use crate::lab::{Lab, new_topic, same, values};

const BATCHES: usize = 5;
const RECORDS: usize = 20;

pub fn produce<L: Library>(lab: &Lab<'_>) -> Answer<()> {
    let library = lab.plain::<L>()?;
    for codec in L::CODECS {
        let topic = lab.name(codec);
        new_topic(&library, &topic, 1)?;
        let mut producer =
            library.producer(ProducerOptions { codec, ..ProducerOptions::plain() })?;
        let records = records_of_all_kinds();
        let offsets = producer.send(&topic, &records)?;
        same(&offsets, &(0..).take(records.len()).collect(), "offsets")?;
        same(&library.read(&topic, true)?, &records, &format!("records through {codec}"))?;
    }
    Ok(())
}

pub fn idempotent<L: Library>(lab: &Lab<'_>) -> Answer<()> {
    let library = lab.plain::<L>()?;
    let topic = lab.name("topic");
    new_topic(&library, &topic, 3)?;
    let mut producer = library.producer(ProducerOptions::idempotent())?;
    for batch in 0..BATCHES {
        for partition in 0..3 {
            let offsets = producer.send(&topic, &batch_of(partition, batch))?;
            let base = i64::try_from(batch * RECORDS).unwrap_or_default();
            same(&offsets, &(base..).take(RECORDS).collect(), "offsets")?;
        }
    }
    let seen = library.read(&topic, true)?;
    for partition in 0..3 {
        let mine: Vec<Record> =
            seen.iter().filter(|record| record.partition == partition).cloned().collect();
        let offsets: Vec<i64> = mine.iter().map(|record| record.offset).collect();
        same(&offsets, &(0..).take(BATCHES * RECORDS).collect(), "offsets read")?;
        let wanted: Vec<Record> =
            (0..BATCHES).flat_map(|batch| batch_of(partition, batch)).collect();
        same(&values(&mine), &values(&wanted), "values")?;
    }
    Ok(())
}

fn batch_of(partition: i32, batch: usize) -> Vec<Record> {
    (0..RECORDS).map(|number| Record::new(partition, format!("{batch}/{number}"))).collect()
}

/// With the offsets that they will have.
fn records_of_all_kinds() -> Vec<Record> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let now_ms = i64::try_from(now).unwrap_or_default();
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let header = |name: &str, value: Option<&str>| (name.to_owned(), value.map(|text| text.into()));
    let record = |offset, key, value, headers, timestamp_ms| Record {
        partition: 0,
        key,
        value,
        headers,
        timestamp_ms: Some(timestamp_ms),
        offset,
    };
    let headers = vec![
        header("a", Some("1")),
        header("a", Some("2")),
        header("empty", Some("")),
        header("ü", Some("\0")),
        header("none", None),
    ];
    vec![
        record(0, bytes("key"), bytes("value"), headers, now_ms - 86_400_123),
        record(1, None, bytes("no key"), vec![], now_ms),
        record(2, bytes(""), bytes(""), vec![], now_ms - 1),
        record(3, bytes("tombstone"), None, vec![], now_ms + 1),
        record(4, bytes("long"), bytes(&"long ".repeat(4_000)), vec![], now_ms - 999),
    ]
}
