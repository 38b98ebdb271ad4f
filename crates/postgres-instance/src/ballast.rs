//! The ballast: a file on the volume that is given up when the volume is full.
//!
//! It has its full size on disk. An empty file means that it was given up, so that this is known
//! after a restart of the instance.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use postgres_model::space::{Ballast, BallastIntent, reserve};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};
use tokio::task::spawn_blocking;
use tracing::{info, warn};

/// Bytes that are written at a time where the file system cannot allocate space.
const BLOCK: usize = 1 << 20;

/// The ballast of a volume.
pub(crate) struct BallastFile {
    path: PathBuf,
    /// Whether the last change failed.
    is_failing: bool,
}

impl BallastFile {
    pub(crate) fn new(volume: &Path) -> Self {
        Self { path: volume.join("ballast"), is_failing: false }
    }

    /// Returns the state of the file on a volume of this size.
    pub(crate) fn state(&self, total: u64) -> Ballast {
        match fs::metadata(&self.path).map(|file| file.len()) {
            Ok(0) => Ballast::Spent,
            Ok(bytes) if bytes >= reserve(total) => Ballast::Whole,
            _ => Ballast::Missing,
        }
    }

    /// Does what the plan says. A failure is logged, and the next step tries again.
    pub(crate) async fn apply(&mut self, intent: BallastIntent, total: u64) {
        let result = match intent {
            BallastIntent::Keep => return,
            BallastIntent::Allocate => self.allocate(reserve(total)).await,
            BallastIntent::Spend => spend(&self.path),
        };
        let was_failing = std::mem::replace(&mut self.is_failing, result.is_err());
        match result {
            Ok(()) => info!(?intent, bytes = reserve(total), "the ballast of the volume has changed"),
            Err(error) if !was_failing => warn!(?intent, %error, "cannot change the ballast of the volume"),
            Err(_) => {}
        }
    }

    async fn allocate(&self, bytes: u64) -> io::Result<()> {
        let path = self.path.clone();
        spawn_blocking(move || allocate(&path, bytes)).await?
    }
}

/// Makes the file as large as this, on disk too. Leaves it as it was if that fails.
fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
    let before = fs::metadata(path).map(|file| file.len()).ok();
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    let result = match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(&file, bytes),
        result => result.map_err(Into::into),
    };
    match (result.and_then(|()| file.sync_all()), before) {
        (Ok(()), _) => Ok(()),
        (Err(error), Some(before)) => file.set_len(before).and(Err(error)),
        (Err(error), None) => fs::remove_file(path).and(Err(error)),
    }
}

/// Writes bytes that cannot be compressed.
fn fill(mut file: &File, bytes: u64) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    SystemRandom::new().fill(&mut block).map_err(|_| io::Error::other("no random numbers"))?;
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        file.write_all(block.get(..length).unwrap_or_default())?;
        left = left.saturating_sub(length as u64);
    }
    Ok(())
}

/// Gives the space up, and remembers that.
fn spend(path: &Path) -> io::Result<()> {
    let file = File::options().create(true).truncate(true).write(true).open(path)?;
    // Some file systems reuse the space only after that.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const TOTAL: u64 = 1 << 30;

    #[tokio::test]
    async fn ballast_takes_space_until_it_is_spent() {
        let folder = tempfile::tempdir().unwrap();
        let mut ballast = BallastFile::new(folder.path());
        assert_eq!(ballast.state(TOTAL), Ballast::Missing);
        ballast.apply(BallastIntent::Allocate, TOTAL).await;
        assert_eq!(ballast.state(TOTAL), Ballast::Whole);
        assert!(fs::metadata(&ballast.path).unwrap().blocks() * 512 >= reserve(TOTAL));
        assert_eq!(ballast.state(TOTAL << 10), Ballast::Missing, "the volume has grown");
        ballast.apply(BallastIntent::Allocate, TOTAL << 10).await;
        assert_eq!(ballast.state(TOTAL << 10), Ballast::Whole);

        ballast.apply(BallastIntent::Spend, TOTAL).await;
        assert_eq!(BallastFile::new(folder.path()).state(TOTAL), Ballast::Spent);
        assert_eq!(fs::metadata(&ballast.path).unwrap().blocks(), 0);
        ballast.apply(BallastIntent::Allocate, TOTAL).await;
        assert_eq!(ballast.state(TOTAL), Ballast::Whole);
    }

    #[test]
    fn file_system_that_cannot_allocate_gets_a_file_with_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fill(file.as_file(), BLOCK as u64 + 1).unwrap();
        let metadata = fs::metadata(file.path()).unwrap();
        assert_eq!(metadata.len(), BLOCK as u64 + 1);
        assert!(metadata.blocks() * 512 >= metadata.len());
    }

    #[test]
    fn allocation_that_fails_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ballast");
        assert!(allocate(&path, u64::MAX >> 1).is_err());
        assert!(!path.exists());
        spend(&path).unwrap();
        assert!(allocate(&path, u64::MAX >> 1).is_err());
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    }
}
