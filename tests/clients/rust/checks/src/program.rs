//! A library's program: checks by name, a line for each, the exit status.

use std::env;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use crate::driver::{Answer, Library};
use crate::lab::Lab;
use crate::{basics, groups, security, transactions};

pub type Check = fn(&Lab<'_>) -> Answer<()>;

/// Runs the checks that the command line names, or all; `own` are those of this library alone.
pub fn main<L: Library>(own: &[(&'static str, Check)]) -> ExitCode {
    let mut checks: Vec<(&'static str, Check)> = vec![
        ("produce", basics::produce::<L>),
        ("idempotent", basics::idempotent::<L>),
        ("commit", transactions::commit::<L>),
        ("abort", transactions::abort::<L>),
        ("read-committed", transactions::read_committed::<L>),
        ("fence", transactions::fence::<L>),
        ("timeout", transactions::timeout::<L>),
        ("transform", groups::transform::<L>),
        ("rebalance", groups::rebalance::<L>),
        ("sasl", security::sasl::<L>),
        ("tls", security::tls::<L>),
    ];
    checks.extend_from_slice(own);
    let asked: Vec<String> = env::args().skip(1).collect();
    let known = |name: &String| checks.iter().any(|(check, _)| check == name);
    let told = ["TXNSIM_BOOTSTRAP", "TXNSIM_RUN"].iter().all(|name| env::var(name).is_ok());
    if !asked.iter().all(known) || !told {
        let names: Vec<&str> = checks.iter().map(|(name, _)| *name).collect();
        say(
            &mut stderr(),
            &format!(
                "usage: PROGRAM [CHECK...], with TXNSIM_BOOTSTRAP and TXNSIM_RUN; checks: {}",
                names.join(" ")
            ),
        );
        return ExitCode::from(2);
    }
    checks.retain(|(name, _)| asked.is_empty() || asked.iter().any(|one| one == name));
    let failed = checks.iter().filter(|(name, check)| !passes(name, *check)).count();
    say(&mut stdout(), &format!("{} passed, {failed} failed", checks.len() - failed));
    ExitCode::from(u8::from(failed > 0))
}

fn passes(name: &str, check: Check) -> bool {
    match check(&Lab::new(name)) {
        Ok(()) => {
            say(&mut stdout(), &format!("PASS {name}"));
            true
        }
        Err(failure) => {
            let reason: Vec<&str> = failure.text.split_whitespace().collect();
            say(&mut stdout(), &format!("FAIL {name}: {:?}: {}", failure.kind, reason.join(" ")));
            false
        }
    }
}

/// Whoever reads may be a pipe.
fn say(out: &mut impl Write, line: &str) {
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("somebody listens");
}
