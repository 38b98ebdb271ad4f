//! A volume with a size: a file system in memory.

use std::{
    ffi::CString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

/// A file system that is mounted on the folder of a volume. It is unmounted when this is dropped.
pub struct Volume {
    folder: PathBuf,
}

impl Volume {
    /// Mounts a file system of this size on a folder.
    pub(crate) fn mount(folder: &Path, mebibytes: u64) -> Result<Self> {
        let options = options(mebibytes)?;
        mount("tmpfs", folder, "tmpfs", MountFlags::NODEV, options.as_c_str())
            .with_context(|| format!("cannot mount a file system on {}", folder.display()))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Changes the size, as a storage provider does when a claim grows.
    ///
    /// # Errors
    /// Returns an error if the files need more than that.
    pub fn resize(&self, mebibytes: u64) -> Result<()> {
        mount_remount(&self.folder, MountFlags::NODEV, options(mebibytes)?.as_c_str())
            .with_context(|| format!("cannot resize the file system on {}", self.folder.display()))
    }

    /// Returns the size of a file of the volume. `None` if there is none.
    pub fn size_of(&self, file: &str) -> Option<u64> {
        fs::metadata(self.folder.join(file)).ok().map(|file| file.len())
    }
}

fn options(mebibytes: u64) -> Result<CString> {
    Ok(CString::new(format!("size={mebibytes}m,mode=0700"))?)
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Processes that end a moment later keep it until then.
        if let Err(error) = unmount(&self.folder, UnmountFlags::DETACH) {
            eprintln!("cannot unmount {}: {error}", self.folder.display());
        }
    }
}
