//! A simulated Kafka cluster in a container.
//!
//! A broker tells its clients where to come back to, and Testcontainers publishes ports that are not
//! known before the container runs. So the container first waits for a script, which is written in it
//! once the ports are known, and which starts the brokers with these addresses.
//!
//! ```no_run
//! # async fn example() -> testcontainers::core::error::Result<()> {
//! use txnsim_testcontainers::Txnsim;
//!
//! let kafka = Txnsim::new("txnsim", "latest").topic("orders", 3).serve().await?;
//! println!("{} {} {}", kafka.bootstrap, kafka.control_url, kafka.control_token);
//! kafka.stop().await?; // an error where a fault that was armed never struck
//! # Ok(())
//! # }
//! ```

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::ops::Deref;

use testcontainers::core::error::Result;
use testcontainers::core::wait::HttpWaitStrategy;
use testcontainers::core::{CmdWaitFor, ContainerPort, ContainerState, ExecCommand, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, Image, TestcontainersError};

/// Port of the first broker inside of the container; the others follow.
pub const KAFKA_PORT: u16 = 9092;
/// The control port inside of the container.
pub const CONTROL_PORT: u16 = 9080;

const STARTER: &str = "/tmp/txnsim-start.sh";

/// What a cluster is like. It is an [`Image`], so `ImageExt` has networks, names and all else.
#[derive(Debug, Clone)]
pub struct Txnsim {
    image: String,
    tag: String,
    brokers: u16,
    topics: Vec<String>,
    environment: BTreeMap<String, String>,
    ports: Vec<ContainerPort>,
    token: String,
}

impl Txnsim {
    /// Three brokers of an image, as built from the Containerfile.
    pub fn new(image: impl Into<String>, tag: impl Into<String>) -> Self {
        let image = Self {
            image: image.into(),
            tag: tag.into(),
            brokers: 0,
            topics: Vec::new(),
            environment: BTreeMap::new(),
            ports: Vec::new(),
            token: new_token(),
        };
        image.brokers(3)
    }

    /// How many brokers; each takes a port.
    pub fn brokers(mut self, number: u16) -> Self {
        assert!(number > 0, "a cluster needs at least one broker");
        self.brokers = number;
        let inside = (KAFKA_PORT..KAFKA_PORT + number).chain([CONTROL_PORT]);
        self.ports = inside.map(ContainerPort::Tcp).collect();
        self
    }

    /// A topic that is there from the start, replicated to up to three brokers.
    pub fn topic(mut self, name: &str, partitions: u32) -> Self {
        self.topics.push(format!("{name}:{partitions}"));
        self
    }

    /// Level of the feature transaction.version: 0, 1 or 2.
    pub fn transaction_version(self, level: u8) -> Self {
        self.variable("TXNSIM_TRANSACTION_VERSION", level.to_string())
    }

    /// The release of Apache Kafka to behave as, such as 3.9.
    pub fn release(self, release: &str) -> Self {
        self.variable("TXNSIM_AS_VERSION", release.to_string())
    }

    /// A property of the brokers, by Kafka's name.
    pub fn property(self, name: &str, value: impl ToString) -> Self {
        let value = value.to_string();
        self.variable(&variable_of(name), value)
    }

    /// What the control port wants: 16 to 256 letters, digits and characters of `-._~+/=`.
    pub fn control_token(mut self, token: &str) -> Self {
        self.token = token.to_string();
        self
    }

    /// Start it, and wait until every broker serves.
    pub async fn serve(self) -> Result<TxnsimContainer> {
        TxnsimContainer::of(self.start().await?).await
    }

    fn variable(mut self, name: &str, value: String) -> Self {
        self.environment.insert(name.to_string(), value);
        self
    }
}

impl Image for Txnsim {
    fn name(&self) -> &str {
        &self.image
    }

    fn tag(&self) -> &str {
        &self.tag
    }

    fn ready_conditions(&self) -> Vec<WaitFor> {
        let healthy = HttpWaitStrategy::new("/healthz")
            .with_port(ContainerPort::Tcp(CONTROL_PORT))
            .with_expected_status_code(200u16);
        vec![WaitFor::http(healthy)]
    }

    fn env_vars(&self) -> impl IntoIterator<Item = (impl Into<Cow<'_, str>>, impl Into<Cow<'_, str>>)> {
        let mut variables = self.environment.clone();
        for (name, value) in [
            ("TXNSIM_BROKERS", self.brokers.to_string()),
            ("TXNSIM_PORT", KAFKA_PORT.to_string()),
            ("TXNSIM_HTTP_PORT", CONTROL_PORT.to_string()),
            ("TXNSIM_TOKEN", self.token.clone()),
            ("TXNSIM_TOPICS", self.topics.join(",")),
        ] {
            variables.insert(name.to_string(), value);
        }
        variables.into_iter().filter(|(_, value)| !value.is_empty())
    }

    fn entrypoint(&self) -> Option<&str> {
        Some("sh")
    }

