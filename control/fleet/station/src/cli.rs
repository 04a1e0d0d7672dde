//! The command line of `vernier-station`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use contract::address::listen_address;

/// Join the reports of many switches, and answer queries about segments, paths and missing reports.
#[derive(Debug, Parser)]
#[command(name = "vernier-station", version)]
pub struct Arguments {
    /// Configuration (JSON)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// NATS server, without a configuration
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "config",
        default_value = "nats://127.0.0.1:4222"
    )]
    pub nats: String,
    /// Address to serve answers at, overriding the configuration
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
}
