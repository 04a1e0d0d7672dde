//! The plugin's arguments in a real database of Open vSwitch: what `vernier plugin-args --apply` adds, the script of the
//! package takes back, and nothing else.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::{run, said};

/// Where Open vSwitch is: installed, or unpacked beside the sources.
fn root() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools");
    let mut roots = [PathBuf::from("/"), tools.canonicalize().unwrap_or(tools)].into_iter();
    let found = roots.find(|root| root.join("usr/sbin/ovsdb-server").exists());
    if found.is_none() {
        testkit::skip("Open vSwitch is not here; make setup-test unpacks it");
    }
    found
}

/// A database with its server, and a plugin and drivers to name.
struct Scene {
    root: PathBuf,
    folder: tempfile::TempDir,
    server: Option<Child>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Scene {
    fn new() -> Option<Self> {
        let mut scene = Self {
            root: root()?,
            folder: tempfile::tempdir().unwrap(),
            server: None,
        };
        fs::create_dir(scene.path("pmds-23.0")).unwrap();
        fs::write(scene.path("librte_vernier.so"), "").unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages/plugin/take-back");
        fs::copy(script, scene.path("take-back")).unwrap();
        let schema = scene.root.join("usr/share/openvswitch/vswitch.ovsschema");
        let mut create = scene.command("usr/bin/ovsdb-tool");
        create.args(["create", &scene.path("conf.db")]).arg(schema);
        assert!(create.status().unwrap().success());
        scene.start();
        scene.vsctl(&["init"]);
        Some(scene)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn socket(&self) -> String {
        format!("unix:{}", self.path("db.sock"))
    }

    fn command(&self, program: &str) -> Command {
        self.settled(Command::new(self.root.join(program)))
    }

    /// Finds its programs, and leaves nothing outside of the folder.
    fn settled(&self, mut command: Command) -> Command {
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.folder.path());
        }
        let programs = ["usr/bin", "usr/sbin"].map(|folder| self.root.join(folder));
        let programs = programs.map(|folder| folder.display().to_string());
        let path = format!("{}:{}", programs.join(":"), std::env::var("PATH").unwrap());
        command.env("PATH", path);
        command
    }

