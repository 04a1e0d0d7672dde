//! The live table in a pseudo-terminal that is not the controlling one: no SIGHUP comes when it is closed.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::serve_one;

#[test]
fn the_live_table_ends_with_its_terminal() {
    let (server, _) = serve_one();
    let controller =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap().into_string();
    // The test is no session leader, so that this does not become its controlling terminal.
    let terminal = || {
        let mut options = File::options();
        let file = options.read(true).write(true).open(name.as_ref().unwrap());
        Stdio::from(file.unwrap())
    };
    let mut top = Command::new(env!("CARGO_BIN_EXE_vernier"))
        .args(["top", "--url", &format!("http://{}", server.address())])
        .env("TERM", "xterm")
        .stdin(terminal())
        .stdout(terminal())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut drawn = [0; 64];
    File::from(controller).read_exact(&mut drawn).unwrap();

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
