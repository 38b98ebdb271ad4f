//! Unpacks the tar stream of a base backup.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use bytes::{Buf, Bytes};
use postgres_archive::BackupReader;
use tokio::{sync::mpsc, task::spawn_blocking};

/// Pieces that wait to be written.
const QUEUE: usize = 4;
/// Where `pg_basebackup` lists tablespaces. Empty without any, and PostgreSQL refuses an empty one.
const TABLESPACES: &str = "tablespace_map";

/// Unpacks a backup into a folder.
///
/// # Errors
/// Returns an error if the backup is damaged or cannot be written, or is no backup of a database.
pub(super) async fn unpack(mut reader: BackupReader, folder: &Path) -> Result<()> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let target = folder.to_owned();
    let writer = spawn_blocking(move || write(Pieces { receiver, piece: Bytes::new() }, &target));
    let read = async {
        while let Some(piece) = reader.next_piece().await? {
            // The writer has failed, and says why.
            if sender.send(piece).await.is_err() {
                break;
            }
        }
        drop(sender);
        anyhow::Ok(())
    };
    let (read, written) = tokio::join!(read, writer);
    // A backup that cannot be read is the cause of an archive that ends early.
    read?;
    written
        .context("the task was cancelled")?
        .with_context(|| format!("cannot unpack the backup into {}", folder.display()))?;
    check(folder)
}

fn write(pieces: Pieces, folder: &PathBuf) -> io::Result<()> {
    let mut archive = tar::Archive::new(pieces);
    archive.set_preserve_permissions(true);
    archive.set_overwrite(false);
    archive.unpack(folder)?;
    // What follows the last entry is read too, so that the sender does not wait for ever.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop)
}

/// Checks that a folder contains the backup of a database that can be started here.
fn check(folder: &Path) -> Result<()> {
    for file in ["PG_VERSION", "backup_label", "global/pg_control"] {
        ensure!(folder.join(file).exists(), "the backup has no file {file}; choose another backup");
    }
    let map = folder.join(TABLESPACES);
    match fs::read(&map) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", map.display())),
        Ok(content) => {
            ensure!(content.is_empty(), "the backup has tablespaces, which a PostgresCluster cannot have");
            fs::remove_file(&map).with_context(|| format!("cannot remove {}", map.display()))
        }
    }
}

/// The pieces of a stream, as a reader.
struct Pieces {
    receiver: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        (&mut self.piece).reader().read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_map_of_tablespaces_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("global")).unwrap();
        for file in ["PG_VERSION", "backup_label", "global/pg_control", TABLESPACES] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        check(folder.path()).unwrap();
        assert!(!folder.path().join(TABLESPACES).exists());
        fs::write(folder.path().join(TABLESPACES), "16384 /elsewhere\n").unwrap();
        assert!(check(folder.path()).unwrap_err().to_string().contains("tablespaces"));
        fs::remove_file(folder.path().join(TABLESPACES)).unwrap();
        fs::remove_file(folder.path().join("backup_label")).unwrap();
        assert!(check(folder.path()).unwrap_err().to_string().contains("backup_label"));
    }

    #[test]
    fn pieces_are_one_stream() {
        let (sender, receiver) = mpsc::channel(4);
        for piece in ["ab", "", "cde"] {
            sender.blocking_send(Bytes::from_static(piece.as_bytes())).unwrap();
        }
        drop(sender);
        let mut text = String::new();
        Pieces { receiver, piece: Bytes::new() }.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abcde");
    }
}
