//! `vernier`: shows a running switch, and checks configurations.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    console::cli::main()
}
