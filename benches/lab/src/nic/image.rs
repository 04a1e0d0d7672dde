//! The guest's boot image: Debian's kernel, and an initramfs with busybox and the necessary modules.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Modules in the order in which they can be loaded.
const MODULES: [&str; 17] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_console",
    "9pnet",
    "9pnet_virtio",
    "netfs",
    "fscache",
    "9p",
    "irqbypass",
    "vfio",
    "vfio_virqfd",
    "vfio_iommu_type1",
    "vfio-pci-core",
    "vfio-pci",
];

/// A kernel and its initramfs.
#[derive(Debug)]
pub struct Image {
    pub kernel: PathBuf,
    pub initrd: PathBuf,
}

impl Image {
    /// Makes one in `folder`, of the kernel's package that was unpacked into `package`.
    pub fn build(package: &Path, folder: &Path) -> Result<Self> {
        let files = files_below(package)?;
        let find = |is_it: &dyn Fn(&str) -> bool| {
            let name = |file: &PathBuf| Some(file.file_name()?.to_string_lossy().into_owned());
            files
                .iter()
                .find(|file| name(file).is_some_and(|name| is_it(&name)))
        };
        let kernel = find(&|name| name.starts_with("vmlinuz-")).context("no kernel")?;
        let root = folder.join("root");
        for empty in [
            "bin", "dev", "proc", "sys", "tmp", "run", "usr", "vernier", "modules",
        ] {
            fs::create_dir_all(root.join(empty))?;
        }
        for name in MODULES {
            let file = format!("{name}.ko");
            let module =
                find(&|name| name == file).with_context(|| format!("the kernel has no {file}"))?;
            fs::copy(module, root.join("modules").join(file))?;
        }
        fs::write(root.join("modules/order"), MODULES.join("\n"))?;
        let busybox = ["/usr/bin/busybox", "/bin/busybox"].map(Path::new);
        let busybox = busybox.into_iter().find(|file| file.is_file());
        fs::copy(busybox.context("no busybox")?, root.join("bin/busybox"))?;
        let init = root.join("init");
        fs::write(&init, include_str!("init"))?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
        symlink("usr/lib", root.join("lib"))?;
        symlink("usr/lib64", root.join("lib64"))?;
        let initrd = folder.join("initrd");
        let packed = Command::new("sh")
            .args(["-c", "find . | cpio -o -H newc --quiet > \"$0\""])
            .arg(&initrd)
            .current_dir(&root)
            .status()?;
        ensure!(packed.success(), "cpio: {packed}");
        let kernel = kernel.clone();
        Ok(Self { kernel, initrd })
    }
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        files.extend(if path.is_dir() {
            files_below(&path)?
        } else {
            vec![path]
        });
    }
    Ok(files)
}
