//! The client matrix for krafka, a client in pure Rust with transactions v2 (KIP-890).

mod admin;
mod consumers;
mod failures;
mod library;
mod producers;

use std::process::ExitCode;

use checks::groups;

use crate::library::Krafka;

fn main() -> ExitCode {
    checks::program::main::<Krafka>(&[
        ("admin", admin::admin),
        ("krafka-kip848-transform", groups::transform::<Krafka<true>>),
    ])
}
