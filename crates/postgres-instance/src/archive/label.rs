//! The file `backup_label`: where a base backup begins.
//!
//! It is the first file of the tar stream of `pg_basebackup`.

use std::io;

use postgres_model::{lsn::Lsn, timeline::TimelineId};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of a block of a tar stream.
const BLOCK: usize = 512;
/// Most bytes of the file.
const MAX_LABEL: usize = 16 << 10;
/// Name of the file.
const NAME: &[u8] = b"backup_label\0";

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
    let mut bytes = vec![0; BLOCK];
    tar.read_exact(&mut bytes).await?;
    let length = length(&bytes).ok_or_else(|| unexpected("it does not begin with backup_label"))?;
    let mut content = vec![0; length.next_multiple_of(BLOCK)];
    tar.read_exact(&mut content).await?;
    bytes.extend_from_slice(&content);
    let text = String::from_utf8_lossy(content.get(..length).unwrap_or_default()).into_owned();
    let label = parse(&text).ok_or_else(|| unexpected("its backup_label has another form"))?;
    Ok((label, bytes))
}

fn unexpected(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("cannot use the output of pg_basebackup: {problem}"))
}

/// Returns the bytes of the label by its header: the name, and the size in octal digits.
fn length(header: &[u8]) -> Option<usize> {
    let digits = header.get(124..135).filter(|_| header.starts_with(NAME))?;
    let digits = str::from_utf8(digits).ok()?.trim_matches([' ', '\0']);
    usize::from_str_radix(digits, 8).ok().filter(|length| *length <= MAX_LABEL)
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

    fn tar(name: &str, content: &str) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        bytes.extend_from_slice(content.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    #[tokio::test]
    async fn label_is_read_from_the_beginning_of_the_stream() {
        let stream = tar("backup_label", LABEL);
        let (label, bytes) = read(&mut &*[&*stream, b"rest"].concat()).await.unwrap();
        assert_eq!(label, Label { begin: Lsn(0x900_0028), timeline: TimelineId::new(3).unwrap() });
        assert_eq!(bytes, stream);
    }

    #[tokio::test]
    async fn other_streams_are_errors() {
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
