//! Questions to a station, which joins the reports of many switches: paths, segments, and what is slow, since when, and where.

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::flows::{PART_MAX, is_part};
use super::{Globals, Question};
use crate::view::{self, Page};
use records::station::{Blame as Fleet, FlowPath, PathBlames};
use records::station::{Missing, Paths, StationFlows, StationSegments};

/// `vernier path`.
#[derive(Debug, Args)]
pub struct Path {
    /// A switch, `edge-1`, or its port, `edge-1:lan`
    from: String,
    /// Likewise
    to: String,
    /// Only packets of this class [default: all classes joined]
    #[arg(long)]
    class: Option<String>,
    #[command(flatten)]
    question: Question,
}

/// `vernier blame`.
#[derive(Debug, Args)]
pub struct Blame {
    /// A switch, `edge-1`, or its port, `edge-1:lan` [default: everything that has risen in the fleet]
    #[arg(requires = "to")]
    from: Option<String>,
    /// Likewise
    to: Option<String>,
    /// Only packets of this class
    #[arg(long)]
    class: Option<String>,
    /// A flow, hop by hop: `10.0.0.1:80>10.0.0.2:9/udp`; for a part, such as an address, the flows that match are listed
    #[arg(long, conflicts_with_all = ["from", "to", "class", "limit"])]
    flow: Option<String>,
    /// Maximum number of risen segments of the fleet
    #[arg(long, default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    question: Question,
}

/// Prints the station's answer at a path.
fn show<T: DeserializeOwned + Serialize>(
    globals: &Globals,
    question: Question,
    (path, query): (&str, &[(&str, String)]),
    keys: &[&str],
    view: fn(&mut Page, &T),
) -> anyhow::Result<u8> {
    let station = globals.station()?;
    let ask = || Ok(station.get(path, query)?);
    question.show(globals.color, keys, ask, view)
}

/// `vernier path`.
pub(super) fn path(globals: &Globals, asked: &Path) -> anyhow::Result<u8> {
    let mut query = vec![("from", asked.from.clone()), ("to", asked.to.clone())];
    query.extend(asked.class.clone().map(|class| ("class", class)));
    let (asks, keys) = (("/api/v1/path", &query[..]), ["paths", "chain"]);
    show::<Paths>(globals, asked.question, asks, &keys, view::station::paths)
}

/// `vernier segments` of a station.
pub(super) fn segments(globals: &Globals, question: Question) -> anyhow::Result<u8> {
    let all = [("limit", "100000".to_owned())];
    let (asks, keys) = (("/api/v1/segments", &all[..]), ["segments"]);
    show::<StationSegments>(globals, question, asks, &keys, view::station::segments)
}

/// `vernier missing`.
pub(super) fn missing(globals: &Globals, question: Question) -> anyhow::Result<u8> {
    let (asks, keys) = (("/api/v1/missing", &[][..]), ["switches"]);
    show::<Missing>(globals, question, asks, &keys, view::station::missing)
}

/// `vernier blame`.
pub(super) fn blame(globals: &Globals, asked: &Blame) -> anyhow::Result<u8> {
    let question = asked.question;
    if let Some(flow) = &asked.flow {
        return flow_hops(globals, question, flow);
    }
    let class = asked.class.clone().map(|class| ("class", class));
    if let (Some(from), Some(to)) = (&asked.from, &asked.to) {
        let mut query = vec![("from", from.clone()), ("to", to.clone())];
        query.extend(class);
        let (asks, keys) = (("/api/v1/blame", &query[..]), ["paths", "chain"]);
        return show::<PathBlames>(globals, question, asks, &keys, view::station::path_blames);
    }
    let mut query = vec![("limit", asked.limit.to_string())];
    query.extend(class);
    let asks = ("/api/v1/blame", &query[..]);
    show::<Fleet>(globals, question, asks, &["risen"], view::station::blame)
}

/// `vernier blame --flow`.
fn flow_hops(globals: &Globals, question: Question, flow: &str) -> anyhow::Result<u8> {
    let mut flow = flow.to_owned();
    if is_part(&flow) {
        let query = [("contains", flow), ("limit", PART_MAX.to_string())];
        let asks = ("/api/v1/flows", &query[..]);
        let mut found: StationFlows = globals.station()?.get(asks.0, asks.1)?;
        if found.flows.len() != 1 {
            return show(globals, question, asks, &["flows"], view::station::flows);
        }
        flow = found.flows.remove(0).flow;
    }
    let query = [("flow", flow)];
    let asks = ("/api/v1/flow", &query[..]);
    show::<FlowPath>(globals, question, asks, &["hops"], view::station::flow_path)
}
