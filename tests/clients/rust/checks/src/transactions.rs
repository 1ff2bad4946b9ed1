//! One producer's transactions, and what readers see of them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::driver::{Answer, Kind, Library, Producer, ProducerOptions, Record};
use crate::lab::{Lab, new_topic, refused, same, shows, values};

pub const PARTITIONS: i32 = 6;
const TIMEOUT: Duration = Duration::from_millis(3_000);

pub fn commit<L: Library>(lab: &Lab<'_>) -> Answer<()> {
    let library = lab.plain::<L>()?;
    let topic = lab.name("topic");
    new_topic(&library, &topic, PARTITIONS)?;
    let leaders: BTreeSet<i32> = library.leaders(&topic)?.into_iter().collect();
    same(&leaders.len(), &library.brokers()?, "leading brokers")?;
    let mut producer = library.producer(ProducerOptions::transactional(lab.name("id")))?;
    producer.begin()?;
    producer.send(&topic, &on_all("one"))?;
    same(&values(&library.read(&topic, false)?), &values(&on_all("one")), "uncommitted")?;
    same(&values(&library.read(&topic, true)?), &vec![], "committed before")?;
    producer.commit()?;
    shows(&library, &topic, &on_all("one"))?;
    producer.begin()?;
    producer.send(&topic, &on_all("two"))?;
    producer.commit()?;
    shows(&library, &topic, &[on_all("one"), on_all("two")].concat())?;
    // Each partition has a record, its marker, a record and its marker.
    let seen = library.read(&topic, true)?;
    let places: Vec<(i32, i64)> = seen.iter().map(|one| (one.partition, one.offset)).collect();
    same(&places, &(0..PARTITIONS).flat_map(|at| [(at, 0), (at, 2)]).collect(), "places")
}

pub fn abort<L: Library>(lab: &Lab<'_>) -> Answer<()> {
    let library = lab.plain::<L>()?;
    let topic = lab.name("topic");
    new_topic(&library, &topic, PARTITIONS)?;
    let mut producer = library.producer(ProducerOptions::transactional(lab.name("id")))?;
    producer.begin()?;
    producer.send(&topic, &on_all("never"))?;
    producer.abort()?;
    producer.begin()?;
    producer.send(&topic, &on_all("nor this"))?;
    producer.abort()?;
    producer.begin()?;
    producer.send(&topic, &on_all("then"))?;
    producer.commit()?;
    shows(&library, &topic, &on_all("then"))?;
    let wanted = (0..PARTITIONS).flat_map(|_| ["never", "nor this", "then"].map(String::from));
    same(&values(&library.read(&topic, false)?), &wanted.collect(), "uncommitted")
}

pub fn read_committed<L: Library>(lab: &Lab<'_>) -> Answer<()> {
    let library = lab.plain::<L>()?;
    let topic = lab.name("topic");
    new_topic(&library, &topic, 1)?;
    let mut producer = library.producer(ProducerOptions::transactional(lab.name("id")))?;
    let mut other = library.producer(ProducerOptions::plain())?;
    let read = |committed| Ok(values(&library.read(&topic, committed)?));
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    other.send(&topic, &[Record::new(0, "before")])?;
    producer.begin()?;
    producer.send(&topic, &[Record::new(0, "open")])?;
    other.send(&topic, &[Record::new(0, "behind")])?;
    same(&read(true)?, &texts(&["before"]), "committed while open")?;
    same(&read(false)?, &texts(&["before", "open", "behind"]), "uncommitted")?;
    producer.abort()?;
    shows(&library, &topic, &[Record::new(0, "before"), Record::new(0, "behind")])?;
    producer.begin()?;
    producer.send(&topic, &[Record::new(0, "next")])?;
    other.send(&topic, &[Record::new(0, "last")])?;
    same(&read(true)?, &texts(&["before", "behind"]), "committed while open again")?;
    producer.commit()?;
    shows(&library, &topic, &["before", "behind", "next", "last"].map(|text| Record::new(0, text)))
}

pub fn fence<L: Library>(lab: &Lab<'_>) -> Answer<()> {
    let library = lab.plain::<L>()?;
    let topic = lab.name("topic");
    new_topic(&library, &topic, PARTITIONS)?;
    let options = ProducerOptions::transactional(lab.name("id"));
    let mut old = library.producer(options.clone())?;
    old.begin()?;
    old.send(&topic, &on_all("old"))?;
    let mut newer = library.producer(options)?;
    newer.begin()?;
    newer.send(&topic, &on_all("new"))?;
    refused("a commit of the fenced producer", old.commit(), &[Kind::Fenced])?;
    newer.commit()?;
    shows(&library, &topic, &on_all("new"))?;
    newer.begin()?;
    newer.send(&topic, &on_all("newer"))?;
    newer.commit()?;
    shows(&library, &topic, &[on_all("new"), on_all("newer")].concat())
}

pub fn timeout<L: Library>(lab: &Lab<'_>) -> Answer<()> {
    let library = lab.plain::<L>()?;
    let topic = lab.name("topic");
    new_topic(&library, &topic, 2)?;
    let options = ProducerOptions::transactional(lab.name("id"));
    let hasty = ProducerOptions { transaction_timeout: TIMEOUT, ..options.clone() };
    let mut producer = library.producer(hasty)?;
    let mut other = library.producer(ProducerOptions::plain())?;
    let both = |value: &str| [Record::new(0, value), Record::new(1, value)];
    producer.begin()?;
    producer.send(&topic, &both("late"))?;
    other.send(&topic, &both("behind"))?;
    shows(&library, &topic, &both("behind"))?;
    // The abort has raised the epoch (KIP-360): to its producer that is a newer producer, too.
    refused("a commit after the timeout", producer.commit(), &[Kind::Fenced, Kind::TimedOut])?;
    same(&values(&library.read(&topic, true)?), &values(&both("behind")), "committed")?;
    let mut again = library.producer(options)?;
    again.begin()?;
    again.send(&topic, &[Record::new(0, "again")])?;
    again.commit()?;
    let [first, second] = both("behind");
    shows(&library, &topic, &[first, Record::new(0, "again"), second])?;
    let wanted = ["late", "behind", "again", "late", "behind"].map(String::from);
    same(&values(&library.read(&topic, false)?), &wanted.to_vec(), "uncommitted")
}

/// The same value on every partition.
pub fn on_all(value: &str) -> Vec<Record> {
    (0..PARTITIONS).map(|partition| Record::new(partition, value)).collect()
}
