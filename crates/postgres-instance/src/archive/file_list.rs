//! The list of the files of a base backup: `backup_manifest`.
//!
//! `pg_basebackup` writes it at the end of the tar stream. An incremental backup needs the list of the one that
//! it is based on.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use postgres_archive::MAX_FILE_LIST_BYTES;
use tokio::io::{AsyncRead, ReadBuf};

use super::tar;

/// Name of the file.
const NAME: &[u8] = b"backup_manifest";

/// A tar stream, of which the list is copied while it is read.
pub(super) struct FileListReader<R> {
    tar: R,
    scanner: Scanner,
}

impl<R> FileListReader<R> {
    pub(super) fn new(tar: R) -> Self {
        Self { tar, scanner: Scanner::default() }
    }

    /// Returns the list, if the stream had one that is not too long.
    pub(super) fn into_list(self) -> Option<Vec<u8>> {
        self.scanner.list.filter(|_| self.scanner.left_of_list == 0)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for FileListReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.tar).poll_read(context, buffer))?;
        self.scanner.scan(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

/// Finds the list in a tar stream that arrives in pieces.
#[derive(Default)]
struct Scanner {
    /// Beginning of a header.
    header: Vec<u8>,
    /// What is left of the content of the present file, padded.
    left: u64,
    /// What is left of the list, if that is the present file.
    left_of_list: usize,
    list: Option<Vec<u8>>,
    /// Whether a header cannot be understood, so that nothing more is found.
    is_lost: bool,
}

impl Scanner {
    fn scan(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_lost {
            let taken = if self.left > 0 { self.skip(bytes) } else { self.read_header(bytes) };
            bytes = bytes.get(taken..).unwrap_or_default();
        }
    }

    /// Goes through the content of a file. Returns how many bytes were of it.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        let taken = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        if let Some(list) = &mut self.list {
            let copied = taken.min(self.left_of_list);
            list.extend(bytes.iter().take(copied));
            self.left_of_list -= copied;
        }
        self.left -= u64::try_from(taken).unwrap_or_default();
        taken
    }

    /// Goes through a header. Returns how many bytes were of it.
    fn read_header(&mut self, bytes: &[u8]) -> usize {
        let taken = (tar::BLOCK - self.header.len()).min(bytes.len());
        self.header.extend(bytes.iter().take(taken));
        if self.header.len() == tar::BLOCK {
            self.begin_file();
            self.header.clear();
        }
        taken
    }

    fn begin_file(&mut self) {
        // Zeros follow the last file.
        if self.header.iter().all(|byte| *byte == 0) {
            return;
        }
        let size = tar::size(&self.header);
        let padded = size.and_then(|size| size.checked_next_multiple_of(tar::BLOCK as u64));
        let (Some(size), Some(padded)) = (size, padded) else {
            self.is_lost = true;
            return;
        };
        self.left = padded;
        let length = usize::try_from(size).ok().filter(|length| *length <= MAX_FILE_LIST_BYTES);
        if tar::name(&self.header) == NAME
            && let Some(length) = length
        {
            (self.list, self.left_of_list) = (Some(Vec::with_capacity(length)), length);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;

    use super::*;

    fn stream(list: &[u8]) -> Vec<u8> {
        let mut stream = tar::entry("backup_label", b"START");
        stream.extend(tar::entry("base/1/backup_manifest", &[7; 1000]));
        stream.extend(tar::entry("backup_manifest", list));
        stream.extend([0; 2 * tar::BLOCK]);
        stream
    }

    #[tokio::test]
    async fn list_is_copied_and_the_stream_is_unchanged() {
        for length in [0, 1, 511, 512, 513, 5000] {
            let list = vec![1; length];
            let stream = stream(&list);
            let mut reader = FileListReader::new(&*stream);
            let mut read = Vec::new();
            reader.read_to_end(&mut read).await.unwrap();
            assert_eq!((read, reader.into_list()), (stream, Some(list)));
        }
    }

    #[tokio::test]
    async fn stream_without_a_whole_list_has_none() {
        let stream = stream(&[1; 1000]);
        for end in [0, 600, 3000, stream.len() - 3 * tar::BLOCK] {
            let mut reader = FileListReader::new(&stream[..end]);
            reader.read_to_end(&mut Vec::new()).await.unwrap();
            assert_eq!(reader.into_list(), None, "{end}");
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(cuts in prop::collection::vec(1..700_usize, 1..20), length in 0..2000_usize) {
            let (list, mut scanner) = (vec![3; length], Scanner::default());
            let stream = stream(&list);
            let (mut rest, mut cuts) = (&*stream, cuts.iter().cycle());
            while !rest.is_empty() {
                let (piece, next) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                scanner.scan(piece);
                rest = next;
            }
            prop_assert_eq!(scanner.list, Some(list));
        }

        #[test]
        fn any_bytes_are_scanned(bytes: Vec<u8>) {
            Scanner::default().scan(&bytes);
        }
    }
}
