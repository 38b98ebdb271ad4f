//! The programs that PostgreSQL runs to archive and to restore: they ask the first process.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::protocol::{Answer, Request};

/// Archives a file: the command of `archive_command`.
///
/// # Errors
/// Returns an error unless the file is in the store.
pub(crate) async fn archive(socket: &Path, name: &str) -> Result<()> {
    match Request::Archive(name.parse()?).send(socket).await? {
        Answer::Done => Ok(()),
        Answer::Missing => bail!("cannot archive {name}: it does not exist"),
        Answer::Failed(reason) => bail!("cannot archive {name}: {reason}"),
    }
}

/// Restores a file: the command of `restore_command`. A file that is missing is an error without a
/// message, because PostgreSQL asks for files that may not exist.
///
/// # Errors
/// Returns an error unless the file is at its destination.
pub(crate) async fn restore(socket: &Path, name: &str, destination: &Path) -> Result<()> {
    let file =
        destination.file_name().and_then(|file| file.to_str()).context("the destination is no file")?;
    match Request::Restore(name.parse()?, file.to_owned()).send(socket).await? {
        Answer::Done => Ok(()),
        Answer::Missing => std::process::exit(1),
        Answer::Failed(reason) => bail!("cannot restore {name}: {reason}"),
    }
}
