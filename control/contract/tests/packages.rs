//! Checks, from cargo's metadata and the sources, which package may depend on which, and that no two folders import
//! each other. Prints the resulting table (`cargo nextest run -p contract --test packages --no-capture`).
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lints treat as ordinary functions"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use contract::counters::declarations;
use contract::metric::Declaration;
use serde_json::Value;

/// Our own packages that each package of the product may have in its manifest. Benches and fuzz targets may have any.
const ALLOWED: &[(&str, &[&str])] = &[
    ("dpdk-sys", &[]),
    ("vhost", &[]),
    ("dpdk-bindings", &["dpdk-sys"]),
    ("measure", &[]),
    ("wire", &["measure"]),
    ("contract", &["measure", "wire"]),
    ("records", &["contract", "measure"]),
    ("control", &["contract", "measure", "records", "wire"]),
    (
        "api",
        &["contract", "control", "measure", "records", "wire"],
    ),
    ("report", &["contract", "control", "records"]),
    ("ipfix", &["contract", "control", "measure", "records"]),
    ("topology", &[]),
    (
        "probe",
        &["api", "contract", "measure", "report", "topology"],
    ),
    ("locate", &["measure", "records"]),
    (
        "station",
        &[
            "api", "contract", "locate", "measure", "records", "report", "topology",
        ],
    ),
    ("console", &["contract", "measure", "records", "topology"]),
    ("switch", &["contract", "dpdk-bindings", "measure", "wire"]),
    (
        "daemon",
        &[
            "api",
            "console",
            "contract",
            "control",
            "dpdk-bindings",
            "ipfix",
            "measure",
            "records",
            "report",
            "switch",
        ],
    ),
    (
        "plugin",
        &[
            "api",
            "contract",
            "control",
            "dpdk-bindings",
            "ipfix",
            "measure",
            "records",
            "report",
            "switch",
        ],
    ),
    (
        "simulate",
        &[
            "contract", "control", "measure", "records", "report", "station", "switch", "wire",
        ],
    ),
];

/// Crates that few packages of the product may link, directly or not, and these packages.
const FENCED: &[(&str, &[&str])] = &[
    (
        "axum",
        &["api", "daemon", "plugin", "probe", "simulate", "station"],
    ),
    (
        "hyper",
        &["api", "daemon", "plugin", "probe", "simulate", "station"],
    ),
    (
        "metrics-exporter-prometheus",
        &["api", "daemon", "plugin", "probe", "simulate", "station"],
    ),
    (
        "async-nats",
        &["report", "daemon", "plugin", "probe", "simulate", "station"],
    ),
    (
        "clap",
        &["console", "daemon", "probe", "simulate", "station"],
    ),
    ("ratatui", &["console", "daemon"]),
    ("crossterm", &["console", "daemon"]),
];

/// Words that one folder's sources alone name, of all sources under another folder: tags and keys of frames belong to
/// the state machines of the wire, and no algorithm names the codec.
const KEPT_TO: &[(&str, &str, &[&str])] =
    &[("measure", "measure/wire", &["sip128", "zeroize", "codec"])];

type Graph = BTreeMap<String, BTreeSet<String>>;