    fn start(&mut self) {
        let mut server = self.command("usr/sbin/ovsdb-server");
        server
            .arg(self.path("conf.db"))
            .arg(format!("--remote=punix:{}", self.path("db.sock")))
            .arg(format!("--unixctl={}", self.path("database.ctl")))
            .arg("-vconsole:off");
        self.server = Some(server.spawn().unwrap());
        // The socket's file is there a little before the server listens.
        while UnixStream::connect(self.path("db.sock")).is_err() {
            let ended = self.server.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "ovsdb-server ended: {ended:?}");
            std::thread::yield_now();
        }
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
            let _ = fs::remove_file(self.path("db.sock"));
        }
    }

    fn vsctl(&self, arguments: &[&str]) -> String {
        let mut vsctl = self.command("usr/bin/ovs-vsctl");
        let output = vsctl
            .args([&format!("--db={}", self.socket()), "--no-wait"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn extra(&self) -> String {
        let key = "other_config:dpdk-extra";
        self.vsctl(&["--if-exists", "get", "Open_vSwitch", ".", key])
    }

    fn set_extra(&self, options: &str) {
        let value = format!("other_config:dpdk-extra=\"{options}\"");
        self.vsctl(&["set", "Open_vSwitch", ".", &value]);
    }

    /// `-d PLUGIN -d DRIVERS`.
    fn arguments(&self) -> String {
        ["librte_vernier.so", "pmds-23.0"]
            .map(|name| format!("-d {}", self.path(name)))
            .join(" ")
    }

    fn plugin_args(&self, rest: &[&str]) -> (i32, String, String) {
        let (plugin, drivers) = (self.path("librte_vernier.so"), self.path("pmds-23.0"));
        let mut tool = self.settled(Command::new(env!("CARGO_BIN_EXE_vernier")));
        tool.args(["plugin-args", "--plugin", &plugin, "--drivers", &drivers]);
        said(tool.args(rest))
    }

    fn apply(&self) -> (i32, String, String) {
        self.change("--apply")
    }

    fn change(&self, how: &str) -> (i32, String, String) {
        let (record, db) = (self.path("state/dpdk-extra"), self.socket());
        self.plugin_args(&[how, "--record", &record, "--db", &db])
    }

    /// What the package does before its files go; it must succeed. What it said.
    fn take_back(&self, socket: Option<&str>) -> String {
        let mut script = self.settled(Command::new(self.path("take-back")));
        let files =
            ["librte_vernier.so", "state/dpdk-extra", "conf.db"].map(|name| self.path(name));
        let output = script.args(files).args(socket).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn what_was_applied_is_taken_back_and_nothing_else() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let (ours, socket) = (scene.arguments(), scene.socket());
    assert_eq!(
        scene.plugin_args(&[]),
        (0, format!("{ours}\n"), String::new())
    );
    for before in ["", "-m 128 --no-pci", "-a 0000:01:00.0,x=1"] {
        if !before.is_empty() {
            scene.set_extra(before);
        }
        let (code, said, complained) = scene.apply();
        assert_eq!((code, complained.as_str()), (0, ""), "{said}");
        assert!(
            said.contains("restart") && said.contains("dpdk-init=true"),
            "{said}"
        );
        let both = format!("{before} {ours}");
        assert_eq!(scene.extra(), format!("\"{}\"", both.trim()));
        // Once more: nothing to add.
        let (code, said, _) = scene.apply();
        assert!(code == 0 && said.contains("already"), "{said}");
        // The administrator went on to change it.
        scene.set_extra(&format!("{} -n 2", both.trim()));
        let said = scene.take_back(Some(&socket));
        assert!(said.contains("took"), "{said}");
        assert_eq!(
            scene.extra(),
            format!("\"{}\"", format!("{before} -n 2").trim())
        );
        assert_eq!(scene.take_back(Some(&socket)), "");
        scene.vsctl(&["remove", "Open_vSwitch", ".", "other_config", "dpdk-extra"]);
    }
    scene.apply();
    let (code, said, complained) = scene.change("--remove");
    assert_eq!((code, complained.as_str()), (0, ""), "{said}");
    assert!(said.contains(&format!("took \"{ours}\"")), "{said}");
    assert_eq!(scene.extra(), "");
    let (code, said, _) = scene.change("--remove");
    assert!(code == 0 && said.contains("Nothing"), "{said}");
    // Open vSwitch is stopped: it must start again without the plugin all the same.
    scene.set_extra("-m 1");
    scene.apply();
    scene.stop();
    assert!(scene.take_back(None).contains("took"));
    scene.start();
    assert_eq!(scene.extra(), "\"-m 1\"");
}

#[test]
fn what_was_added_by_hand_stays_and_the_command_is_printed() {
    let Some(scene) = Scene::new() else {
        return;
    };
    let (ours, socket) = (scene.arguments(), scene.socket());
    scene.set_extra(&format!("-m 1 {ours}"));
    let before = scene.extra();
    let said = scene.take_back(Some(&socket));
    assert_eq!(scene.extra(), before);
    let command = said.lines().last().unwrap();
    let command = command.trim_start_matches("vernier-plugin:").trim();
    assert!(command.starts_with("ovs-vsctl "), "{said}");
    // It does what it is printed for.
    let command = command.replacen("ovs-vsctl", &format!("ovs-vsctl --db={socket}"), 1);
    let mut shell = scene.settled(Command::new("sh"));
    assert!(
        shell.args(["-c", &command]).status().unwrap().success(),
        "{command}"
    );
    let left = scene.extra();
    assert!(
        left.contains("-m 1") && !left.contains("librte_vernier.so"),
        "{left}"
    );
}

#[test]
fn what_cannot_be_applied_changes_nothing() {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    scene.set_extra("-d /opt/librte_vernier.so");
    let fails = |(code, _, error): (i32, String, String), words| {
        assert!(code == 1 && error.contains(words), "{code} {error}");
    };
    fails(scene.apply(), "/opt/librte_vernier.so");
    assert_eq!(scene.extra(), "\"-d /opt/librte_vernier.so\"");
    assert!(!Path::new(&scene.path("state/dpdk-extra")).exists());
    scene.stop();
    fails(scene.apply(), "does Open vSwitch run");
    let missing = "/nowhere/x.so";
    fails(run(&["plugin-args", "--plugin", missing]), missing);
}
