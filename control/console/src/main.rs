//! `vernier`: looks at a running switch, and at configurations.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    console::cli::main()
}
