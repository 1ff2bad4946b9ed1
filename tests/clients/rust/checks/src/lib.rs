//! The client matrix in Rust: checks that are written once, and what they ask of a library.
//!
//! A driver ([`driver::Library`]) is synchronous and waits for every answer, so that a check reads
//! as a story. It adds no retries and hides no error. A program per library calls
//! [`program::main`].

pub mod basics;
pub mod driver;
pub mod groups;
pub mod lab;
pub mod program;
pub mod security;
pub mod transactions;
