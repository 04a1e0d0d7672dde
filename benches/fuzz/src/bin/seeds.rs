//! Writes the seeds of every target into `FOLDER/target`, and prints the targets' names.

use std::path::PathBuf;
use std::{env, fs, io};

// Code that is built for libFuzzer calls it.
#[cfg(feature = "libfuzzer")]
use libfuzzer_sys as _;

fn main() -> io::Result<()> {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("usage: fuzz-seeds FOLDER"));
    };
    for (name, _) in fuzz::TARGETS {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in fuzz::seeds(name).iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
        println!("{name}");
    }
    fs::write(folder.join("config.dict"), fuzz::config_dictionary())
}
