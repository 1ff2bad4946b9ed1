//! The client matrix for krafka, a client in pure Rust with transactions v2 (KIP-890).

mod admin;
mod consumers;
mod failures;
mod library;
mod producers;

use std::process::ExitCode;

fn main() -> ExitCode {
    checks::program::main::<library::Krafka>(&[("admin", admin::admin)])
}
