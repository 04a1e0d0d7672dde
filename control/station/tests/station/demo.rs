//! What `make station` runs.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use testkit::process::free_ports;

#[test]
fn the_demo_shows_the_path_and_leaves_nothing() {
    let programs = Path::new(env!("CARGO_BIN_EXE_vernier-station"))
        .parent()
        .unwrap();
    if !["vernierd", "vernier"]
        .iter()
        .all(|program| programs.join(program).exists())
    {
        assert!(
            std::env::var_os("CI").is_none(),
            "vernierd and vernier were not built"
        );
        eprintln!(
            "skipped: vernierd and vernier were not built (cargo build -p daemon -p console)"
        );
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/station.sh");
    let tools = script.with_file_name("../.tools/usr/sbin");
    let path = format!(
        "{}:/usr/sbin:{}",
        tools.display(),
        std::env::var("PATH").unwrap()
    );
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports(4).unwrap();
    let output = Command::new(script)
        .arg("1")
        .env("PATH", path)
        .env("PROGRAMS", programs)
        .env("STATION_PORT", port.to_string())
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let (shown, errors) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{shown}{errors}");
    for words in [
        "edge-1: lan>trunk",
        "edge-1:trunk > edge-2:trunk",
        "edge-2: trunk>lan",
        "sum ",
        " +-",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(
        std::fs::read_dir(folder.path()).unwrap().next().is_none(),
        "files are left"
    );
    for port in port..port + 4 {
        assert!(
            TcpStream::connect(("127.0.0.1", port)).is_err(),
            "port {port} still answers"
        );
    }
}
