//! Every command of the documents, run: in namespaces of their own, with a switch, a station and a reflector where the documents
//! have them.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{is_root, shared, vernierd};

/// What becomes of a command here.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// It ends with exit code 0.
    Ends,
    /// It runs until it is stopped.
    GoesOn,
    /// It finds a difference, or lacks devices or peers, and ends with another exit code.
    Refuses,
    /// `make -n`: the target exists. CI, or a release, runs it completely.
    Make,
    /// It changes the machine; another test does the same.
    Elsewhere,
}

/// By their first words, the first that fits; [`Way::Ends`] without.
const WAYS: [(&str, Way); 37] = [
    ("make", Way::Make),
    ("cargo build --release", Way::Elsewhere), // By each of these targets.
    ("modprobe vfio-pci", Way::Elsewhere),     // make nic
    ("dpdk-devbind.py", Way::Elsewhere),       // make nic
    ("echo 1024 > /proc/sys/vm/nr_hugepages", Way::Elsewhere), // dpdk-bindings/tests/kernel
    (
        "echo 'vm.nr_hugepages = 1024' > /etc/sysctl.d/90-vernier.conf && sysctl",
        Way::Elsewhere, // The same.
    ),
    ("driverctl", Way::Elsewhere), // make nic binds by dpdk-devbind.py.
    ("udevadm", Way::Elsewhere),   // make deb-test installs the rule.
    ("openssl rand -hex 16 | install", Way::Elsewhere), // make deb-test makes the group.
    ("update-alternatives", Way::Elsewhere), // make deb-test
    ("install -d -o nats", Way::Elsewhere), // The user is that of Debian's package.
    ("dpdk-testpmd", Way::Elsewhere), // switch/plugin/tests
    ("ovs-vsctl", Way::Elsewhere), // benches/lab/src/bench/ovs.rs
    ("systemctl", Way::Elsewhere), // make deb-test
    ("apt install", Way::Elsewhere), // make deb-test
    ("install -g vernier", Way::Elsewhere), // make deb-test
    ("install -m 644 examples/vernierd.service", Way::Elsewhere), // make deb-test
    ("install -D -t /usr/lib/vernier", Way::Elsewhere), // make deb-test
    (
        "install -m 644 packages/vernier/60-vernier.rules",
        Way::Elsewhere,
    ), // make deb-test
    ("vernier plugin-args", Way::Elsewhere), // control/console/tests/cli/plugin_args.rs
    ("vernier topology --ospf", Way::Refuses), // control/fleet/topology/tests/frr.rs
    ("vernier check", Way::Refuses),
    ("vernier config diff", Way::Refuses),
    ("vernierd --check --config edge.json", Way::Refuses),
    (
        "vernierd --check --config examples/bump-in-the-wire.json",
        Way::Refuses,
    ),
    (
        "vernierd --check --config /etc/vernier/vernier.json",
        Way::Refuses,
    ),
    (
        "vernierd --config examples/bump-in-the-wire.json",
        Way::Refuses,
    ),
    ("vernierd --check --config vernier.json", Way::Refuses),
    ("vernierd --config vernier.json", Way::Refuses),
    ("vernierd --live", Way::GoesOn),
    ("vernierd --pcap", Way::GoesOn),
    (
        "vernierd --config examples/everything.json --duration",
        Way::Ends,
    ),
    ("vernierd --config", Way::GoesOn),
    ("vernier top", Way::GoesOn),
    ("vernier ports --watch", Way::GoesOn),
    ("vernier-probe --reflect", Way::GoesOn),
    ("vernier-probe --config", Way::GoesOn),
];

