//! Serves until the end of standard input: prints bootstrap.servers, the control port and its token.
use tokio::io::AsyncReadExt;
use txnsim_testcontainers::Txnsim;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let image = std::env::var("TXNSIM_TEST_IMAGE").unwrap_or("txnsim:latest".to_string());
    let (name, tag) = image.split_once(':').unwrap_or((&image, "latest"));
    let kafka = Txnsim::new(name, tag).brokers(2).topic("orders", 2).property("num.partitions", 5).serve().await?;
    println!("{} {} {}", kafka.bootstrap, kafka.control_url, kafka.control_token);
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    kafka.stop().await?;
    Ok(())
}
