//! Which WAL the archive has.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use jiff::Timestamp;
use postgres_model::{
    archive::ArchiveObject,
    timeline::{History, TimelineId},
    wal_file::{WalFileName, WalSegment},
};

use super::MAX_SMALL;
use crate::{
    archive::Archive,
    checksum::Checksum,
    error::{ArchiveError, Damage},
    store::{Entry, Operation, StoreError},
};

/// Most segments of a listing in memory: 64 TiB of WAL in segments of 16 MiB.
const MAX_SEGMENTS: usize = 4 << 20;
/// Most timelines of a database.
const MAX_HISTORIES: usize = 10_000;

/// Segment in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedSegment {
    /// The segment.
    pub segment: WalSegment,
    /// When it was archived, by the clock of the store.
    pub archived_at: Timestamp,
}

impl Archive {
    /// Returns whether a file of `pg_wal` is archived. Reads no content.
    ///
    /// # Errors
    /// Returns an error if the store cannot be reached within the deadline.
    pub async fn has_wal(&self, name: WalFileName) -> Result<bool, ArchiveError> {
        Ok(self.store().exists(&self.key(ArchiveObject::Wal(name))).await?)
    }

    /// Lists the segments of a timeline from `first` on, in their order. Other objects are ignored.
    pub fn wal_segments(
        &self,
        first: WalSegment,
    ) -> BoxStream<'static, Result<ArchivedSegment, ArchiveError>> {
        let folder = self.folder(&format!("wal/{:08X}", first.timeline().get()));
        // Keys have an extension, so this one is before that of the first segment, and after all others.
        let after = format!("{folder}{first}");
        self.list_segments(&folder, Some(&after))
    }

    /// Returns all segments of the archive, with the times at which they were archived.
    ///
    /// # Errors
    /// Returns an error if there are more than 4,194,304 segments.
    pub async fn all_segments(&self) -> Result<BTreeMap<WalSegment, Timestamp>, ArchiveError> {
        let folder = self.folder("wal");
        let mut segments = BTreeMap::new();
        let mut stream = self.list_segments(&folder, None);
        while let Some(found) = stream.try_next().await? {
            if segments.len() == MAX_SEGMENTS {
                return Err(too_many(&folder, MAX_SEGMENTS).into());
            }
            segments.insert(found.segment, found.archived_at);
        }
        Ok(segments)
    }

    fn list_segments(
        &self,
        folder: &str,
        after: Option<&str>,
    ) -> BoxStream<'static, Result<ArchivedSegment, ArchiveError>> {
        let (archive, entries) = (self.clone(), self.store().list(folder, after));
        let segment = move |entry: Entry| match archive.object(&entry.key)? {
            ArchiveObject::Wal(WalFileName::Segment(segment)) => {
                Some(ArchivedSegment { segment, archived_at: entry.written_at })
            }
            _ => None,
        };
        let segments = entries.try_filter_map(move |entry| std::future::ready(Ok(segment(entry))));
        segments.map_err(ArchiveError::from).boxed()
    }

    /// Reads the history of a timeline. Returns `None` if it is not archived. Timeline 1 has none, and
    /// its empty history is returned.
    ///
    /// # Errors
    /// Returns an error if the object is damaged, or the store cannot be reached within the deadline.
    pub async fn history(&self, timeline: TimelineId) -> Result<Option<History>, ArchiveError> {
        if timeline == TimelineId::FIRST {
            return Ok(Some(History::first()));
        }
        let key = self.key(ArchiveObject::Wal(WalFileName::History(timeline)));
        let Some(found) = self.store().read(&key, MAX_SMALL).await? else { return Ok(None) };
        let history = parse_history(timeline, &found.bytes, found.checksum);
        history.map(Some).map_err(|damage| ArchiveError::damaged(key, damage))
    }

    /// Reads the histories of all timelines that are archived.
    ///
    /// # Errors
    /// Returns an error if one of them is damaged, there are more than 10,000, or the store cannot be
    /// reached within the deadline.
    pub async fn histories(&self) -> Result<BTreeMap<TimelineId, History>, ArchiveError> {
        let folder = self.folder("history");
        let mut entries = std::pin::pin!(self.store().list(&folder, None));
        let mut histories = BTreeMap::new();
        while let Some(entry) = entries.try_next().await? {
            if histories.len() == MAX_HISTORIES {
                return Err(too_many(&folder, MAX_HISTORIES).into());
            }
            if let Some(ArchiveObject::Wal(WalFileName::History(timeline))) = self.object(&entry.key)
                && let Some(history) = self.history(timeline).await?
            {
                histories.insert(timeline, history);
            }
        }
        Ok(histories)
    }
}

fn parse_history(timeline: TimelineId, bytes: &[u8], checksum: Option<Checksum>) -> Result<History, Damage> {
    let checksum = checksum.ok_or(Damage::NoChecksum)?;
    if checksum != Checksum::of(bytes) {
        return Err(Damage::Checksum);
    }
    let text = str::from_utf8(bytes).map_err(|error| Damage::Content(error.to_string()))?;
    History::parse(timeline, text).map_err(|error| Damage::Content(error.to_string()))
}

fn too_many(folder: &str, limit: usize) -> StoreError {
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    StoreError::TooLarge { operation: Operation::List, key: folder.to_owned(), limit, unit: "objects" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_verified_before_it_is_parsed() {
        let timeline = TimelineId::new(2).unwrap();
        let text = b"1\t0/3000000\tno recovery target specified\n";
        let parse = |bytes: &[u8], checksum| parse_history(timeline, bytes, checksum);
        assert_eq!(parse(text, Some(Checksum::of(text))).unwrap().timeline(), timeline);
        assert_eq!(parse(text, None), Err(Damage::NoChecksum));
        assert_eq!(parse(&text[..3], Some(Checksum::of(text))), Err(Damage::Checksum));
        for content in [&b"\xff"[..], b"2\t0/3000000\n"] {
            let damage = parse(content, Some(Checksum::of(content)));
            assert!(matches!(damage, Err(Damage::Content(_))), "{damage:?}");
        }
    }
}
