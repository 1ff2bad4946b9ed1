//! What the library's errors mean, by its own classification.

use std::future::Future;

use checks::driver::{Answer, Failure, Kind, PATIENCE};
use krafka::KrafkaError;
use krafka::error::ErrorCode;
use tokio::runtime::Runtime;

/// Wait for an answer, not forever.
pub fn answer<T>(
    runtime: &Runtime,
    what: &str,
    asked: impl Future<Output = krafka::Result<T>>,
) -> Answer<T> {
    match runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await }) {
        Ok(answered) => answered.map_err(failure_of),
        Err(_) => Err(Failure::new(Kind::Other, format!("{what}: no answer in {PATIENCE:?}"))),
    }
}

pub fn failure_of(error: KrafkaError) -> Failure {
    let kind = match &error {
        KrafkaError::Fenced { .. } => Kind::Fenced,
        KrafkaError::Broker { code: ErrorCode::ProducerFenced, .. } => Kind::Fenced,
        KrafkaError::Broker { code: ErrorCode::InvalidTxnState, .. } => Kind::TimedOut,
        KrafkaError::Auth { .. } => Kind::WrongPassword,
        KrafkaError::Broker { code: ErrorCode::SaslAuthenticationFailed, .. } => {
            Kind::WrongPassword
        }
        // A member that is not of this generation any more: whatever fails in a transaction makes
        // it one that can only be aborted.
        KrafkaError::Broker {
            code: ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId,
            ..
        } => Kind::Abortable,
        abortable if abortable.requires_abort() => Kind::Abortable,
        _ => Kind::Other,
    };
    Failure::new(kind, error.to_string())
}
