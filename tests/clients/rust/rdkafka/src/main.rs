//! The client matrix for rdkafka: librdkafka as its users in Rust see it.

mod consumers;
mod context;
mod library;
mod producers;

use std::process::ExitCode;

fn main() -> ExitCode {
    checks::program::main::<library::Rdkafka>(&[])
}
