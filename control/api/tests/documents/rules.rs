//! Checks dashboards and rules for Prometheus: they use only existing metrics and labels, and `promtool` accepts them.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use super::metrics::reference;
use super::project;
use super::promql::asked;

/// A file of rules.
#[derive(Debug, Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
struct Rule {
    #[serde(default)]
    record: Option<String>,
    #[serde(default)]
    alert: Option<String>,
    expr: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Their address: from an external label of Prometheus, or the file that the package installs.
const RUNBOOKS: &str =
    r#"{{ or $externalLabels.vernier_runbooks "file:///usr/share/doc/vernier/runbooks.md" }}"#;

/// Labels that Prometheus adds to all scraped series, and its own series with their labels.
const SCRAPED: [&str; 2] = ["instance", "job"];
const OWN: [(&str, &[&str]); 2] = [
    ("up", &[]),
    ("ALERTS", &["alertname", "alertstate", "severity"]),
];

fn rules(name: &str) -> Vec<Rule> {
    let text = std::fs::read_to_string(project("dashboards").join(name)).unwrap();
    let rules: Rules = serde_saphyr::from_str(&text).unwrap();
    let groups = rules.groups.into_iter();
    groups.flat_map(|group| group.rules).collect()
}

/// The dashboards, by name.
fn dashboards() -> Vec<(&'static str, Value)> {
    let read = |name: &'static str| {
        let text = std::fs::read_to_string(project(&format!("dashboards/{name}.json"))).unwrap();
        (name, serde_json::from_str(&text).unwrap())
    };
    ["fleet", "switch", "flows"].map(read).into()
}

/// Panels, those inside of closed rows too.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let with_inner =
        panels_of(dashboard).flat_map(|panel| iter::once(panel).chain(panels_of(panel)));
    with_inner.collect()
}

fn panels_of(parent: &Value) -> impl Iterator<Item = &Value> {
    parent["panels"].as_array().into_iter().flatten()
}

/// Expressions of all dashboards as Prometheus gets them, by the panel's title.
fn expressions() -> Vec<(String, String)> {
    let dashboards = dashboards();
    let all = dashboards
        .iter()
        .flat_map(|(_, dashboard)| expressions_of(dashboard));
    all.collect()
}

fn expressions_of(dashboard: &Value) -> Vec<(String, String)> {
    let of_panels = panels(dashboard).into_iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        let title = panel["title"].as_str().unwrap().to_owned();
        targets
            .into_iter()
            .map(move |target| (title.clone(), target["expr"].as_str().unwrap().to_owned()))
    });
    let of_variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let of_variables = of_variables.filter_map(|variable| {
        let name = variable["name"].as_str()?.to_owned();
        let query = variable["query"]["query"].as_str()?;
        // `label_values(series, label)` is Grafana's.
        let (series, label) = query
            .strip_prefix("label_values(")?
            .strip_suffix(')')?
            .rsplit_once(", ")?;
        Some((name, format!("sum by ({label}) ({series})")))
    });
    let all = of_panels.chain(of_variables).map(|(title, expression)| {
        let expression = expression
            .replace("$__rate_interval", "1m")
            .replace("$objective", "0.001048576");
        (title, expression)
    });
    all.collect()
}

/// Metrics and labels in an expression that do not exist.
fn unknown(expression: &str, known: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let asked = asked(expression);
    let mut unknown = Vec::new();
    let mut labels: BTreeSet<&str> = SCRAPED.into();
    for selector in &asked.selectors {
        let Some(its) = known.get(&selector.name) else {
            unknown.push(selector.name.clone());
            continue;
        };
        labels.extend(its.iter().map(String::as_str));
        let named = selector.labels.iter();
        let others =
            named.filter(|label| !its.contains(*label) && !SCRAPED.contains(&label.as_str()));
        unknown.extend(others.map(|label| format!("{}{{{label}}}", selector.name)));
    }
    let grouped = asked.labels.iter();
    unknown.extend(
        grouped
            .filter(|label| !labels.contains(label.as_str()))
            .cloned(),
    );
    unknown
}