fn metadata() -> Value {
    // Packages of other platforms may be missing.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", &platform])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

/// Ids of the workspace's packages by name.
fn members(metadata: &Value) -> BTreeMap<String, String> {
    let ids = array(&metadata["workspace_members"]).iter().map(text);
    let ids: BTreeSet<_> = ids.collect();
    let packages = array(&metadata["packages"]).iter();
    packages
        .map(|package| (text(&package["name"]), text(&package["id"])))
        .filter(|(_, id)| ids.contains(id))
        .collect()
}

/// Names of packages by id, and what each links: dependencies of tests and build scripts are left out.
fn links(metadata: &Value) -> (BTreeMap<String, String>, Graph) {
    let names: BTreeMap<_, _> = array(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    let mut graph = Graph::new();
    for node in array(&metadata["resolve"]["nodes"]) {
        let linked = array(&node["deps"]).iter().filter(|dependency| {
            let mut kinds = array(&dependency["dep_kinds"]).iter();
            kinds.any(|kind| kind["kind"].is_null())
        });
        let linked = linked.map(|dependency| text(&dependency["pkg"]));
        graph.insert(text(&node["id"]), linked.collect());
    }
    (names, graph)
}

fn reached(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(next) = open.pop() {
        for other in graph.get(&next).into_iter().flatten() {
            if found.insert(other.clone()) {
                open.push(other.clone());
            }
        }
    }
    found
}

#[test]
fn packages_depend_one_way() {
    let metadata = metadata();
    let (names, graph) = links(&metadata);
    let ours = members(&metadata);
    println!("{:<14} depends on", "package");
    for &(package, allowed) in ALLOWED {
        let id = &ours[package];
        let direct = graph[id].iter().map(|id| &names[id]);
        let direct: BTreeSet<&str> = direct
            .filter(|name| ours.contains_key(*name))
            .map(String::as_str)
            .collect();
        println!(
            "{package:<14} {}",
            direct.iter().copied().collect::<Vec<_>>().join(", ")
        );
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        let more: Vec<_> = direct.difference(&allowed).collect();
        assert!(more.is_empty(), "{package} may not depend on {more:?}");
        let linked: BTreeSet<_> = reached(&graph, id).iter().map(|id| &names[id]).collect();
        for &(fenced, may) in FENCED {
            assert!(
                !linked.contains(&fenced.to_owned()) || may.contains(&package),
                "{package} links {fenced}, which only {may:?} may"
            );
        }
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// Names that follow `crate::`, as paths or in braces.
fn imported(line: &str) -> Vec<&str> {
    let word = |text: &'_ str| text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    let mut found = Vec::new();
    for (at, _) in line.match_indices("crate::") {
        let rest = &line[at + "crate::".len()..];
        let names = match rest.strip_prefix('{') {
            Some(list) => list.trim_end_matches("};").split(", ").collect(),
            None => vec![rest],
        };
        found.extend(
            names
                .iter()
                .map(|name| &name[..word(name).unwrap_or(name.len())]),
        );
    }
    found
}

/// Which of a package's top folders (or files) import which.
fn modules(src: &Path) -> Graph {
    let mut files = Vec::new();
    sources(src, &mut files);
    let mut graph = Graph::new();
    for file in files {
        let top = file.strip_prefix(src).unwrap().components().next().unwrap();
        let top = top.as_os_str().to_string_lossy();
        let top = top.trim_end_matches(".rs").to_owned();
        let code = fs::read_to_string(&file).unwrap();
        let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lines = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let names = lines.flat_map(imported).filter(|name| *name != top);
        let names: Vec<_> = names.map(str::to_owned).collect();
        graph.entry(top).or_default().extend(names);
    }
    graph
}

#[test]
fn cryptography_stands_with_the_wire() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for &(under, folder, words) in KEPT_TO {
        let mut files = Vec::new();
        sources(&root.join(under), &mut files);
        for word in words {
            let names = |file: &&PathBuf| fs::read_to_string(file).unwrap().contains(word);
            let (inside, outside): (Vec<_>, Vec<_>) =
                (files.iter().filter(names)).partition(|file| file.starts_with(root.join(folder)));
            assert!(
                !inside.is_empty(),
                "{folder}: nothing names {word} any more"
            );
            assert!(
                outside.is_empty(),
                "only {folder} may name {word}: {outside:?}"
            );
        }
    }
}

/// Counters declared in `counters.rs` and `fdb.rs` are listed, and counted in the declared places.
#[test]
fn counters_are_counted_where_they_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in ["counters.rs", "fdb.rs"] {
        let code = fs::read_to_string(root.join("control/contract/src").join(file)).unwrap();
        for name in code.split('"').filter(|word| word.starts_with("vernier_")) {
            let is_listed = declarations().iter().any(|declared| declared.name == name);
            assert!(is_listed, "{name} is not among the declarations");
        }
    }
    for declared in declarations() {
        let (place, counted_in) = match declared.counted_in {
            "contract" => ("control/contract/src", ""),
            "plugin" => ("switch/plugin/src", ""),
            module => ("switch/src", module),
        };
        let mut files = Vec::new();
        sources(&root.join(place), &mut files);
        let module = root.join(place).join(counted_in);
        files.retain(|file| file.starts_with(&module) || *file == module.with_extension("rs"));
        let field = declared.field.trim_start_matches("replica_");
        let counts = |file: &PathBuf| {
            let code = fs::read_to_string(file).unwrap();
            code.contains(&format!(".{field}")) || code.contains(&format!("{field}:"))
        };
        let Declaration { name, .. } = declared;
        assert!(
            files.iter().any(counts),
            "{name} is not counted in {place}/{counted_in} any more: say in counters.rs where it is"
        );
    }
}

/// Groups in which everyone reaches everyone.
fn circles(graph: &Graph) -> BTreeSet<Vec<String>> {
    let reaches: BTreeMap<_, _> = graph
        .keys()
        .map(|from| (from, reached(graph, from)))
        .collect();
    let circle = |from: &String| {
        let mutual = |to: &&String| reaches[from].contains(*to) && reaches[*to].contains(from);
        graph.keys().filter(mutual).cloned().collect::<Vec<_>>()
    };
    let circles = graph.keys().map(circle);
    circles.filter(|circle| circle.len() > 1).collect()
}

#[test]
fn folders_import_one_way() {
    let metadata = metadata();
    let ours = members(&metadata);
    let mut found = Vec::new();
    for package in array(&metadata["packages"]) {
        let name = text(&package["name"]);
        let is_ours = ours.get(&name) == Some(&text(&package["id"]));
        if !is_ours || !ALLOWED.iter().any(|(allowed, _)| *allowed == name) {
            continue;
        }
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let circles = circles(&modules(&manifest.with_file_name("src")));
        found.extend(circles.into_iter().map(|circle| (name.clone(), circle)));
    }
    assert_eq!(found, [], "import each other");
}
