//! Questions to a station, which joins the reports of many switches: paths, segments, and what is slow, since when, and where.

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Form, client};
use crate::view;
use records::station::{Blame as Fleet, FlowPath, PathBlames};
use records::station::{Missing, Paths, StationSegments};

/// Where a station listens by default.
const DEFAULT_URL: &str = "http://127.0.0.1:9465";

/// Address and token of a station.
#[derive(Debug, Clone, Default, Args)]
pub struct Station {
    /// The HTTP address of a station, for `path`, `segments`, `missing` and `blame`
    #[arg(long, value_name = "URL", env = "VERNIER_STATION", global = true)]
    station: Option<String>,
    /// File with the station's token, where it needs one
    #[arg(
        long,
        value_name = "FILE",
        env = "VERNIER_STATION_TOKEN_FILE",
        global = true
    )]
    station_token_file: Option<std::path::PathBuf>,
}

/// `vernier path`.
#[derive(Debug, Args)]
pub struct Path {
    /// A switch, `edge-1`, or its port, `edge-1:lan`
    from: String,
    /// Likewise
    to: String,
    /// Only packets of this class; else all joined
    #[arg(long)]
    class: Option<String>,
    #[command(flatten)]
    form: Form,
}

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

impl Station {
    /// Whether one was named.
    pub fn is_given(&self) -> bool {
        self.station.is_some()
    }

    /// Prints what it answers at a path, as JSON or as a table.
    ///
    /// # Errors
    /// As of the client.
    pub fn show<T: DeserializeOwned + Serialize>(
        &self,
        path: &str,
        query: &[(&str, String)],
        form: Form,
        table: fn(&T) -> String,
    ) -> anyhow::Result<u8> {
        let url = self.station.as_deref().unwrap_or(DEFAULT_URL);
        let client = client(url, self.station_token_file.as_deref())?;
        let answer: T = client.of_station().get(path, query)?;
        form.show(&answer, table)
    }

    /// `vernier path`.
    pub fn path(&self, asked: &Path) -> anyhow::Result<u8> {
        let mut query = vec![("from", asked.from.clone()), ("to", asked.to.clone())];
        query.extend(asked.class.clone().map(|class| ("class", class)));
        self.show::<Paths>("/api/v1/path", &query, asked.form, view::station::paths)
    }

    /// `vernier segments` of a station.
    pub fn segments(&self, form: Form) -> anyhow::Result<u8> {
        let all = [("limit", "100000".to_owned())];
        self.show::<StationSegments>("/api/v1/segments", &all, form, view::station::segments)
    }

    /// `vernier missing`.
    pub fn missing(&self, form: Form) -> anyhow::Result<u8> {
        self.show::<Missing>("/api/v1/missing", &[], form, view::station::missing)
    }

    /// `vernier blame`.
    pub fn blame(&self, asked: &Blame) -> anyhow::Result<u8> {
        let form = asked.form;
        if let Some(flow) = &asked.flow {
            let query = [("flow", flow.clone())];
            return self.show::<FlowPath>("/api/v1/flow", &query, form, view::station::flow_path);
        }
        let class = asked.class.clone().map(|class| ("class", class));
        if let (Some(from), Some(to)) = (&asked.from, &asked.to) {
            let mut query = vec![("from", from.clone()), ("to", to.clone())];
            query.extend(class);
            return self.show::<PathBlames>(
                "/api/v1/blame",
                &query,
                form,
                view::station::path_blames,
            );
        }
        let mut query = vec![("limit", asked.limit.to_string())];
        query.extend(class);
        self.show::<Fleet>("/api/v1/blame", &query, form, view::station::blame)
    }
}
