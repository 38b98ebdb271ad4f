//! Files that survive a crash of the node.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Replaces a file: a reader sees the old content or the new one, also after a crash.
///
/// # Errors
/// Returns the error of the file system. The old file is unchanged then.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = with_suffix(path, ".new");
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    rename(&temporary, path)
}

/// Replaces a file unless it has the content already. Returns whether it did not.
///
/// # Errors
/// Returns the error of the file system.
pub(crate) fn write_if_changed(path: &Path, content: &[u8], mode: u32) -> io::Result<bool> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(false);
    }
    write(path, content, mode)?;
    Ok(true)
}

/// Renames a file or directory, and makes the new name durable.
///
/// # Errors
/// Returns the error of the file system.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_parent(to)
}

/// Removes a file, if there is one.
///
/// # Errors
/// Returns the error of the file system.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_parent(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn file_is_replaced_as_a_whole_and_only_if_it_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        fs::write(with_suffix(&path, ".new"), "left by a crash").unwrap();
        assert!(write_if_changed(&path, b"1", 0o600).unwrap());
        assert!(!write_if_changed(&path, b"1", 0o600).unwrap());
        assert!(write_if_changed(&path, b"2", 0o400).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o400);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
