//! A real Prometheus that scrapes daemons several times an epoch.
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{free_address, skip};
use serde_json::Value;
use testkit::process::Process;

pub struct Prometheus {
    address: SocketAddr,
    _process: Process,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// `None`, with a message, if it is not installed.
    pub fn start(target: SocketAddr) -> Option<Self> {
        Self::start_of(&[target], &[])
    }

    /// A Prometheus that scrapes native histograms.
    pub fn start_native(target: SocketAddr) -> Option<Self> {
        Self::start_of(&[target], &["--enable-feature=native-histograms"])
    }

    /// A Prometheus that scrapes several targets, with its own options.
    pub fn start_of(targets: &[SocketAddr], options: &[&str]) -> Option<Self> {
        let version = Command::new("prometheus").arg("--version").output();
        if !version.is_ok_and(|output| output.status.success()) {
            skip("no prometheus on the path (make test puts it there)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let targets: Vec<_> = targets.iter().map(ToString::to_string).collect();
        let config = format!(
            "global: {{ scrape_interval: 250ms, scrape_timeout: 250ms }}\nscrape_configs:\n\
             - job_name: vernier\n  static_configs: [{{ targets: {targets:?} }}]\n"
        );
        std::fs::write(path("prometheus.yml"), config).unwrap();
        let address = free_address();
        let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut command = Command::new("prometheus");
        command
            .arg(option("config.file", &path("prometheus.yml")))
            .arg(option("storage.tsdb.path", &path("data")))
            .arg(format!("--web.listen-address={address}"))
            .args(options)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(path("log")).unwrap());
        Some(Self {
            address,
            _process: Process::start(&mut command).unwrap(),
            _folder: folder,
        })
    }

    /// The answer to an instant query, once the server answers.
    pub fn query(&self, expression: &str) -> Option<Value> {
        self.query_at(expression, SystemTime::now())
    }

    /// The same, as it was at that time.
    pub fn query_at(&self, expression: &str, time: SystemTime) -> Option<Value> {
        let url = format!("http://{}/api/v1/query", self.address);
        let time_s = time.duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        let query = ureq::get(url).query("query", expression);
        let mut answer = query.query("time", time_s.to_string()).call().ok()?;
        let mut answer: Value = answer.body_mut().read_json().ok()?;
        Some(answer["data"]["result"].take())
    }

    /// Exemplars of all series of a name, by series.
    pub fn exemplars(&self, name: &str) -> Option<Value> {
        let url = format!("http://{}/api/v1/query_exemplars", self.address);
        let query = ureq::get(url).query("query", name);
        let query = query.query("start", "0").query("end", "9999999999");
        let mut answer: Value = query.call().ok()?.body_mut().read_json().ok()?;
        Some(answer["data"].take())
    }
}
