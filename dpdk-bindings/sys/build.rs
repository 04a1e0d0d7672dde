//! Compiles the shim against the system's DPDK and links the shared libraries it calls.

use std::process::{Command, ExitCode};

/// The oldest release whose API and mbuf layout the shim is written for.
const OLDEST_DPDK: &str = "22.11";

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("dpdk-sys: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    println!("cargo::rerun-if-changed=shim");
    // Finds and links the shared libraries. The shim does not call drivers, so the linker's --as-needed
    // drops them: EAL loads them from its plugin folder.
    println!("cargo::rustc-link-arg=-Wl,--as-needed");
    pkg_config::Config::new()
        .atleast_version(OLDEST_DPDK)
        .probe("libdpdk")
        .map_err(|error| {
            format!(
                "DPDK {OLDEST_DPDK} or later with its headers is needed (on Debian and Ubuntu: \
             apt-get install libdpdk-dev dpdk pkg-config gcc); pkg-config says:\n{error}"
            )
        })?;
    let mut shim = cc::Build::new();
    shim.files(
        ["shim", "af_packet", "interrupt", "memif", "telemetry"]
            .map(|name| format!("shim/{name}.c")),
    )
    .std("gnu11")
    .opt_level(3)
    .extra_warnings(true);
    // `make sanitize` instruments the shim, too.
    println!("cargo::rerun-if-env-changed=VERNIER_SANITIZER");
    if let Ok(sanitizer) = std::env::var("VERNIER_SANITIZER") {
        shim.flag(format!("-fsanitize={sanitizer}"))
            .flag("-fno-omit-frame-pointer");
    }
    for flag in cflags()? {
        // No warnings about DPDK's headers.
        shim.flag(
            flag.strip_prefix("-I")
                .map_or(flag.clone(), |path| format!("-isystem{path}")),
        );
    }
    shim.try_compile("vernier_shim").map_err(|error| {
        format!(
            "the shim does not compile with this DPDK (see the compiler's messages above): {error}"
        )
    })
}

/// All of `pkg-config --cflags libdpdk`. The pkg-config crate keeps only include paths and defines, but `-include
/// rte_config.h` and `-march` also affect layouts and inline functions.
fn cflags() -> Result<Vec<String>, String> {
    println!("cargo::rerun-if-env-changed=PKG_CONFIG");
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let output = Command::new(&program)
        .args(["--cflags", "libdpdk"])
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{program} --cflags libdpdk failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .split_whitespace()
        .map(str::to_owned)
        .collect())
}
