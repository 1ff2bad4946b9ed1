//! An exam's driver in Rust without its library: it reads commands and writes answers (docs/exam.md).

use std::error::Error;

use serde_json::{Value, json};

pub type Answer = Result<Value, Box<dyn Error>>;

/// What the exam asks for.
pub struct Command(Value);

impl Command {
    /// A field; empty where this command has none of that name.
    pub fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    /// A field that this command has.
    pub fn number<T: TryFrom<i64>>(&self, field: &str) -> T {
        number(&self.0[field])
    }

    pub fn wait(&self) -> bool {
        self.0["wait"] == true
    }

    /// Topic, partition and offset of each position.
    pub fn offsets(&self) -> impl Iterator<Item = (&str, i32, i64)> {
        let positions = self.0["offsets"].as_array().into_iter().flatten();
        positions.map(|position| (position[0].as_str().unwrap_or_default(), number(&position[1]), number(&position[2])))
    }
}

fn number<T: TryFrom<i64>>(value: &Value) -> T {
    value.as_i64().and_then(|number| T::try_from(number).ok()).expect("a number that fits")
}

/// Answers commands until standard input ends.
///
/// What a command returns goes into its answer; `said` is the library's own word on its error.
pub fn serve(library: &str, version: &str, mut answer: impl FnMut(&Command) -> Answer, describe_error: fn(&(dyn Error + 'static)) -> Value) {
    for line in std::io::stdin().lines() {
        let command = Command(serde_json::from_str(&line.expect("a line")).expect("a command"));
        let outcome = match command.text("do") {
            "describe" => Ok(json!({
                "contract": 1, "library": library, "version": version, "language": "Rust", "runtime": env!("COMPILER")
            })),
            _ => answer(&command),
        };
        let ok = outcome.is_ok();
        let mut outcome = outcome.unwrap_or_else(|error| json!({"error": describe_error(&*error)}));
        (outcome["id"], outcome["ok"]) = (command.0["id"].clone(), ok.into());
        println!("{outcome}");
    }
}

/// A command that the library can't do.
pub fn unsupported() -> Answer {
    Err("UNSUPPORTED_COMMAND".into())
}

/// The version of a crate that this program was built with.
pub fn version(krate: &str) -> &'static str {
    let name_line = format!("name = \"{krate}\"");
    let line = include_str!("../Cargo.lock").lines().skip_while(|line| *line != name_line).nth(1);
    line.and_then(|line| line.split('"').nth(1)).unwrap_or_default()
}
