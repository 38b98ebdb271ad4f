//! Reads, checks, and compresses a file that is to be archived.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use postgres_model::{
    system_identifier::SystemIdentifier,
    wal_file::{SegmentSize, WalFileName},
};

use super::{is_plain, max_bytes};
use crate::{
    checksum::Hasher,
    compression::{Encoder, Pieces, encoder},
    error::ArchiveError,
    store::Content,
    wal_header::{self, HeaderError},
};

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// Reads a file and returns what the archive stores. Blocks.
///
/// # Errors
/// Returns an error if the file cannot be read, or is not what its name says.
pub(super) fn prepare(
    name: WalFileName,
    path: &Path,
    system: SystemIdentifier,
) -> Result<Content, ArchiveError> {
    let read_error = |source| ArchiveError::file("read", path, source);
    let file_error = |error| ArchiveError::WalFile { path: path.to_owned(), error };
    let mut file = File::open(path).map_err(read_error)?;
    let length = file.metadata().map_err(read_error)?.len();
    check_length(name, length).map_err(file_error)?;
    let (start, mut writer) = (start(&mut file).map_err(read_error)?, Writer::new(name).map_err(read_error)?);
    check_start(name, &start, length, system).map_err(file_error)?;
    // A file that grows while it is read is longer than its length.
    let mut rest = io::Cursor::new(start).chain(file.take(length));
    let read = copy(&mut rest, &mut writer).map_err(read_error)?;
    if read != length {
        return Err(file_error(HeaderError::Length(read)));
    }
    writer.finish().map_err(read_error)
}

fn check_length(name: WalFileName, length: u64) -> Result<(), HeaderError> {
    let is_valid = match name {
        WalFileName::Segment(_) | WalFileName::Partial(_) => SegmentSize::from_bytes(length).is_ok(),
        WalFileName::History(_) | WalFileName::Backup { .. } => length <= max_bytes(name),
    };
    if is_valid { Ok(()) } else { Err(HeaderError::Length(length)) }
}

/// Reads the bytes in which a segment has its header.
fn start(file: &mut File) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.take(u64::try_from(wal_header::HEADER).unwrap_or_default()).read_to_end(&mut start)?;
    Ok(start)
}

/// Checks the first page of a segment. Other files have no header.
pub(super) fn check_start(
    name: WalFileName,
    start: &[u8],
    length: u64,
    system: SystemIdentifier,
) -> Result<(), HeaderError> {
    match name {
        WalFileName::Segment(segment) | WalFileName::Partial(segment) => {
            wal_header::check(start, length, segment, system)
        }
        WalFileName::History(_) | WalFileName::Backup { .. } => Ok(()),
    }
}

fn copy(from: &mut impl Read, to: &mut Writer) -> io::Result<u64> {
    let (mut chunk, mut copied) = (vec![0; CHUNK], 0);
    loop {
        let bytes = match from.read(&mut chunk) {
            Ok(0) => return Ok(copied),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write(chunk.get(..bytes).unwrap_or_default())?;
        copied += u64::try_from(bytes).unwrap_or_default();
    }
}

/// Collects what the archive stores.
struct Writer {
    hasher: Hasher,
    output: Output,
}

enum Output {
    Plain(Pieces),
    Compressed(Encoder<Pieces>),
}

impl Writer {
    fn new(name: WalFileName) -> io::Result<Self> {
        let pieces = Pieces::default();
        let output =
            if is_plain(name) { Output::Plain(pieces) } else { Output::Compressed(encoder(pieces)?) };
        Ok(Self { hasher: Hasher::new(), output })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        match &mut self.output {
            Output::Plain(pieces) => pieces.write_all(bytes),
            Output::Compressed(encoder) => encoder.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<Content> {
        let pieces = match self.output {
            Output::Plain(pieces) => pieces,
            Output::Compressed(encoder) => encoder.finish()?,
        };
        Ok(Content { payload: pieces.into_inner().into_iter().collect(), checksum: self.hasher.finish() })
    }
}
