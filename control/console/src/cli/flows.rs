//! Flows: many of them in a table, or everything about one.

use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use records::answers::{FlowOrder, FlowPage, FlowQuery, FlowScope, FlowState, Width};
use records::snapshot::FlowAnswer;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Globals, Question};
use crate::client::{Client, ClientError};
use crate::view::{self, Page};
use contract::address::Prefix;
use contract::config::Config;

/// Number of attempts to query a busy switch.
const TRIES: u32 = 5;

/// Largest number of flows listed for a part of a name.
pub(super) const PART_MAX: usize = 20;

/// Pause between two attempts.
const AGAIN: Duration = Duration::from_secs(1);

/// `vernier flows`.
#[derive(Debug, Args)]
pub struct Flows {
    /// Order, the greatest first. Figures are of each flow's last epoch; means on wires are estimates. If ordered by a
    /// delay, flows with fewer than 10 packets come last
    #[arg(long, value_name = "ORDER", default_value = "packets", value_parser = parser::<FlowOrder>(FlowOrder::ALL.map(FlowOrder::label)))]
    sort: FlowOrder,
    /// The least first
    #[arg(long)]
    ascending: bool,
    /// Maximum number of flows
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    limit: usize,
    /// Number of flows to skip at the beginning
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    offset: usize,
    /// Only flows of this ingress port
    #[arg(long, value_name = "PORT")]
    ingress: Option<String>,
    /// Only flows of this egress port
    #[arg(long, value_name = "PORT")]
    egress: Option<String>,
    /// Only flows of this class
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Only flows whose name contains this text, such as `>10.0.0.2:` or `/udp`
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// Only flows from or to addresses in this prefix, such as `10.1.0.0/16`
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<Prefix>,
    /// Only flows with this TCP, UDP or SCTP port at either end
    #[arg(long, value_name = "NUMBER")]
    port: Option<u16>,
    /// Inside the switch, on wires that arrive here, or both; a flow is listed for each segment that it passes
    #[arg(long, value_name = "SCOPE", default_value = "all", value_parser = parser::<FlowScope>(FlowScope::ALL.map(FlowScope::label)))]
    scope: FlowScope,
    /// Print the flows that lost their slot most recently, with their final figures; not on wires
    #[arg(long)]
    ended: bool,
    #[command(flatten)]
    question: Question,
}

/// `vernier flow`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vernier flow 10.0.0.1:443 10.0.0.2:55000 tcp
  vernier flow '[fd00::1]:443' '[fd00::2]:55000' udp
  vernier flow 10.0.0.1 10.0.0.2 icmp
  vernier flow '10.0.0.1:443>10.0.0.2:55000/tcp'
  vernier flow '#0123456789abcdef'
  vernier flow 10.0.0.1")]
pub struct Flow {
    /// Source, or the whole flow as tables show it, or its hash; for a part, such as an address, the flows that match are listed
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Destination
    #[arg(value_name = "DESTINATION", requires = "protocol")]
    destination: Option<String>,
    /// Protocol: tcp, udp, sctp, icmp, icmpv6 or a number
    #[arg(value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// Width in seconds of the rows of the history: 1, 10 or 60
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = width)]
    width: Width,
    #[command(flatten)]
    question: Question,
}

/// `vernier flows`.
pub(super) fn list(globals: &Globals, flows: &Flows) -> anyhow::Result<u8> {
    let query = FlowQuery {
        scope: flows.scope,
        state: if flows.ended {
            FlowState::Ended
        } else {
            FlowState::Active
        },
        sort: flows.sort,
        ascending: flows.ascending,
        offset: flows.offset,
        limit: flows.limit,
        ingress: flows.ingress.clone(),
        egress: flows.egress.clone(),
        class: flows.class.clone(),
        contains: flows.contains.clone(),
        prefix: flows.prefix,
        port: flows.port,
    };
    let client = globals.switch()?;
    let ask = || Ok(client.ask("/api/v1/flows", &query)?);
    let view = |page: &mut Page, answer: &FlowPage| {
        view::flows(page, answer);
        let tracks_none =
            |config: Config| config.measurement.flows.is_none() && config.wires().next().is_none();
        if answer.matching == 0 && client.config().is_ok_and(tracks_none) {
            page.say("This switch tracks no flows (measurement.flows).\n");
        }
    };
    flows.question.show(globals.color, &["flows"], ask, view)
}

