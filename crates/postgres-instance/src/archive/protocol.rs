//! How `archive_command` and `restore_command` ask the first process: one line each way.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use postgres_model::wal_file::WalFileName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};

/// Most bytes of a request.
pub(super) const MAX_REQUEST: u64 = 256;
/// Most bytes of an answer.
const MAX_ANSWER: u64 = 4 << 10;
/// How long an answer may take. The first process has its own limits, which are shorter.
const LIMIT: Duration = Duration::from_mins(5);

/// What the first process is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Archive a file of `pg_wal`.
    Archive(WalFileName),
    /// Restore a file to another name in `pg_wal`.
    Restore(WalFileName, String),
}

/// What the first process answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// The archive does not have the file.
    Missing,
    /// It failed.
    Failed(String),
}

impl Request {
    /// Parses a line.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.trim_end().split(' ');
        let (command, name) = (words.next()?, words.next()?.parse().ok()?);
        let request = match command {
            "archive" => Self::Archive(name),
            "restore" => Self::Restore(name, words.next().filter(|file| is_destination(file))?.to_owned()),
            _ => return None,
        };
        words.next().is_none().then_some(request)
    }

    fn line(&self) -> String {
        match self {
            Self::Archive(name) => format!("archive {name}\n"),
            Self::Restore(name, file) => format!("restore {name} {file}\n"),
        }
    }

    /// Sends the request to the first process.
    ///
    /// # Errors
    /// Returns an error if it does not answer.
    pub(crate) async fn send(&self, socket: &Path) -> Result<Answer> {
        let exchange = async {
            let mut stream = UnixStream::connect(socket).await?;
            stream.write_all(self.line().as_bytes()).await?;
            let mut answer = String::new();
            stream.take(MAX_ANSWER).read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        let answer = timeout(LIMIT, exchange).await.context("the instance manager does not answer")?;
        let answer =
            answer.with_context(|| format!("cannot ask the instance manager at {}", socket.display()))?;
        let answer = answer.trim_end();
        match answer.split_once(' ').unwrap_or((answer, "")) {
            ("done", _) => Ok(Answer::Done),
            ("missing", _) => Ok(Answer::Missing),
            ("failed", reason) => Ok(Answer::Failed(reason.to_owned())),
            _ => bail!("the instance manager ended while it was asked"),
        }
    }
}

impl Answer {
    pub(super) fn line(&self) -> String {
        match self {
            Self::Done => "done\n".to_owned(),
            Self::Missing => "missing\n".to_owned(),
            Self::Failed(reason) => format!("failed {}\n", reason.replace('\n', " ")),
        }
    }
}

/// Returns whether PostgreSQL restores to a file of this name: those that the server uses, and for
/// `pg_rewind` the name of the file itself.
fn is_destination(file: &str) -> bool {
    ["RECOVERYXLOG", "RECOVERYHISTORY"].contains(&file) || file.parse::<WalFileName>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_as_they_are_written() {
        let name = "000000010000000000000002".parse().unwrap();
        for request in [Request::Archive(name), Request::Restore(name, "RECOVERYXLOG".to_owned())] {
            assert_eq!(Request::parse(&request.line()), Some(request));
        }
    }

    #[test]
    fn other_requests_are_refused() {
        for line in [
            "",
            "archive",
            "archive ../x",
            "archive 000000010000000000000002 x",
            "restore 000000010000000000000002",
            "restore 000000010000000000000002 ../x",
            "restore 000000010000000000000002 RECOVERYXLOG x",
            "delete 000000010000000000000002",
        ] {
            assert_eq!(Request::parse(line), None, "{line}");
        }
    }
}
