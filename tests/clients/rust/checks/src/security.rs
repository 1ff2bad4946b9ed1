//! Who one is: the transactional core over the listeners of `serve --security demo`.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::driver::{Answer, Kind, Library, Producer, ProducerOptions, Sasl};
use crate::lab::{Lab, new_topic, refused, same, shows, values};
use crate::transactions::{PARTITIONS, on_all};

const TOKEN_SECONDS: u64 = 3_600;
const USERS: [(&str, &str); 4] = [
    ("SCRAM-SHA-256", "scram-user"),
    ("SCRAM-SHA-512", "scram-user"),
    ("PLAIN", "plain-user"),
    ("OAUTHBEARER", "oauth-user"),
];

pub fn sasl<L: Library>(lab: &Lab<'_>) -> Answer<()> {
    for (mechanism, user) in USERS {
        let topic = lab.name(&mechanism.to_lowercase());
        created::<L>(lab, &topic)?;
        core(&lab.logged_in::<L>(sasl_of(mechanism, user))?, &topic)?;
        if mechanism != "OAUTHBEARER" {
            let wrong = Sasl { password: "wrong".to_owned(), ..sasl_of(mechanism, user) };
            let answer = lab.logged_in::<L>(wrong).and_then(|stranger| stranger.brokers());
            refused("a wrong password", answer, &[Kind::WrongPassword])?;
        }
    }
    Ok(())
}

pub fn tls<L: Library>(lab: &Lab<'_>) -> Answer<()> {
    let topic = lab.name("topic");
    created::<L>(lab, &topic)?;
    core(&lab.certified::<L>()?, &topic)
}

/// Commit, abort, read.
fn core<L: Library>(library: &L, topic: &str) -> Answer<()> {
    let mut producer = library.producer(ProducerOptions::transactional(topic))?;
    producer.begin()?;
    producer.send(topic, &on_all("one"))?;
    same(&values(&library.read(topic, true)?), &vec![], "committed before")?;
    producer.commit()?;
    shows(library, topic, &on_all("one"))?;
    producer.begin()?;
    producer.send(topic, &on_all("never"))?;
    producer.abort()?;
    producer.begin()?;
    producer.send(topic, &on_all("two"))?;
    producer.commit()?;
    shows(library, topic, &[on_all("one"), on_all("two")].concat())
}

/// Users may use topics; only the administrator may create them.
fn created<L: Library>(lab: &Lab<'_>, topic: &str) -> Answer<()> {
    new_topic(&lab.logged_in::<L>(sasl_of("SCRAM-SHA-256", "admin"))?, topic, PARTITIONS)
}

fn sasl_of(mechanism: &'static str, user: &str) -> Sasl {
    Sasl { mechanism, username: user.to_owned(), password: format!("{user}-secret") }
}

/// A token that nobody has signed (KIP-255), and when it ends.
pub fn unsecured_token(user: &str) -> (String, i64) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let end = since + TOKEN_SECONDS;
    let claims = format!(r#"{{"sub":"{user}","iat":{since},"exp":{end}}}"#);
    let token = format!("{}.{}.", base64url(r#"{"alg":"none"}"#), base64url(&claims));
    (token, i64::try_from(end * 1_000).unwrap_or(i64::MAX))
}

/// RFC 4648, section 5, without padding.
fn base64url(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digits_of = |chunk: &[u8]| {
        let number = (0..3).fold(0, |sum, at| sum << 8 | usize::from(*chunk.get(at).unwrap_or(&0)));
        (0..=chunk.len())
            .map(|at| char::from(DIGITS[number >> (18 - 6 * at) & 63]))
            .collect::<String>()
    };
    text.as_bytes().chunks(3).map(digits_of).collect()
}
