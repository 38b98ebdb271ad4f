//! Commands with which PostgreSQL archives and restores WAL: this program, which asks the first process.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::archive::{Answer, Request, SOCKET};

/// Command that keeps nothing. The shell needs no program for it.
const NOTHING: &str = "true";

/// The commands. They are shell commands in which `%` begins a placeholder.
#[derive(Clone, Debug)]
pub(crate) struct WalCommands {
    archive: String,
    restore: String,
}

impl WalCommands {
    /// Returns the commands that run a program. `sockets` is the folder of sockets.
    pub(crate) fn new(program: &Path, sockets: &Path) -> Self {
        let (program, socket) = (quoted(program), quoted(&sockets.join(SOCKET)));
        Self {
            archive: format!("{program} wal-archive --socket {socket} %f"),
            restore: format!("{program} wal-restore --socket {socket} %f %p"),
        }
    }

    /// Returns `archive_command`.
    pub(crate) fn archive(&self, is_configured: bool) -> &str {
        if is_configured { &self.archive } else { NOTHING }
    }

    /// Returns `restore_command`.
    pub(crate) fn restore(&self, is_configured: bool) -> &str {
        if is_configured { &self.restore } else { "" }
    }
}

/// Quotes a path for a shell, and for the placeholders of PostgreSQL.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string().replace('\'', r"'\''").replace('%', "%%");
    format!("'{path}'")
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_the_shell_and_for_postgresql() {
        let commands = WalCommands::new(Path::new("/a b/it's"), Path::new("/run/100%"));
        let socket = "'/run/100%%/.ensemble.archive'";
        assert_eq!(commands.archive(true), format!(r"'/a b/it'\''s' wal-archive --socket {socket} %f"));
        assert_eq!(commands.restore(true), format!(r"'/a b/it'\''s' wal-restore --socket {socket} %f %p"));
        assert_eq!((commands.archive(false), commands.restore(false)), ("true", ""));
    }
}
