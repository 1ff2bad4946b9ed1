//! What librdkafka tells beside its answers: errors of connections, deliveries; and its tokens.

use std::error::Error;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use checks::driver::{Answer, Failure, Kind};
use checks::security::unsecured_token;
use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{DeliveryResult, ProducerContext};

/// A delivery: which record of a send, and its offset or why there is none.
pub type Delivery = (usize, Answer<i64>);

/// What goes with a record, and tells of its delivery.
pub type Opaque = Box<(usize, Sender<Delivery>)>;

/// One client's context.
pub struct Context {
    user: String,
    wrong_password: Mutex<Option<Failure>>,
}

impl Context {
    pub fn new(user: &str) -> Self {
        Self { user: user.to_owned(), wrong_password: Mutex::new(None) }
    }

    /// A connection was refused for who we say to be.
    pub fn wrong_password(&self) -> Option<Failure> {
        self.wrong_password.lock().expect("nobody panics with it").clone()
    }
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Authentication) {
            let failure = Failure::new(Kind::WrongPassword, format!("{error}: {reason}"));
            *self.wrong_password.lock().expect("nobody panics with it") = Some(failure);
        }
        if matches!(error, KafkaError::PartitionEOF(_)) {
            return;
        }
        eprintln!("{error}: {reason}");
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        let (token, lifetime_ms) = unsecured_token(&self.user);
        Ok(OAuthToken { token, principal_name: self.user.clone(), lifetime_ms })
    }
}

impl ConsumerContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = Opaque;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: Opaque) {
        let (at, sender) = *opaque;
        let offset = match result {
            Ok(message) => Ok(message.offset()),
            Err((error, _)) => Err(failure_of(error.clone())),
        };
        // A send that has given up does not listen any more.
        let _ = sender.send((at, offset));
    }
}

/// Where deliveries of one send are told.
pub fn deliveries() -> (Sender<Delivery>, Receiver<Delivery>) {
    channel()
}

/// The library's own classification.
pub fn failure_of(error: KafkaError) -> Failure {
    let fenced = [RDKafkaErrorCode::Fenced, RDKafkaErrorCode::InvalidProducerEpoch];
    let kind = match &error {
        KafkaError::Transaction(cause) if cause.is_fatal() && fenced.contains(&cause.code()) => {
            Kind::Fenced
        }
        KafkaError::Transaction(cause) if cause.txn_requires_abort() => Kind::Abortable,
        _ => Kind::Other,
    };
    let code = error.rdkafka_error_code();
    Failure::new(kind, format!("{error} ({code:?})"))
}
