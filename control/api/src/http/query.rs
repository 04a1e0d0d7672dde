//! The parameters behind the `?`, read strictly: a misspelt one is an error.

use std::error::Error;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use records::snapshot::FlowName;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::refusal::Refusal;

/// The parameters of a request.
#[derive(Debug)]
pub struct Parameters<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let Query(parameters) = Query::try_from_uri(&parts.uri).map_err(|error| {
            // The cause names the parameter; the text around it adds nothing.
            let words = error
                .source()
                .map_or_else(|| error.body_text(), ToString::to_string);
            Refusal::bad_request(words)
        })?;
        Ok(Self(parameters))
    }
}

/// No parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Which ports are selected.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PortFilter {
    /// Only the port of this name.
    pub(super) name: Option<String>,
}

/// Which flow: `flow`, or the three others.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FlowFilter {
    /// The flow as it is shown, `10.0.0.1:1024>10.0.0.2:80/tcp`, or its hash as lists of wires have it; in an address
    /// `>` is written `%3E`, and `#` `%23`.
    flow: Option<String>,
    /// Its source, `10.0.0.1:1024`, `[fd00::1]:1024`, or an address alone where there are no ports.
    source: Option<String>,
    /// Its destination, likewise.
    destination: Option<String>,
    /// Its protocol: `tcp`, `udp`, `sctp`, `icmp`, `icmpv6` or a number; `0x0806` or `0x0806/vlan7`
    /// between MAC addresses.
    protocol: Option<String>,
}

impl FlowFilter {
    pub(super) fn name(&self) -> Result<FlowName, Refusal> {
        let refuse = |name: &str, error| Refusal::bad_request(format!("{name}: {error}"));
        match self {
            Self {
                flow: Some(flow),
                source: None,
                destination: None,
                protocol: None,
            } => flow.parse().map_err(|error| refuse("flow", error)),
            Self {
                flow: None,
                source: Some(source),
                destination: Some(destination),
                protocol: Some(protocol),
            } => format!("{source}>{destination}/{protocol}")
                .parse()
                .map_err(|error| refuse("source, destination, protocol", error)),
            _ => Err(Refusal::bad_request(
                "expected `flow` alone, or `source`, `destination` and `protocol`",
            )),
        }
    }
}
