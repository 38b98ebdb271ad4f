//! The file `backup_label`: where a base backup begins.
//!
//! It is the first file of the tar stream of `pg_basebackup`.

use std::io;

use postgres_model::{lsn::Lsn, timeline::TimelineId};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::tar;

/// Most bytes of the file.
const MAX_LABEL: u64 = 16 << 10;
/// Name of the file.
const NAME: &[u8] = b"backup_label";

/// Where a base backup begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) begin: Lsn,
    pub(super) timeline: TimelineId,
}

/// Reads the beginning of a tar stream up to the end of the label. Returns the bytes that were read.
///
/// # Errors
/// Returns an error if the stream begins with another file.
pub(super) async fn read(tar: &mut (impl AsyncRead + Unpin)) -> io::Result<(Label, Vec<u8>)> {
    let mut bytes = vec![0; tar::BLOCK];
    tar.read_exact(&mut bytes).await?;
    let length = length(&bytes).ok_or_else(|| unexpected("it does not begin with backup_label"))?;
    let mut content = vec![0; length.next_multiple_of(tar::BLOCK)];
    tar.read_exact(&mut content).await?;
    bytes.extend_from_slice(&content);
    let text = String::from_utf8_lossy(content.get(..length).unwrap_or_default()).into_owned();
    let label = parse(&text).ok_or_else(|| unexpected("its backup_label has another form"))?;
    Ok((label, bytes))
}

fn unexpected(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("cannot use the output of pg_basebackup: {problem}"))
}

/// Returns the bytes of the label by its header.
fn length(header: &[u8]) -> Option<usize> {
    let size = tar::size(header).filter(|size| tar::name(header) == NAME && *size <= MAX_LABEL)?;
    usize::try_from(size).ok()
}

fn parse(text: &str) -> Option<Label> {
    let begin = value(text, "START WAL LOCATION")?.split(' ').next()?.parse().ok()?;
    let timeline = TimelineId::new(value(text, "START TIMELINE")?.parse().ok()?).ok()?;
    Some(Label { begin, timeline })
}

/// Returns where a backup of a primary ended, by its history file.
pub(super) fn end(history: &str) -> Option<(Lsn, TimelineId)> {
    let end = value(history, "STOP WAL LOCATION")?.split(' ').next()?.parse().ok()?;
    let timeline = TimelineId::new(value(history, "STOP TIMELINE")?.parse().ok()?).ok()?;
    Some((end, timeline))
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = "START WAL LOCATION: 0/9000028 (file 000000010000000000000009)\n\
        CHECKPOINT LOCATION: 0/9000060\nBACKUP METHOD: streamed\nBACKUP FROM: standby\n\
        START TIME: 2026-11-25 02:00:00 GMT\nLABEL: x\nSTART TIMELINE: 3\n";

    #[tokio::test]
    async fn label_is_read_from_the_beginning_of_the_stream() {
        let stream = tar::entry("backup_label", LABEL.as_bytes());
        let (label, bytes) = read(&mut &*[&*stream, b"rest"].concat()).await.unwrap();
        assert_eq!(label, Label { begin: Lsn(0x900_0028), timeline: TimelineId::new(3).unwrap() });
        assert_eq!(bytes, stream);
    }

    #[tokio::test]
    async fn other_streams_are_errors() {
        let tar = |name, content: &str| tar::entry(name, content.as_bytes());
        for stream in
            [tar("base", LABEL), tar("backup_label", "x"), tar("backup_label", LABEL)[..600].to_vec()]
        {
            assert!(read(&mut &*stream).await.is_err());
        }
    }

    #[test]
    fn end_is_in_the_history_of_a_backup() {
        let text = format!(
            "{LABEL}STOP WAL LOCATION: 0/9000138 (file 000000010000000000000009)\nSTOP TIMELINE: 3\n"
        );
        assert_eq!(end(&text), Some((Lsn(0x900_0138), TimelineId::new(3).unwrap())));
        assert_eq!(end(LABEL), None);
    }
}
