//! The live table in a pseudo-terminal that is not the controlling one: no SIGHUP comes when it is closed.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::terminal::Terminal;

use super::serve_one;

#[test]
fn the_live_table_ends_with_its_terminal() {
    let (server, _) = serve_one();
    let mut terminal = Terminal::open(80).unwrap();
    let mut top = Command::new(env!("CARGO_BIN_EXE_vernier"))
        .args(["top", "--url", &format!("http://{}", server.address())])
        .env("TERM", "xterm")
        .stdin(terminal.stream().unwrap())
        .stdout(terminal.stream().unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut drawn = [0; 64];
    terminal.controller.read_exact(&mut drawn).unwrap();
    drop(terminal);

    let closed = Instant::now();
    let status = loop {
        if let Some(status) = top.try_wait().unwrap() {
            break Some(status);
        }
        if closed.elapsed() > Duration::from_secs(30) {
            top.kill().unwrap();
            top.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(
        status.is_some(),
        "the live table runs on without its terminal"
    );
}