    fn cmd(&self) -> impl IntoIterator<Item = impl Into<Cow<'_, str>>> {
        ["-c".to_string(), format!("while [ ! -f {STARTER} ]; do sleep 0.05; done; exec sh {STARTER}")]
    }

    fn expose_ports(&self) -> &[ContainerPort] {
        &self.ports
    }

    fn exec_before_ready(&self, state: ContainerState) -> Result<Vec<ExecCommand>> {
        let host = state.host().to_string();
        let mut addresses = Vec::new();
        for port in KAFKA_PORT..KAFKA_PORT + self.brokers {
            addresses.push(format!("{host}:{}", state.host_port_ipv4(ContainerPort::Tcp(port))?));
        }
        // Moved when it is whole: the container waits for it.
        let start_command = format!(
            "printf '%s\\n' \"export TXNSIM_ADVERTISED='{}'\" \
             'exec python -m txnsim.testing.container --ready-coordinators' \
             > {STARTER}.partial && mv {STARTER}.partial {STARTER}",
            addresses.join(",")
        );
        let command = ExecCommand::new(["sh".to_string(), "-c".to_string(), start_command]);
        Ok(vec![command.with_cmd_ready_condition(CmdWaitFor::exit_code(0))])
    }
}

/// A cluster that serves. Dropped, the container goes; only [`stop`](Self::stop) asks for faults.
pub struct TxnsimContainer {
    /// Where clients connect to (`bootstrap.servers`).
    pub bootstrap: String,
    /// The control port, for faults, the clock and all else: `/openapi.json` tells.
    pub control_url: String,
    /// What the control port wants: `Authorization: Bearer TOKEN`.
    pub control_token: String,
    container: ContainerAsync<Txnsim>,
}

impl TxnsimContainer {
    /// A container that was started otherwise, as with a network of `ImageExt`.
    pub async fn of(container: ContainerAsync<Txnsim>) -> Result<Self> {
        let host = container.get_host().await?.to_string();
        let mut addresses = Vec::new();
        for port in KAFKA_PORT..KAFKA_PORT + container.image().brokers {
            addresses.push(format!("{host}:{}", container.get_host_port_ipv4(port).await?));
        }
        let control = container.get_host_port_ipv4(CONTROL_PORT).await?;
        Ok(Self {
            bootstrap: addresses.join(","),
            control_url: format!("http://{host}:{control}"),
            control_token: container.image().token.clone(),
            container,
        })
    }

    /// Stop and remove it.
    ///
    /// # Errors
    ///
    /// A fault that was armed has never struck, or the control port does not answer.
    pub async fn stop(self) -> Result<()> {
        let verified = self.verify().await;
        self.container.rm().await?;
        verified
    }

    async fn verify(&self) -> Result<()> {
        let client = reqwest::Client::builder().no_proxy().build().map_err(TestcontainersError::other)?;
        let response = client
            .post(format!("{}/api/v1/faults/verify", self.control_url))
            .bearer_auth(&self.control_token)
            .send()
            .await
            .map_err(TestcontainersError::other)?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(TestcontainersError::other(response.text().await.map_err(TestcontainersError::other)?))
    }
}

impl Deref for TxnsimContainer {
    type Target = ContainerAsync<Txnsim>;

    fn deref(&self) -> &Self::Target {
        &self.container
    }
}

/// The environment variable that stands for a property, as in the image apache/kafka.
fn variable_of(property: &str) -> String {
    let spelled = property.replace('_', "__").replace('-', "___").replace('.', "_");
    format!("KAFKA_{}", spelled.to_uppercase())
}

/// 128 random bits: a hasher's keys are the system's.
fn new_token() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_spelled_as_in_the_image_of_kafka() {
        assert_eq!(variable_of("a.b"), "KAFKA_A_B");
        assert_eq!(variable_of("a_b"), "KAFKA_A__B");
        assert_eq!(variable_of("a-b.c"), "KAFKA_A___B_C");
    }

    #[test]
    fn what_is_asked_for_becomes_variables() {
        let image = Txnsim::new("txnsim", "1")
            .brokers(1)
            .topic("orders", 3)
            .topic("payments", 1)
            .transaction_version(0)
            .release("3.9")
            .property("transaction.max.timeout.ms", 60_000)
            .control_token("a-token-of-this-test");
        let variables: BTreeMap<String, String> = image
            .env_vars()
            .into_iter()
            .map(|(name, value)| {
                let (name, value): (Cow<str>, Cow<str>) = (name.into(), value.into());
                (name.into_owned(), value.into_owned())
            })
            .collect();
        let expected = [
            ("KAFKA_TRANSACTION_MAX_TIMEOUT_MS", "60000"),
            ("TXNSIM_AS_VERSION", "3.9"),
            ("TXNSIM_BROKERS", "1"),
            ("TXNSIM_HTTP_PORT", "9080"),
            ("TXNSIM_PORT", "9092"),
            ("TXNSIM_TOKEN", "a-token-of-this-test"),
            ("TXNSIM_TOPICS", "orders:3,payments:1"),
            ("TXNSIM_TRANSACTION_VERSION", "0"),
        ];
        assert_eq!(variables, expected.map(|(name, value)| (name.into(), value.into())).into());
        assert_eq!(image.expose_ports(), [ContainerPort::Tcp(9092), ContainerPort::Tcp(9080)]);
        assert_ne!(new_token(), new_token());
    }
}
