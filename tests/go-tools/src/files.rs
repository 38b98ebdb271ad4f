//! The cache of built programs and images, and how a build uses it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::fs::{FlockOperation, flock};

/// Returns the cache directory of built programs: `$XDG_CACHE_HOME/ensemble` or
/// `~/.cache/ensemble`. Returns `None` if neither variable is set.
pub fn cache() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    cache.map(|cache| cache.join("ensemble"))
}

/// Locks a file until the result is dropped, and creates it first if necessary. Calls `before_wait`
/// if another process holds the lock.
///
/// # Errors
/// Returns an error if the file cannot be created or locked.
pub fn lock(path: &Path, before_wait: impl FnOnce()) -> Result<File> {
    let mut options = File::options();
    let file =
        options.create(true).append(true).open(path).with_context(|| format!("open {}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        before_wait();
        flock(&file, FlockOperation::LockExclusive).with_context(|| format!("lock {}", path.display()))?;
    }
    Ok(file)
}

/// Appends an extension: `a.b` and `c` give `a.b.c`, unlike `Path::with_extension`.
pub fn with_suffix(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Removes a directory with its content, if it exists.
///
/// # Errors
/// Returns an error if the directory exists and cannot be removed.
pub fn discard(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn suffix_keeps_dots_of_versions() {
        assert_eq!(with_suffix(Path::new("/x/v1.2"), "lock"), Path::new("/x/v1.2.lock"));
    }

    #[test]
    fn lock_waits_for_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = lock(&path, || panic!("nobody holds the lock")).unwrap();
        let (waiting, waits) = mpsc::channel();
        let second = std::thread::spawn(move || lock(&path, || waiting.send(()).unwrap()).map(drop));
        waits.recv().unwrap();
        drop(held);
        second.join().unwrap().unwrap();
    }

    #[test]
    fn discard_ignores_missing_directories() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a");
        fs::create_dir_all(inner.join("b")).unwrap();
        discard(&inner).unwrap();
        assert!(!inner.exists());
        discard(&inner).unwrap();
    }
}
