//! What the checks ask of a library.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How long any single answer may take; on a quiet machine it takes milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub type Answer<T> = Result<T, Failure>;

/// What an error means, by the library's own classification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A newer producer has taken over.
    Fenced,
    /// The coordinator has ended the transaction by itself.
    TimedOut,
    /// The transaction can't be committed; after an abort the producer goes on.
    Abortable,
    /// Who one says to be is not believed.
    WrongPassword,
    /// A check found something else than it wanted.
    Check,
    Other,
}

/// An error, with the library's own words.
#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: Kind,
    pub text: String,
}

impl Failure {
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub fn check(text: impl Into<String>) -> Self {
        Self::new(Kind::Check, text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.kind, self.text)
    }
}

/// A record, to be sent or as a consumer got it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub partition: i32,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub timestamp_ms: Option<i64>,
    /// Where it was found.
    pub offset: i64,
}

impl Record {
    pub fn new(partition: i32, value: impl Into<Vec<u8>>) -> Self {
        Self { partition, value: Some(value.into()), ..Self::default() }
    }

    /// The value, for people.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
}

/// How a producer is made.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    pub transactional_id: Option<String>,
    pub transaction_timeout: Duration,
    pub codec: &'static str,
    pub idempotent: bool,
}

impl ProducerOptions {
    pub fn plain() -> Self {
        Self {
            transactional_id: None,
            transaction_timeout: Duration::from_secs(60),
            codec: "none",
            idempotent: false,
        }
    }

    pub fn idempotent() -> Self {
        Self { idempotent: true, ..Self::plain() }
    }

    pub fn transactional(id: impl Into<String>) -> Self {
        Self { transactional_id: Some(id.into()), ..Self::idempotent() }
    }
}

/// Who one says to be.
#[derive(Clone, Debug, Default)]
pub struct Security {
    pub tls: Option<Tls>,
    pub sasl: Option<Sasl>,
}

/// Files in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    pub ca: PathBuf,
    pub certificate_and_key: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone, Debug)]
pub struct Sasl {
    pub mechanism: &'static str,
    pub username: String,
    pub password: String,
}

/// A library, pointed at one cluster.
pub trait Library: Sized {
    type Producer: Producer<Member = Self::Member>;
    type Member: Member;

    /// Compressions that it has here; "none" is one.
    const CODECS: &'static [&'static str];

    fn new(bootstrap: &str, security: &Security) -> Answer<Self>;

    /// How many brokers the cluster has.
    fn brokers(&self) -> Answer<usize>;

    /// Create a topic with that many replicas of each partition.
    fn create_topic(&self, topic: &str, partitions: i32, replicas: i16) -> Answer<()>;

    /// Leaders of its partitions, in order.
    fn leaders(&self, topic: &str) -> Answer<Vec<i32>>;

    /// Committed positions of partitions from 0 on.
    fn positions(&self, group: &str, topic: &str, partitions: i32) -> Answer<Vec<Option<i64>>>;

    /// A producer; a transactional one has its producer id afterwards.
    fn producer(&self, options: ProducerOptions) -> Answer<Self::Producer>;

    /// A member of a group that reads read_committed and commits nothing by itself.
    fn member(&self, group: &str, topic: &str) -> Answer<Self::Member>;

    /// Everything from the beginning to the end that the isolation level shows, partition by
    /// partition.
    fn read(&self, topic: &str, committed: bool) -> Answer<Vec<Record>>;
}

pub trait Producer {
    type Member: Member;

    fn begin(&mut self) -> Answer<()>;

    /// Send without waiting in between, then wait for all; the offsets in order.
    fn send(&mut self, topic: &str, records: &[Record]) -> Answer<Vec<i64>>;

    /// Positions behind these records become part of the transaction, as the member's who took
    /// them.
    fn send_offsets(&mut self, topic: &str, taken: &Taken<Self::Member>) -> Answer<()>;

    fn commit(&mut self) -> Answer<()>;

    fn abort(&mut self) -> Answer<()>;
}

pub trait Member {
    /// The member and its generation.
    type Metadata: Clone;

    /// What there is within a moment, and who the member was then; the group's work goes on.
    fn poll(&mut self) -> Answer<Taken<Self>>
    where
        Self: Sized;

    /// What is assigned to it.
    fn partitions(&self) -> Answer<Vec<i32>>;
}

/// Records of one poll.
pub struct Taken<M: Member> {
    pub records: Vec<Record>,
    pub metadata: Option<M::Metadata>,
}

impl<M: Member> Taken<M> {
    /// Only some of the records.
    pub fn part(&self, records: &[Record]) -> Self {
        Self { records: records.to_vec(), metadata: self.metadata.clone() }
    }

    /// For each partition the offset behind its last record.
    pub fn positions(&self) -> Vec<(i32, i64)> {
        let mut positions: Vec<(i32, i64)> = Vec::new();
        for record in &self.records {
            positions.retain(|(partition, _)| *partition != record.partition);
            positions.push((record.partition, record.offset + 1));
        }
        positions
    }
}
