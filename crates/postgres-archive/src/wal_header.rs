//! First page of a WAL segment, as `XLogLongPageHeaderData` of `xlog_internal.h`.

use postgres_model::{
    lsn::Lsn,
    system_identifier::SystemIdentifier,
    wal_file::{SegmentSize, WalSegment},
};

/// Bytes of the header of the first page.
pub(crate) const HEADER: usize = 40;
/// Upper byte of `XLOG_PAGE_MAGIC`, from PostgreSQL 13 on. The lower byte changes with the format.
const MAGIC: u16 = 0xD1;
/// `XLP_LONG_HEADER`: the page has the fields that identify the segment.
const LONG_HEADER: u16 = 2;

/// Header of the first page of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    timeline: u32,
    address: Lsn,
    system: SystemIdentifier,
    size: SegmentSize,
}

/// Error of a content that is not the WAL segment that its name says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The length is that of no segment or no small file.
    #[error("it has {0} bytes, which no such file has")]
    Length(u64),
    /// The first page is no WAL.
    #[error("its first page is not WAL")]
    NotWal,
    /// The length is not the size of segments that the first page names.
    #[error("it has {length} bytes, and its first page says {size}")]
    Size {
        /// Length of the file.
        length: u64,
        /// Size that the first page names.
        size: u64,
    },
    /// The WAL is that of another database.
    #[error("it is WAL of the system {found}, and the archive is that of {expected}")]
    System {
        /// System identifier in the first page.
        found: SystemIdentifier,
        /// System identifier of the archive.
        expected: SystemIdentifier,
    },
    /// The WAL is that of another position: the segment was recycled and not written.
    #[error("its first page is that of {found}, and the name says {expected}")]
    Position {
        /// Position in the first page.
        found: Lsn,
        /// Position that the name says.
        expected: Lsn,
    },
    /// The WAL is that of a later timeline.
    #[error("its first page is that of timeline {found}, and the name says {expected}")]
    Timeline {
        /// Timeline in the first page.
        found: u32,
        /// Timeline that the name says.
        expected: u32,
    },
}

/// Checks the start of a segment of `length` bytes.
///
/// # Errors
/// Returns what contradicts the name, the length, or the system identifier.
pub(crate) fn check(
    start: &[u8],
    length: u64,
    segment: WalSegment,
    system: SystemIdentifier,
) -> Result<(), HeaderError> {
    let header = parse(start).ok_or(HeaderError::NotWal)?;
    if header.size.bytes() != length {
        return Err(HeaderError::Size { length, size: header.size.bytes() });
    }
    if header.system != system {
        return Err(HeaderError::System { found: header.system, expected: system });
    }
    // A name that segments of this size do not have is at no position.
    let expected = segment.start(header.size).unwrap_or(Lsn(u64::MAX));
    if header.address != expected {
        return Err(HeaderError::Position { found: header.address, expected });
    }
    // The first segment of a timeline begins with a copy of the pages of its parent.
    let expected = segment.timeline().get();
    if header.timeline == 0 || header.timeline > expected {
        return Err(HeaderError::Timeline { found: header.timeline, expected });
    }
    Ok(())
}

/// Reads the header. PostgreSQL writes WAL in the byte order of the machine, which is little-endian on
/// all machines of this project.
fn parse(start: &[u8]) -> Option<Header> {
    let (magic, rest) = start.split_first_chunk()?;
    let (info, rest) = rest.split_first_chunk()?;
    let (timeline, rest) = rest.split_first_chunk()?;
    let (address, rest) = rest.split_first_chunk()?;
    // The rest of a record of the page before, and padding.
    let (_, rest) = rest.split_first_chunk::<8>()?;
    let (system, rest) = rest.split_first_chunk()?;
    let (size, _) = rest.split_first_chunk()?;
    let is_first = u16::from_le_bytes(*magic) >> 8 == MAGIC && u16::from_le_bytes(*info) & LONG_HEADER != 0;
    is_first.then_some(Header {
        timeline: u32::from_le_bytes(*timeline),
        address: Lsn(u64::from_le_bytes(*address)),
        system: SystemIdentifier(u64::from_le_bytes(*system)),
        size: SegmentSize::from_bytes(u32::from_le_bytes(*size).into()).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use postgres_model::timeline::TimelineId;
    use proptest::prelude::*;

    use super::*;

    const SYSTEM: SystemIdentifier = SystemIdentifier(7_400_000_000_000_000_001);

    fn header(timeline: u32, address: u64, system: u64, size: u32) -> Vec<u8> {
        let mut page = vec![0x16, 0xD1, 6, 0];
        page.extend(timeline.to_le_bytes());
        page.extend(address.to_le_bytes());
        page.extend([0; 8]);
        page.extend(system.to_le_bytes());
        page.extend(size.to_le_bytes());
        page.extend(8192_u32.to_le_bytes());
        page
    }

    fn segment(timeline: u32, lsn: u64) -> WalSegment {
        WalSegment::at(TimelineId::new(timeline).unwrap(), Lsn(lsn), SegmentSize::DEFAULT)
    }

    fn checked(page: &[u8]) -> Result<(), HeaderError> {
        check(page, 16 << 20, segment(2, 0x300_0000), SYSTEM)
    }

    #[test]
    fn segment_can_begin_with_pages_of_an_earlier_timeline() {
        for timeline in [1, 2] {
            let page = header(timeline, 0x300_0000, SYSTEM.0, 16 << 20);
            assert_eq!(page.len(), HEADER);
            assert_eq!(checked(&page), Ok(()));
        }
    }

    #[test]
    fn other_segments_are_refused() {
        let size = 16 << 20;
        for (page, expected) in [
            (header(3, 0x300_0000, SYSTEM.0, size), HeaderError::Timeline { found: 3, expected: 2 }),
            (header(0, 0x300_0000, SYSTEM.0, size), HeaderError::Timeline { found: 0, expected: 2 }),
            (
                header(2, 0x200_0000, SYSTEM.0, size),
                HeaderError::Position { found: Lsn(0x200_0000), expected: Lsn(0x300_0000) },
            ),
            (
                header(2, 0x300_0000, 1, size),
                HeaderError::System { found: SystemIdentifier(1), expected: SYSTEM },
            ),
            (header(2, 0x300_0000, SYSTEM.0, 1 << 20), HeaderError::Size { length: 16 << 20, size: 1 << 20 }),
            (header(2, 0x300_0000, SYSTEM.0, 3 << 20), HeaderError::NotWal),
            (vec![0; 40], HeaderError::NotWal),
            (Vec::new(), HeaderError::NotWal),
        ] {
            assert_eq!(checked(&page), Err(expected));
        }
        let mut page = header(2, 0x300_0000, SYSTEM.0, size);
        page[2] = 0;
        assert_eq!(checked(&page), Err(HeaderError::NotWal));
    }

    proptest! {
        #[test]
        fn any_start_is_checked(page in prop::collection::vec(any::<u8>(), 0..64), length: u64) {
            let _ = check(&page, length, segment(1, 0), SYSTEM);
        }
    }
}
