//! Hugepages of the machine, reserved while they are used.

use std::{fs, io};

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";

/// Free hugepages, reserved if there were too few; those are given back on drop.
#[derive(Debug)]
pub struct Hugepages {
    /// The reservation to restore, if it was changed.
    reserved_before: Option<u64>,
}

impl Hugepages {
    /// Makes sure that `mebibytes` of hugepages are free. Fails, without changing anything, if there are too few and no
    /// more can be reserved, which needs root and unfragmented memory.
    ///
    /// # Errors
    /// Those of the files in `/proc`, or if too few are free.
    pub fn reserve(mebibytes: u64) -> io::Result<Self> {
        let missing = missing_pages(mebibytes)?;
        let mut reservation = Self {
            reserved_before: None,
        };
        if missing == 0 {
            return Ok(reservation);
        }
        let before = fs::read_to_string(RESERVED)?;
        let before: u64 = before.trim().parse().map_err(io::Error::other)?;
        fs::write(RESERVED, (before + missing).to_string())?;
        reservation.reserved_before = Some(before);
        // The kernel reserves as many as it finds, without an error.
        if missing_pages(mebibytes)? > 0 {
            let complaint = format!("the kernel found no {mebibytes} MiB of unfragmented memory");
            return Err(io::Error::other(complaint));
        }
        Ok(reservation)
    }
}

impl Drop for Hugepages {
    fn drop(&mut self) {
        if let Some(before) = self.reserved_before
            && let Err(error) = fs::write(RESERVED, before.to_string())
        {
            eprintln!("cannot set {RESERVED} back to {before}: {error}");
        }
    }
}

/// Hugepages that are missing for `mebibytes` to be free.
///
/// # Errors
/// If `/proc/meminfo` does not have their number.
pub fn missing_pages(mebibytes: u64) -> io::Result<u64> {
    let page_kib = meminfo("Hugepagesize")?.max(1);
    let wanted = (mebibytes * 1024).div_ceil(page_kib);
    Ok(wanted.saturating_sub(meminfo("HugePages_Free")?))
}

/// The number that `/proc/meminfo` gives for `key`.
fn meminfo(key: &str) -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let number = text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.strip_prefix(':')?;
        rest.split_whitespace().next()?.parse().ok()
    });
    number.ok_or_else(|| io::Error::other(format!("/proc/meminfo has no {key}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_by_whole_keys() {
        assert!(meminfo("MemTotal").unwrap() >= meminfo("MemFree").unwrap());
        let error = meminfo("Mem").unwrap_err();
        assert_eq!(error.to_string(), "/proc/meminfo has no Mem");
    }
}
