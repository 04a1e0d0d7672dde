//! Virtual interfaces of a test's own.
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

/// A name, of interfaces or namespaces, that no other test has at the same time: at most 10 characters.
pub fn unique(tag: &str) -> String {
    static NAMES: AtomicU8 = AtomicU8::new(b'a');
    let last = char::from(NAMES.fetch_add(1, Ordering::Relaxed));
    format!("{tag}{}{last}", std::process::id())
}

/// Runs `ip`; whether it succeeded.
pub fn ip(arguments: &str) -> bool {
    let words = arguments.split_whitespace();
    Command::new("ip").args(words).status().unwrap().success()
}

/// A pair of virtual interfaces, both up: this one is the switch's.
pub struct Veth(pub String);

impl Veth {
    pub fn new() -> Self {
        let veth = Self(unique("vv"));
        let (ours, theirs) = (&veth.0, veth.peer());
        assert!(ip(&format!("link add {ours} type veth peer name {theirs}")));
        assert!(ip(&format!("link set {ours} up")));
        assert!(ip(&format!("link set {theirs} up")));
        veth
    }

    /// The other end.
    pub fn peer(&self) -> String {
        format!("{}p", self.0)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        ip(&format!("link del {}", self.0));
    }
}
