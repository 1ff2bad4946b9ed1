//! Tells the program which compiler has built it.

use std::{env, process::Command};

fn main() {
    let compiler = env::var("RUSTC").expect("cargo names it");
    let version = Command::new(compiler).arg("--version").output().expect("it says its version");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=COMPILER={}", String::from_utf8_lossy(&version.stdout).trim());
}
