//! A cluster's life for tests of the pure parts: WAL, backups, and failovers that lose some of it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use postgres_model::{
    archive::BackupId,
    lsn::Lsn,
    system_identifier::SystemIdentifier,
    timeline::{History, TimelineId},
    wal_file::{SegmentSize, WalSegment},
};
use proptest::prelude::*;

use crate::{
    backup::{Backup, ClusterReference},
    wal::Row,
};

/// Seconds of an event.
const STEP: i64 = 6 * 3600;
/// Bytes of a segment.
pub(crate) const SEGMENT: u64 = 16 << 20;

pub(crate) fn timeline(number: u32) -> TimelineId {
    TimelineId::new(number).unwrap()
}

/// Returns a backup on a timeline from one position to another, which ended in a second after 1970.
pub(crate) fn backup(timeline: u32, begin: u64, end: u64, stopped_at: i64) -> Backup {
    let timeline = self::timeline(timeline);
    let stopped_at = Timestamp::from_second(stopped_at).unwrap();
    let segment_size = SegmentSize::DEFAULT;
    Backup {
        id: BackupId::new(&stopped_at.strftime("%Y%m%dT%H%M%SZ").to_string(), timeline).unwrap(),
        based_on: None,
        system: SystemIdentifier(7_400_000_000_000_000_001),
        server_version: "17.6".parse().unwrap(),
        timeline,
        begin_lsn: Lsn(begin),
        end_lsn: Lsn(end),
        begin_wal: WalSegment::at(timeline, Lsn(begin), segment_size),
        end_wal: WalSegment::at(timeline, Lsn(end - 1), segment_size),
        segment_size,
        started_at: stopped_at,
        stopped_at,
        raw_bytes: 0,
        stored_bytes: 0,
        member: "db-1".to_owned(),
        cluster: ClusterReference { name: "db".to_owned(), uid: "2c1f1c4e".to_owned() },
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// WAL of a number of bytes.
    Wal(u64),
    /// A backup during which this much WAL is written.
    Backup(u64),
    /// A failover that loses this much WAL.
    Failover(u64),
}

/// What is in the archive at the end.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) backups: Vec<Backup>,
    /// The history of each timeline.
    pub(crate) histories: BTreeMap<TimelineId, History>,
    /// All segments up to the last position of each timeline, and when each was archived.
    pub(crate) segments: BTreeMap<WalSegment, Timestamp>,
    pub(crate) now: Timestamp,
    timeline: TimelineId,
    lines: String,
    /// Where the present timeline began, and where its WAL ends.
    begin: u64,
    end: u64,
}

impl Life {
    fn new() -> Self {
        let timeline = TimelineId::FIRST;
        let mut life = Self {
            backups: Vec::new(),
            histories: BTreeMap::from([(timeline, History::first())]),
            segments: BTreeMap::new(),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            timeline,
            lines: String::new(),
            begin: 0,
            end: SEGMENT + 40,
        };
        life.archive();
        life
    }

    /// Returns the history of the present timeline.
    pub(crate) fn history(&self) -> &History {
        &self.histories[&self.timeline]
    }

    fn happen(&mut self, event: Event) {
        self.now = Timestamp::from_second(self.now.as_second() + STEP).unwrap();
        match event {
            Event::Wal(bytes) => self.end += bytes,
            Event::Backup(bytes) => {
                let begin = self.end;
                self.end += bytes + 1;
                let mut backup = backup(self.timeline.get(), begin, self.end, self.now.as_second());
                backup.started_at = Timestamp::from_second(self.now.as_second() - STEP / 2).unwrap();
                self.backups.push(backup);
            }
            Event::Failover(lost) => self.fail_over(self.end.saturating_sub(lost).max(self.begin + 1)),
        }
        self.archive();
    }

    fn fail_over(&mut self, fork: u64) {
        self.lines.extend([self.timeline.to_string(), format!("\t{}\n", Lsn(fork))]);
        self.timeline = self.timeline.next().unwrap();
        self.histories.insert(self.timeline, History::parse(self.timeline, &self.lines).unwrap());
        (self.begin, self.end) = (fork, fork + 1);
    }

    /// Archives the segments of the present timeline, the last of them too.
    fn archive(&mut self) {
        for number in self.begin / SEGMENT..=self.end / SEGMENT {
            let segment = WalSegment::at(self.timeline, Lsn(number * SEGMENT), SegmentSize::DEFAULT);
            self.segments.entry(segment).or_insert(self.now);
        }
    }

    /// Returns all segments that recoveries from a backup to any point read.
    pub(crate) fn needed(&self, backup: &Backup) -> BTreeSet<WalSegment> {
        let histories = self.histories.values().filter(|history| backup.is_on(history));
        histories.flat_map(|history| self.needed_on(backup, history)).collect()
    }

    /// Returns the segments that recoveries from a backup on one history read, in their order.
    pub(crate) fn needed_on(&self, backup: &Backup, history: &History) -> Vec<WalSegment> {
        let row = Row::new(history, SegmentSize::DEFAULT);
        let numbers = row.number(backup.begin_wal).unwrap()..;
        let segments = numbers.map(|number| row.segment(number).unwrap());
        segments.take_while(|segment| self.segments.contains_key(segment)).collect()
    }
}

/// Lives of up to 24 events.
pub(crate) fn lives() -> impl Strategy<Value = Life> {
    let event = prop_oneof![
        (0..5 * SEGMENT).prop_map(Event::Wal),
        (0..2 * SEGMENT).prop_map(Event::Backup),
        (0..3 * SEGMENT).prop_map(Event::Failover),
    ];
    prop::collection::vec(event, 0..24).prop_map(|events| {
        let mut life = Life::new();
        for event in events {
            life.happen(event);
        }
        life
    })
}