fn way(command: &str) -> Way {
    let found = WAYS.iter().find(|(words, _)| command.starts_with(words));
    found.map_or(Way::Ends, |(_, way)| *way)
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The documents, in a fixed order.
fn documents() -> Vec<PathBuf> {
    let project = project();
    let folder = std::fs::read_dir(project.join("docs")).unwrap();
    let mut documents: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    documents.extend(
        ["README.md", "CONTRIBUTING.md", "examples/README.md"].map(|name| project.join(name)),
    );
    documents.sort();
    documents
}

/// Lines that begin with a prompt in blocks fenced as `console`, without what they print and without remarks.
fn commands(text: &str) -> Vec<String> {
    let mut is_console = false;
    let mut commands = Vec::new();
    let mut lines = text.lines().map(str::trim_start);
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            is_console = kind == "console";
        }
        let Some(command) = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")) else {
            continue;
        };
        if !is_console {
            continue;
        }
        let mut command = command.to_owned();
        while command.ends_with('\\') {
            command.pop();
            command.push_str(lines.next().unwrap());
        }
        let command = command.split("  #").next().unwrap().trim_end();
        commands.push(
            command
                .strip_prefix("target/release/")
                .unwrap_or(command)
                .to_owned(),
        );
    }
    commands
}

/// Files that the documents speak of as the reader's own.
fn make_files(folder: &Path) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let example = |name: &str| project().join("examples").join(name);
    let copy = |from: &Path, to: &str| std::fs::copy(from, folder.join(to)).map(drop).unwrap();
    std::os::unix::fs::symlink(example(""), folder.join("examples")).unwrap();
    let everything = std::fs::read_to_string(example("everything.json")).unwrap();
    write(
        "new.json",
        &everything.replace(r#""top_flows": 20"#, r#""top_flows": 30"#),
    );
    copy(&example("classes.json"), "old.json");
    write(
        "edge.json",
        r#"{ "ports": [{ "name": "a", "device": "net_af_packet0,iface=eht1" }, { "name": "b", "device": "sink" }],
                            "forwarding": { "mode": "patch", "pairs": [["a", "b"]] } }"#,
    );
    write(
        "vernier.json",
        r#"{ "ports": [{ "name": "lan", "device": "net_af_packet0,iface=eth1" }, { "name": "wan", "device": "sink" }],
             "forwarding": { "mode": "patch", "pairs": [["lan", "wan"]] } }"#,
    );
    write(
        "probe.json",
        r#"{ "sessions": [{ "name": "a", "to": "192.0.2.20" }], "http": { "listen": null } }"#,
    );
    write("names.json", "{}");
    // A ring of twelve routers, A to L.
    let name = |n: u8| char::from(b'A' + n % 12);
    let nodes = (0..12).map(|n| format!(r#"{{ "name": "{}" }}"#, name(n)));
    let links = (0..12).map(|n| format!(r#"{{ "from": "{}", "to": "{}" }}"#, name(n), name(n + 1)));
    let [nodes, links] = [nodes.collect::<Vec<_>>(), links.collect()].map(|list| list.join(", "));
    write(
        "network.json",
        &format!(r#"{{ "nodes": [{nodes}], "links": [{links}] }}"#),
    );
}

/// The environment of the commands: interfaces, a private copy of `/etc`, a switch, reflectors and a station.
const SURROUNDINGS: &str = r"
ip link set lo up
ip address add 192.0.2.20/32 dev lo
mkdir -p layers
mount -t tmpfs tmpfs layers
mkdir layers/up layers/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=layers/up,workdir=layers/work /etc
mkdir -p /etc/bash_completion.d /etc/modules-load.d /etc/udev/rules.d
vernierd --config examples/everything.json >switch.log 2>&1 &
vernier-probe --reflect >reflector.log 2>&1 &
vernier-probe --reflect --listen 0.0.0.0:8620 >reflector.log 2>&1 &
examples/station.sh >station.log 2>&1 &
for n in $(seq 300); do
  curl -sf http://127.0.0.1:9464/readyz >/dev/null && grep -q 'edge-2: trunk>lan' station.log && break
  sleep 0.2
done
";

/// A script that runs the commands one after the other; exit codes and what is printed go to files with their numbers.
fn script(commands: &[(Way, String, PathBuf)]) -> String {
    let programs = vernierd().get_program().to_owned();
    let programs = Path::new(&programs).parent().unwrap().display().to_string();
    let mut script =
        format!("export PATH={programs}:$PATH PROGRAMS={programs} TERM=xterm\n{SURROUNDINGS}");
    for (number, (way, command, _)) in commands.iter().enumerate() {
        let seconds = if *way == Way::GoesOn { 2 } else { 60 };
        let mut run = command.replace("URL", "http://127.0.0.1:9465");
        run = match way {
            Way::Elsewhere => continue,
            Way::Make => format!("make -C {} -n {}", project().display(), &run[5..]),
            _ if run.contains(" top") || run.contains("--live") => {
                format!("timeout {seconds} script -qec {} /dev/null", quoted(&run))
            }
            // head(1) ends before what it reads from.
            _ if run.ends_with("| head") => format!("bash -c {}", quoted(&run)),
            _ => format!("timeout {seconds} bash -o pipefail -c {}", quoted(&run)),
        };
        if command.starts_with("vernierd") || *way == Way::GoesOn && command.contains("--reflect") {
            // Its port is that of the running one.
            run = format!("unshare --net {run}");
        }
        let _ = writeln!(
            script,
            "{run} >printed.{number} 2>&1 </dev/null; echo $? >code.{number}"
        );
    }
    script + "kill $(jobs -p)\nwait\n"
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Whether a command ended as expected, by its exit code and output.
fn is_fine(way: Way, code: i32, printed: &str) -> bool {
    // timeout(1) reports that it had to stop a command.
    const STOPPED: i32 = 124;
    match way {
        Way::Ends | Way::Make => code == 0,
        Way::GoesOn => code == STOPPED,
        Way::Refuses => ![0, STOPPED].contains(&code) && !printed.contains("Usage: "),
        Way::Elsewhere => true,
    }
}

#[test]
fn every_command_of_the_documents_runs() {
    let (Some(topologies), Some(traces)) = (shared("topologies"), shared("traces")) else {
        return;
    };
    if !is_root("a network and mounts of its own") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    make_files(folder.path());
    std::os::unix::fs::symlink(traces.join("mix-dev-60s.pcap"), path("capture.pcap")).unwrap();
    let weights = "rocketfuel/1239.weights.intra";
    std::fs::copy(topologies.join(weights), path("1239.weights.intra")).unwrap();
    let unpacked = Command::new("tar")
        .args([
            "--extract",
            "--gzip",
            "--strip-components=1",
            "--wildcards",
            "*/Geant2012.gml",
            "--file",
        ])
        .arg(topologies.join("topology-zoo-gml.tar.gz"))
        .current_dir(folder.path())
        .status();
    assert!(unpacked.unwrap().success());

    let mut found = Vec::new();
    for document in documents() {
        let commands = commands(&std::fs::read_to_string(&document).unwrap());
        found.extend(
            commands
                .into_iter()
                .map(|command| (way(&command), command, document.clone())),
        );
    }
    assert!(found.len() > 80, "{}", found.len());
    std::fs::write(path("run.sh"), script(&found)).unwrap();
    let ran = Command::new("unshare")
        .args(["--net", "--mount", "bash", "run.sh"])
        .current_dir(folder.path())
        .status();
    assert!(ran.unwrap().success());

    let mut wrong = String::new();
    for (number, (way, command, document)) in found.iter().enumerate() {
        let read = |name: &str| std::fs::read_to_string(path(&format!("{name}.{number}")));
        let (Ok(code), Ok(printed)) = (read("code"), read("printed")) else {
            assert!(*way == Way::Elsewhere, "{command} did not run");
            continue;
        };
        let code = code.trim().parse().unwrap();
        if !is_fine(*way, code, &printed) {
            let document = document.file_name().unwrap().display();
            let _ = writeln!(
                wrong,
                "{document}: {command}\nexit code {code}, {way:?}: {printed}\n"
            );
        }
    }
    let log = std::fs::read_to_string(path("station.log")).unwrap();
    assert!(wrong.is_empty(), "{wrong}\nthe station: {log}");
}
