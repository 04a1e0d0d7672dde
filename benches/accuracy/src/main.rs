//! `vernier-accuracy`: the accuracy tables, and the methods for data of one's own.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    accuracy::cli::main()
}
