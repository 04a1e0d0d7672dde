//! Makes a switch read its configuration again, and waits for the outcome.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;

use super::{DONE, Globals, Json, REFUSED, print, print_json};
use crate::client::{Client, ClientError};
use records::answers::StatusAnswer;
use records::snapshot::{self, ReloadOutcome};

/// How often the outcome is requested.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// `vernier reload`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done, or nothing to do; 1 failed; 3 refused: nothing has changed."
)]
pub struct Reload {
    /// How long to wait for the outcome, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u32,
    #[command(flatten)]
    form: Json,
}

/// `vernier reload`.
pub(super) fn run(globals: &Globals, reload: &Reload) -> anyhow::Result<u8> {
    let client = globals.switch()?;
    let after = match client.reload() {
        Err(error @ ClientError::Refused { .. }) => {
            eprintln!("vernier: {error}");
            return Ok(REFUSED);
        }
        other => other?,
    };
    let timeout = Duration::from_secs(reload.timeout.into());
    let (outcome, generation) = wait(&client, after, timeout)?;
    if reload.form.json {
        print_json(&outcome)?;
    }
    let message = &outcome.message;
    match outcome.outcome {
        ReloadOutcome::Refused => {
            eprintln!("vernier: the reload is refused, and nothing has changed: {message}");
            return Ok(REFUSED);
        }
        _ if reload.form.json => {}
        ReloadOutcome::Unchanged => {
            print("the configuration is the same as before\n")?;
        }
        _ => {
            let keys = message.replace(", ", "\n  ");
            print(&format!(
                "generation {generation} is in use; changed:\n  {keys}\n"
            ))?;
        }
    }
    Ok(DONE)
}

/// The outcome of the first reload after that of number `after`, once it is final, and the
/// generation then in use.
fn wait(client: &Client, after: u64, timeout: Duration) -> anyhow::Result<(snapshot::Reload, u32)> {
    let began = Instant::now();
    loop {
        let StatusAnswer { status, .. } = client.get("/api/v1/status", &[])?;
        let stage = match status.reload {
            Some(reload) if reload.number > after => match reload.outcome {
                ReloadOutcome::Reading => "the file is being read",
                ReloadOutcome::UnderWay => "the workers are changing to it",
                _ => return Ok((reload, status.generation)),
            },
            _ => "it has not begun",
        };
        if began.elapsed() >= timeout {
            bail!(
                "no outcome of the reload within {} s: {stage}; `vernier status` shows it later, or \
                 wait longer with --timeout",
                timeout.as_secs()
            );
        }
        sleep(ASK_EVERY);
    }
}
