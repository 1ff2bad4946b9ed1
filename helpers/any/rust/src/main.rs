//! A commit survives the loss of its marker. SHOP names the program under test; it gets the address of the cluster.
use serde_json::{json, Value};
use std::env::var;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

type Answer = Result<Value, Box<dyn std::error::Error>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let serve = "serve --port 0 --http 0 --json --until-eof --ready-coordinators --topic orders";
    let mut txnsim = Command::new(var("TXNSIM").unwrap_or("txnsim".into()))
        .args(serve.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut ready_line = String::new();
    let mut output = BufReader::new(txnsim.stdout.take().unwrap());
    output.read_line(&mut ready_line)?;
    let ready: Value = serde_json::from_str(&ready_line)?;
    let ready_field = |name: &str| ready[name].as_str().unwrap().to_owned();
    let url = ready_field("http");
    let http: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let checked = |path: &str, mut response: ureq::http::Response<ureq::Body>| -> Answer {
        let body = response.body_mut().read_to_string()?;
        let good = response.status().is_success();
        if good { Ok(serde_json::from_str(&body)?) } else { Err(format!("{path}: {body}").into()) }
    };
    let get = |path: &str| checked(path, http.get(format!("{url}{path}")).call()?);
    let post = |path: &str, body: Value| checked(path, http.post(format!("{url}{path}")).send_json(body)?);

    let drop = json!({"do": "drop"});
    let lost = json!({"id": "lost", "point": "peer.request", "api": "WriteTxnMarkers", "limit": 1, "action": drop});
    post("/api/v1/faults", lost)?;
    assert!(Command::new(var("SHOP")?).arg(ready_field("bootstrap")).status()?.success());
    get("/api/v1/faults/lost/wait")?;
    post("/api/v1/clock", json!({"advance_ms": 31_000}))?; // request.timeout.ms is 30 s
    post("/api/v1/assertions/exactly-once", json!({"input": ["one order"], "output": "orders"}))?;
    post("/api/v1/reset", json!({}))?; // a fresh cluster on the same ports, for the next test
    std::mem::drop(txnsim.stdin.take()); // ends the cluster
    txnsim.wait()?;
    println!("passed");
    Ok(())
}
