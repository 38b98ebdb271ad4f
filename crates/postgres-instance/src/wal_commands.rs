//! Commands with which PostgreSQL archives and restores WAL: this program, which asks the first process.

use std::path::Path;

/// Name of the socket of the first process, in the folder of sockets.
pub(crate) const SOCKET: &str = ".ensemble.archive";

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