/// The metrics of a station, with their labels, from the table of its page.
fn of_stations() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(project("docs/station.md")).unwrap();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| `vernier_station_"));
    let quoted = |cell: &str| -> Vec<String> {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    };
    let row = |line: &str| {
        let mut cells = line.split('|').skip(1);
        let name = quoted(cells.next().unwrap()).remove(0);
        (name, quoted(cells.next().unwrap()).into_iter().collect())
    };
    rows.map(row).collect()
}

/// The metrics of the references, and series recorded from them.
fn known() -> BTreeMap<String, BTreeSet<String>> {
    let mut known: BTreeMap<_, _> = reference().into_iter().collect();
    known.extend(OWN.map(|(name, labels)| {
        let labels = labels.iter().map(ToString::to_string);
        (name.to_owned(), labels.collect())
    }));
    known.extend(of_stations());
    for rule in rules("recording.yml") {
        let labels = asked(&rule.expr).selectors;
        let labels = labels
            .iter()
            .filter_map(|selector| known.get(&selector.name));
        let labels = labels.flatten().cloned().collect();
        known.insert(rule.record.unwrap(), labels);
    }
    known
}

#[test]
fn rules_and_dashboards_ask_for_what_there_is() {
    let known = known();
    assert!(known.len() > 80, "{}", known.len());
    let rules = rules("recording.yml")
        .into_iter()
        .chain(rules("alerts.yml"));
    let rules = rules.map(|rule| {
        let name = rule.alert.or(rule.record).unwrap();
        (name, rule.expr)
    });
    let mut wrong = Vec::new();
    for (name, expression) in rules.chain(expressions()) {
        assert!(
            !asked(&expression).selectors.is_empty(),
            "{name}: {expression}"
        );
        wrong.extend(
            unknown(&expression, &known)
                .into_iter()
                .map(|what| format!("{name}: {what}")),
        );
    }
    assert!(
        wrong.is_empty(),
        "not in docs/metrics.md:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn what_is_not_there_is_found() {
    let known = known();
    assert_eq!(
        unknown(
            "rate(vernier_port_received_packets_total{port=\"a\"}[1m])",
            &known
        ),
        [""; 0]
    );
    assert_eq!(unknown("vernier_nothing", &known), ["vernier_nothing"]);
    assert_eq!(
        unknown("sum by (queue) (vernier_port_link_up{prot=\"a\"})", &known),
        ["vernier_port_link_up{prot}", "queue"]
    );
}

/// Metrics and keys named in the text of an alert exist, too.
#[test]
fn alerts_say_what_to_do_in_names_that_exist() {
    let known = known();
    let runbooks = std::fs::read_to_string(project("docs/runbooks.md")).unwrap();
    for rule in rules("alerts.yml") {
        let alert = rule.alert.unwrap();
        let (summary, action) = (&rule.annotations["summary"], &rule.annotations["action"]);
        assert!(summary.len() > 10 && action.len() > 40, "{alert}");
        assert!(
            runbooks.contains(&format!("\n### {alert}\n")),
            "{alert}: no runbook"
        );
        let url = format!("{RUNBOOKS}#{}", alert.to_lowercase());
        assert_eq!(rule.annotations["runbook_url"], url);
        let quoted = action.split('`').skip(1).step_by(2);
        for name in quoted.filter(|name| name.starts_with("vernier_")) {
            let is_there = known.keys().any(|series| series.starts_with(name));
            assert!(is_there, "{alert}: {name}");
        }
    }
}

