//! What every check gets: names of its own, the library, patience.

use std::env;
use std::fmt::Debug;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::driver::{Answer, Failure, Kind, Library, PATIENCE, Record, Sasl, Security, Tls};

const POLL: Duration = Duration::from_millis(20);
const LINE: usize = 600;

/// A check's surroundings.
pub struct Lab<'a> {
    check: &'a str,
}

impl<'a> Lab<'a> {
    pub fn new(check: &'a str) -> Self {
        Self { check }
    }

    /// A name that no other check and no other run has.
    pub fn name(&self, suffix: &str) -> String {
        let run = env::var("TXNSIM_RUN").unwrap_or_default();
        format!("{run}-{}-{suffix}", self.check)
    }

    /// The library, pointed at the plain listeners.
    pub fn plain<L: Library>(&self) -> Answer<L> {
        L::new(&setting("TXNSIM_BOOTSTRAP")?, &Security::default())
    }

    /// The library, logged in.
    pub fn logged_in<L: Library>(&self, sasl: Sasl) -> Answer<L> {
        let tls = Tls { ca: security_file("ca.pem")?, certificate_and_key: None };
        let security = Security { tls: Some(tls), sasl: Some(sasl) };
        L::new(&setting("TXNSIM_SASL_BOOTSTRAP")?, &security)
    }

    /// The library with a certificate.
    pub fn certified<L: Library>(&self) -> Answer<L> {
        let key = security_file("tls-user.key")?;
        let tls = Tls {
            ca: security_file("ca.pem")?,
            certificate_and_key: Some((security_file("tls-user.pem")?, key)),
        };
        let security = Security { tls: Some(tls), sasl: None };
        L::new(&setting("TXNSIM_TLS_BOOTSTRAP")?, &security)
    }
}

/// A new topic, with replicas on up to three brokers.
pub fn new_topic<L: Library>(library: &L, topic: &str, partitions: i32) -> Answer<()> {
    let replicas = library.brokers()?.min(3);
    library.create_topic(topic, partitions, i16::try_from(replicas).unwrap_or(3))?;
    until(&format!("leaders of {topic}"), || {
        Ok(library.leaders(topic)?.iter().filter(|leader| **leader >= 0).count()
            == partitions as usize)
    })
}

/// A variable of the environment.
pub fn setting(name: &str) -> Answer<String> {
    env::var(name).map_err(|_| Failure::check(format!("{name} is not set")))
}

fn security_file(name: &str) -> Answer<PathBuf> {
    Ok(PathBuf::from(setting("TXNSIM_SECURITY_DIR")?).join(name))
}

/// Ask until it holds.
pub fn until(what: &str, mut ask: impl FnMut() -> Answer<bool>) -> Answer<()> {
    let deadline = Instant::now() + PATIENCE;
    while !ask()? {
        if Instant::now() > deadline {
            return Err(Failure::check(format!("{what}: not within {PATIENCE:?}")));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// The error that this ended with; a check fails if there is none, or if it means something else.
pub fn refused<T>(what: &str, answer: Answer<T>, kinds: &[Kind]) -> Answer<Failure> {
    match answer {
        Ok(_) => Err(Failure::check(format!("{what} was not refused"))),
        Err(failure) if kinds.contains(&failure.kind) => Ok(failure),
        Err(failure) => {
            Err(Failure::check(format!("{what}: not the library's error for it: {failure}")))
        }
    }
}

/// Both look the same.
pub fn same<T: Debug + PartialEq>(actual: &T, wanted: &T, what: &str) -> Answer<()> {
    if actual == wanted {
        return Ok(());
    }
    Err(Failure::check(format!("{what}: {} instead of {}", shortened(actual), shortened(wanted))))
}

/// The values, in order.
pub fn values(records: &[Record]) -> Vec<String> {
    records.iter().map(Record::text).collect()
}

/// A read_committed reader comes to see these records, each once, and no others.
///
/// From transactions v2 on a commit is answered before its markers are written (KIP-890).
pub fn shows<L: Library>(library: &L, topic: &str, records: &[Record]) -> Answer<()> {
    let mut seen = Vec::new();
    until(&format!("{} committed records of {topic}", records.len()), || {
        seen = library.read(topic, true)?;
        Ok(seen.len() >= records.len())
    })?;
    same(&in_order(&seen), &in_order(records), "committed")
}

fn in_order(records: &[Record]) -> Vec<String> {
    let mut texts: Vec<String> =
        records.iter().map(|record| format!("{}: {}", record.partition, record.text())).collect();
    texts.sort();
    texts
}

fn shortened<T: Debug>(value: &T) -> String {
    let mut text = format!("{value:?}");
    if text.chars().count() > LINE {
        text = text.chars().take(LINE).chain(['…']).collect();
    }
    text
}