/// `vernier flow`.
pub(super) fn one(globals: &Globals, flow: &Flow) -> anyhow::Result<u8> {
    let client = globals.switch()?;
    let source = flow.source.clone();
    let query = match (&flow.destination, &flow.protocol) {
        (Some(destination), Some(protocol)) => vec![
            ("source", source),
            ("destination", destination.clone()),
            ("protocol", protocol.clone()),
        ],
        _ if is_part(&source) => {
            let found: FlowPage = client.ask("/api/v1/flows", &part(source))?;
            let mut names = found.flows.iter().map(|flow| &flow.flow);
            match names.next() {
                Some(only) if names.all(|name| name == only) => vec![("flow", only.clone())],
                _ => {
                    let ask = || Ok(found.clone());
                    return flow
                        .question
                        .show(globals.color, &["flows"], ask, view::flows);
                }
            }
        }
        _ => vec![("flow", source)],
    };
    let view = |page: &mut Page, answer: &FlowAnswer| {
        let unknown = if answer.says_nothing() {
            why_unknown(&client, answer.epoch)
        } else {
            String::new()
        };
        view::flow(page, answer, flow.width.seconds(), &unknown);
    };
    let ask = || Ok(ask(&client, &query)?);
    flow.question.show(globals.color, &["tracked"], ask, view)
}

/// Whether a text is only a part of a flow, such as an address.
pub(super) fn is_part(text: &str) -> bool {
    let is_whole = text.contains('>') && text.contains('/');
    !is_whole && !text.starts_with('#')
}

/// The flows from or to an address, or whose names contain a text.
fn part(text: String) -> FlowQuery {
    let prefix = text.parse().ok();
    FlowQuery {
        prefix,
        contains: prefix.is_none().then_some(text),
        limit: PART_MAX,
        ..FlowQuery::default()
    }
}

/// Queries a flow; tries again if the switch is busy with another request.
fn ask(client: &Client, query: &[(&str, String)]) -> Result<FlowAnswer, ClientError> {
    let mut tries = 1;
    loop {
        match client.get("/api/v1/flow", query) {
            Err(ClientError::Refused {
                is_for_now: true, ..
            }) if tries < TRIES => {
                tries += 1;
                sleep(AGAIN);
            }
            answer => return answer,
        }
    }
}

/// Why there are no figures for a flow now.
fn why_unknown(client: &Client, epoch: Option<u64>) -> String {
    let config = match client.config() {
        Ok(config) => config,
        Err(error) => return error.to_string(),
    };
    let mut text = unknown(&config, epoch).to_owned();
    if config.wires().next().is_some() {
        text += "; and no packet of it arrived by a wire in the epoch that was decoded last";
    }
    text
}

fn unknown(config: &Config, epoch: Option<u64>) -> &'static str {
    let measurement = &config.measurement;
    if epoch.is_none() {
        return "not tracked; the first epoch has not closed yet";
    }
    match (&measurement.flows, &measurement.lds) {
        _ if !measurement.enabled => "not tracked: measurement is off",
        (Some(_), Some(_)) => {
            "not tracked, and no sketch of the last whole epoch has a packet of it: it had none, or \
             none in a usable cell"
        }
        (None, Some(_)) => {
            "not tracked: this switch tracks no flows (measurement.flows); and its sketch has no \
             packet of it"
        }
        (Some(_), None) => {
            "not tracked: it had no recent packets, was not selected (measurement.flows.select), or found \
             no slot; without a sketch (measurement.lds) nothing more is known"
        }
        (None, None) => {
            "this switch tracks no flows and has no sketch; measurement.flows and measurement.lds enable \
             them"
        }
    }
}

/// Takes values by their names in JSON.
fn parser<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    names: impl Into<PossibleValuesParser>,
) -> impl TypedValueParser<Value = T> {
    names
        .into()
        .try_map(|name| serde_json::from_value(Value::String(name)))
}

fn width(text: &str) -> Result<Width, String> {
    let mut widths = Width::ALL.into_iter();
    let width = widths.find(|width| width.seconds().to_string() == text);
    width.ok_or_else(|| "expected 1 (the last minute), 10 (ten minutes) or 60 (an hour)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_has_its_name() {
        for order in FlowOrder::ALL {
            assert_eq!(serde_json::to_value(order).unwrap(), order.label());
        }
    }

    #[test]
    fn why_nothing_is_known_depends_on_what_is_kept() {
        let mut config = Config::demo().unwrap();
        config.measurement.lds = None;
        config.measurement.flows = None;
        let said = |config: &Config| unknown(config, Some(7));
        assert!(said(&config).contains("has no sketch"));
        config.measurement.flows = Some(contract::config::Flows::default());
        assert!(said(&config).contains("found no slot"));
        config.measurement.lds = Some(contract::config::Lds::default());
        assert!(said(&config).contains("no sketch of the last whole epoch has a packet"));
        config.measurement.flows = None;
        assert!(said(&config).contains("this switch tracks no flows"));
        assert!(unknown(&config, None).contains("first epoch"));
        config.measurement.enabled = false;
        assert!(said(&config).contains("measurement is off"));
    }
}
