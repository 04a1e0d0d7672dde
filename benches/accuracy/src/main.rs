//! `vernier-accuracy`: the accuracy tables, and the methods for the user's data.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    accuracy::cli::main()
}
