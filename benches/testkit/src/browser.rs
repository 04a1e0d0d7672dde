//! A real headless Chromium (Debian's `chromium-headless-shell`, or `chromium`), driven by its `DevTools` protocol over
//! pipes: JSON messages, each followed by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::process::{Process, until};

/// Time limit for a response.
const PATIENCE: Duration = Duration::from_secs(30);

/// Names of the program, the smallest first.
const PROGRAMS: [&str; 2] = ["chromium-headless-shell", "chromium"];

/// Without a sandbox, because that needs privileges that containers lack; it loads only pages from loopback.
const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
];

/// A browser with one page. It ends when this value is dropped.
#[derive(Debug)]
pub struct Browser {
    _process: Process,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    asked: u64,
    complaints: Vec<String>,
}

/// The program, if it is installed.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = |name| {
        let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
        files.find(|file| file.is_file())
    };
    PROGRAMS.into_iter().find_map(in_path)
}

impl Browser {
    /// Starts it with an empty page. `folder` is for its profile, which is not deleted.
    ///
    /// # Errors
    /// When there is no program, or it does not answer.
    pub fn start(folder: &Path) -> Result<Self> {
        let program = program().context("there is no Chromium: `make setup-test` installs it")?;
        let profile = folder.join("chromium");
        // The protocol's pipes are descriptors 3 and 4.
        let mut process = Process::start(
            Command::new("sh")
                .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>&2"])
                .arg(program)
                .args(ARGUMENTS)
                .arg(format!("--user-data-dir={}", profile.display()))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null()),
        )?;
        let input = process.child.stdin.take().context("a pipe")?;
        let output = process.child.stdout.take().context("a pipe")?;
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let message = message
                    .ok()
                    .and_then(|bytes| serde_json::from_slice(&bytes).ok());
                let Some(message) = message else { return };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            _process: process,
            input,
            messages,
            session: String::new(),
            asked: 0,
            complaints: Vec::new(),
        };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", attach)?;
        let session = session["sessionId"].as_str().context("a session")?;
        session.clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(browser)
    }

    /// Sends a command; returns its result.
    ///
    /// # Errors
    /// If the browser refuses the command or does not answer.
    pub fn ask(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method });
        message["params"] = parameters;
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.input.write_all(message.to_string().as_bytes())?;
        self.input.write_all(&[0])?;
        self.input.flush()?;
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let answer = match self.messages.recv_timeout(left) {
                Ok(answer) => answer,
                Err(RecvTimeoutError::Timeout) => bail!("{method}: no answer in {PATIENCE:?}"),
                Err(RecvTimeoutError::Disconnected) => bail!("{method}: Chromium has ended"),
            };
            self.note(&answer);
            if answer["id"] == self.asked {
                ensure!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return Ok(answer["result"].clone());
            }
        }
    }

    /// Notes the page's complaints: exceptions, console errors, and violations of its policy.
    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        let words = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => parameters["exceptionDetails"].to_string(),
            Some("Runtime.consoleAPICalled") if parameters["type"] == "error" => {
                parameters["args"].to_string()
            }
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                let entry = &parameters["entry"];
                format!("{}: {} {}", entry["source"], entry["text"], entry["url"])
            }
            _ => return,
        };
        self.complaints.push(words);
    }

    /// Returns the page's complaints since the last call.
    ///
    /// # Errors
    /// As [`Browser::ask`].
    pub fn complaints(&mut self) -> Result<Vec<String>> {
        // Everything sent before this response has arrived.
        self.value("0")?;
        Ok(std::mem::take(&mut self.complaints))
    }

    /// Sets the size of the window in pixels, and whether the system is dark.
    ///
    /// # Errors
    /// As [`Browser::ask`].
    pub fn look(&mut self, width: u32, height: u32, is_dark: bool) -> Result<()> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if is_dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.ask(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        )?;
        Ok(())
    }

    /// Opens a page.
    ///
    /// # Errors
    /// As [`Browser::ask`].
    pub fn open(&mut self, address: &str) -> Result<()> {
        self.ask("Page.navigate", json!({ "url": address }))?;
        Ok(())
    }

    /// The value of an expression of the page.
    ///
    /// # Errors
    /// As [`Browser::ask`], and if it throws.
    pub fn value(&mut self, expression: &str) -> Result<Value> {
        let asked =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", asked)?;
        let thrown = &answer["exceptionDetails"];
        ensure!(thrown.is_null(), "{expression}: {thrown}");
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// If it does not become true; the error has the page's text.
    pub fn wait_for(&mut self, expression: &str) -> Result<()> {
        // While a page loads, it has no content yet.
        let is_true = until(PATIENCE, expression, || {
            let is_true = self.value(expression).is_ok_and(|value| value == true);
            Ok(is_true.then_some(()))
        });
        if is_true.is_err() {
            let shown = self.value("document.body.innerText")?;
            let complaints = self.complaints()?;
            bail!("waited {PATIENCE:?} for {expression}; {complaints:?}; the page shows: {shown}");
        }
        Ok(())
    }

    /// Presses a key: a character, or `Enter`, `ArrowDown` and the like.
    ///
    /// # Errors
    /// As [`Browser::ask`].
    pub fn press(&mut self, key: &str) -> Result<()> {
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        let code = if key == "Enter" { 13 } else { 0 };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event =
                json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
            self.ask("Input.dispatchKeyEvent", event)?;
        }
        Ok(())
    }

    /// Types a text into the focused element.
    ///
    /// # Errors
    /// As [`Browser::ask`].
    pub fn type_text(&mut self, text: &str) -> Result<()> {
        self.ask("Input.insertText", json!({ "text": text }))?;
        Ok(())
    }

    /// Writes a picture (PNG) of the whole page into a file.
    ///
    /// # Errors
    /// As [`Browser::ask`], and when the file cannot be written.
    pub fn picture(&mut self, file: &Path) -> Result<()> {
        let size = self.value(
            "[document.documentElement.clientWidth, document.documentElement.scrollHeight]",
        )?;
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1 });
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let answer = self.ask("Page.captureScreenshot", asked)?;
        let bytes = STANDARD.decode(answer["data"].as_str().context("a picture")?)?;
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// A text as a JavaScript literal.
pub fn literal(text: &str) -> String {
    Value::from(text).to_string()
}
