//! Questions to a station: what is slow, since when, and where.

use clap::Args;
use records::station::{Blame as Fleet, FlowPath, PathBlames};

use super::Form;
use super::station::Station;
use crate::view;

/// `vernier blame`.
#[derive(Debug, Args)]
pub struct Blame {
    /// A switch, `edge-1`, or its port, `edge-1:lan`; none: all that is risen in the fleet
    #[arg(requires = "to")]
    from: Option<String>,
    /// Likewise
    to: Option<String>,
    /// Only packets of this class
    #[arg(long)]
    class: Option<String>,
    /// A flow, hop by hop: `10.0.0.1:80>10.0.0.2:9/udp`
    #[arg(long, conflicts_with_all = ["from", "to", "class", "limit"])]
    flow: Option<String>,
    /// Most risen segments of the fleet
    #[arg(long, default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    form: Form,
}

/// `vernier blame`.
pub fn run(station: &Station, asked: &Blame) -> anyhow::Result<u8> {
    let Blame { form, .. } = *asked;
    if let Some(flow) = &asked.flow {
        let query = [("flow", flow.clone())];
        return station.show::<FlowPath>("/api/v1/flow", &query, form, view::flow_path);
    }
    let class = asked.class.clone().map(|class| ("class", class));
    if let (Some(from), Some(to)) = (&asked.from, &asked.to) {
        let mut query = vec![("from", from.clone()), ("to", to.clone())];
        query.extend(class);
        return station.show::<PathBlames>("/api/v1/blame", &query, form, view::path_blames);
    }
    let mut query = vec![("limit", asked.limit.to_string())];
    query.extend(class);
    station.show::<Fleet>("/api/v1/blame", &query, form, view::blame)
}
