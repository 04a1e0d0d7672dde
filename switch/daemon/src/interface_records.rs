//! Records of interfaces that this switch took down, for its next start.
//!
//! If a process that took a kernel interface down is killed, the interface stays down as if an administrator had taken
//! it down. So there is a file for each, created before it is taken down and removed when it is up again. Its name is
//! the interface's network namespace and number, which no other interface gets until the machine reboots, when `/run`
//! is emptied, too.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The folder of these files, and the network namespace that this process is in.
#[derive(Debug)]
pub struct InterfaceRecords {
    folder: PathBuf,
    namespace: u64,
}

impl InterfaceRecords {
    /// In systemd's folder (`RuntimeDirectory=vernier`), else `/run/vernier` for root, else the user's own run
    /// folder, or one in `/tmp`.
    pub fn from_env() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let given = variable("RUNTIME_DIRECTORY").map(|given| {
            // Several are separated by colons.
            let first = std::env::split_paths(&given).next();
            first.unwrap_or_default()
        });
        let user = geteuid();
        let folder = match (given, variable("XDG_RUNTIME_DIR")) {
            (Some(given), _) => given,
            (None, _) if user.is_root() => "/run/vernier".into(),
            (None, Some(own)) => PathBuf::from(own).join("vernier"),
            (None, None) => std::env::temp_dir().join(format!("vernier-{}", user.as_raw())),
        };
        Self::within(&folder)
    }

    fn within(folder: &Path) -> Self {
        // Without /proc, all interfaces are taken to be in one namespace.
        let namespace = fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino());
        Self {
            folder: folder.join("lowered"),
            namespace,
        }
    }

    /// Records that the interface is about to be taken down.
    ///
    /// # Errors
    /// The system's, with the file's name, or if the folder belongs to another user.
    pub fn note(&self, interface: NonZeroU32, port: &str) -> io::Result<()> {
        let file = self.file(interface);
        let write = || {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.folder)?;
            self.check_owner()?;
            writeln!(File::create(&file)?, "{port} {}", std::process::id())
        };
        write().map_err(|error| {
            let file = file.display();
            io::Error::new(error.kind(), format!("{file} cannot be written: {error}"))
        })
    }

    /// Whether a switch took the interface down and has not brought it up again.
    pub fn holds(&self, interface: NonZeroU32) -> bool {
        self.check_owner().is_ok() && self.file(interface).exists()
    }

    /// Removes the record: the interface is up again.
    pub fn clear(&self, interface: NonZeroU32) {
        let file = self.file(interface);
        if let Err(error) = fs::remove_file(&file)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("{} cannot be removed: {error}", file.display());
        }
    }

    fn file(&self, interface: NonZeroU32) -> PathBuf {
        self.folder.join(format!("{}-{interface}", self.namespace))
    }

    /// Checks that no other user can have created these files or replaced their folder, as is possible in `/tmp`.
    fn check_owner(&self) -> io::Result<()> {
        if !fs::symlink_metadata(&self.folder)?.is_dir() {
            return Err(io::Error::other("its folder is a link or a file"));
        }
        let folder = self.folder.canonicalize()?;
        for (depth, folder) in folder.ancestors().enumerate() {
            let metadata = fs::metadata(folder)?;
            let is_own = [0, geteuid().as_raw()].contains(&metadata.uid());
            // With the sticky bit, users cannot move files and folders of others.
            let is_sticky = depth > 1 && metadata.mode() & 0o1000 != 0;
            if !is_own || metadata.mode() & 0o022 != 0 && !is_sticky {
                let folder = folder.display();
                let why = format!("other users may write to {folder}; run `chmod go-w {folder}`");
                return Err(io::Error::other(why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_was_noted_is_found_until_it_is_cleared() {
        let run = tempfile::tempdir().unwrap();
        let folder = run.path().join("vernier");
        let before = InterfaceRecords::within(&folder);
        let [one, other] = [7, 70].map(|number| NonZeroU32::new(number).unwrap());
        assert!(!before.holds(one));
        before.clear(one);
        before.note(one, "wan").unwrap();
        before.note(one, "wan").unwrap();
        // Another process, later.
        let after = InterfaceRecords::within(&folder);
        assert!(after.holds(one) && !after.holds(other));
        let elsewhere = InterfaceRecords {
            namespace: after.namespace + 1,
            ..InterfaceRecords::within(&folder)
        };
        assert!(!elsewhere.holds(one));
        after.clear(one);
        assert!(!before.holds(one) && !after.holds(one));
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_trusted() {
        let run = tempfile::tempdir().unwrap();
        let lowered = InterfaceRecords::within(run.path());
        let interface = NonZeroU32::new(7).unwrap();
        lowered.note(interface, "wan").unwrap();
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(&lowered.folder, open).unwrap();
        assert!(!lowered.holds(interface));
        let error = lowered.note(interface, "wan").unwrap_err().to_string();
        assert!(error.contains("other users may write"), "{error}");
    }

    #[test]
    fn a_folder_within_one_that_others_may_write_to_is_not_trusted() {
        let run = tempfile::tempdir().unwrap();
        let above = run.path().join("above");
        let own = above.join("vernier");
        let lowered = InterfaceRecords::within(&own);
        let interface = NonZeroU32::new(7).unwrap();
        lowered.note(interface, "wan").unwrap();
        let set = |folder: &Path, mode| {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        };
        // Its own parent, because other users could create an entry of this name there before the switch does.
        for mode in [0o777, 0o770, 0o1777] {
            set(&own, mode);
            assert!(!lowered.holds(interface), "{mode:o}");
            let error = lowered.note(interface, "wan").unwrap_err().to_string();
            assert!(error.contains(&own.display().to_string()), "{error}");
        }
        set(&own, 0o700);
        assert!(lowered.holds(interface));
        set(&above, 0o777);
        assert!(!lowered.holds(interface));
        // Like /tmp.
        set(&above, 0o1777);
        assert!(lowered.holds(interface));
        // A link to a folder chosen by another user.
        let (real, link) = (lowered.folder.clone(), own.join("elsewhere"));
        fs::rename(&real, &link).unwrap();
        std::os::unix::fs::symlink(&link, &real).unwrap();
        assert!(!lowered.holds(interface));
    }
}