/// Runs `promtool`; `None` if it is missing, which CI does not accept.
fn promtool(arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new("promtool").args(arguments).output() else {
        assert!(
            std::env::var_os("CI").is_none(),
            "promtool is missing (Debian: prometheus)"
        );
        println!("skipped: there is no promtool (Debian package prometheus)");
        return None;
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    Some(format!("{}\n{said}", output.status))
}

#[test]
fn promtool_accepts_the_rules_and_their_tests_hold() {
    let file = |path: &str| project(path).display().to_string();
    let (alerts, recording, tests) = (
        file("dashboards/alerts.yml"),
        file("dashboards/recording.yml"),
        file("control/api/tests/documents/alerts_test.yml"),
    );
    for arguments in [
        &["check", "rules", &alerts, &recording][..],
        &["test", "rules", &tests],
    ] {
        if let Some(said) = promtool(arguments) {
            assert!(said.starts_with("exit status: 0\n"), "{said}");
        }
    }
    let tried = std::fs::read_to_string(&tests).unwrap();
    let alerts = rules("alerts.yml")
        .into_iter()
        .filter_map(|rule| rule.alert);
    let tried = alerts.filter(|alert| tried.contains(alert)).count();
    assert!(tried >= 16, "{tried}");
}

#[test]
fn promtool_accepts_every_expression_of_the_dashboards() {
    let expressions = expressions();
    assert!(expressions.len() > 40, "{}", expressions.len());
    let rules: Vec<_> = (expressions.iter().enumerate())
        .map(|(number, (_, expr))| serde_json::json!({ "record": format!("panel:{number}"), "expr": expr }))
        .collect();
    // Whatever is JSON is YAML.
    let file = tempfile::NamedTempFile::new().unwrap();
    let groups = serde_json::json!({ "groups": [{ "name": "dashboards", "rules": rules }] });
    std::fs::write(&file, groups.to_string()).unwrap();
    if let Some(said) = promtool(&["check", "rules", &file.path().display().to_string()]) {
        assert!(
            said.starts_with("exit status: 0\n"),
            "{said}\n{expressions:#?}"
        );
    }
}

/// An undefined variable is used literally, and gives no result.
#[test]
fn variables_are_defined_and_used() {
    for (name, dashboard) in dashboards() {
        let defined = dashboard["templating"]["list"].as_array().unwrap().iter();
        let defined: BTreeSet<_> = defined
            .map(|variable| variable["name"].as_str().unwrap())
            .collect();
        let mut used = BTreeSet::new();
        for panel in panels(&dashboard) {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let pieces = target["expr"].as_str().unwrap().split('$').skip(1);
                used.extend(pieces.map(|piece| {
                    let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    &piece[..end.unwrap_or(piece.len())]
                }));
            }
        }
        used.insert("source");
        used.remove("__rate_interval");
        assert_eq!(used, defined, "{name}");
    }
}

/// Links lead to dashboards and variables that exist, and to the page.
#[test]
fn dashboards_are_linked_to_each_other_and_to_the_page() {
    let dashboards = dashboards();
    let variables = |uid: &str| -> BTreeSet<String> {
        let is_it = |(_, dashboard): &&(&str, Value)| dashboard["uid"] == uid;
        let (_, dashboard) = dashboards.iter().find(is_it).unwrap();
        let list = dashboard["templating"]["list"].as_array().unwrap().iter();
        list.map(|variable| variable["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut led = BTreeSet::new();
    for (name, dashboard) in &dashboards {
        assert_eq!(dashboard["tags"][0], "vernier");
        assert_eq!(dashboard["links"][0]["tags"][0], "vernier", "{name}");
        let text = dashboard.to_string();
        for url in text.split("\"url\":\"").skip(1) {
            let url = url.split('"').next().unwrap();
            if let Some((uid, arguments)) =
                url.strip_prefix("/d/").and_then(|url| url.split_once('?'))
            {
                let there = variables(uid);
                let asked = arguments.split("&var-").skip(1);
                let asked = asked.map(|argument| argument.split('=').next().unwrap());
                let unknown: Vec<_> = asked.filter(|name| !there.contains(*name)).collect();
                assert!(unknown.is_empty(), "{name}: {uid} has no {unknown:?}");
                led.insert((*name, uid.to_owned()));
            } else {
                assert!(
                    url.starts_with("http://${") && url.ends_with("instance}/ui"),
                    "{name}: {url}"
                );
                led.insert((*name, "page".to_owned()));
            }
        }
    }
    let expected = [
        ("fleet", "page"),
        ("fleet", "vernier-flows"),
        ("fleet", "vernier-switch"),
        ("flows", "page"),
        ("flows", "vernier-flows"),
        ("flows", "vernier-switch"),
        ("switch", "page"),
        ("switch", "vernier-flows"),
        ("switch", "vernier-switch"),
    ];
    assert_eq!(led, expected.map(|(from, to)| (from, to.to_owned())).into());
}

#[test]
fn panels_have_names_places_and_the_chosen_source() {
    for (_, dashboard) in dashboards() {
        let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for panel in panels(&dashboard) {
            let title = panel["title"].as_str().unwrap();
            assert!(
                ids.insert(panel["id"].as_u64().unwrap()),
                "{title}: its id is another's"
            );
            let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(place("x") + place("w") <= 24, "{title} is too wide");
            for x in place("x")..place("x") + place("w") {
                for y in place("y")..place("y") + place("h") {
                    assert!(taken.insert((x, y)), "{title} covers another");
                }
            }
            if panel["type"] != "row" {
                assert_eq!(panel["datasource"]["uid"], "${source}", "{title}");
                let description = panel["description"].as_str();
                assert!(description.is_some_and(|words| words.len() > 20), "{title}");
                let unit = &panel["fieldConfig"]["defaults"]["unit"];
                assert!(unit.is_string(), "{title} has no unit");
            }
        }
    }
}
