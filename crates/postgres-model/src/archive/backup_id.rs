//! Identifiers of base backups.

use std::{fmt, str::FromStr};

use crate::{hex, timeline::TimelineId};

/// Form of the time: each `0` stands for a digit.
const TIME_FORM: &str = "00000000T000000Z";
/// Numbers of two digits in the time: the position, the lowest value, and the highest value.
const TIME_FIELDS: [(usize, u8, u8); 5] = [(4, 1, 12), (6, 1, 31), (9, 0, 23), (11, 0, 59), (13, 0, 59)];

/// Identifier of a base backup: the time at which it began, in UTC, and its timeline. For example
/// `20261123T183000Z-00000004`.
///
/// Ordered by time. The text has the same order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupId {
    time: String,
    timeline: TimelineId,
}

/// Error of a text that is no identifier of a backup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not the identifier of a backup: write a time in UTC and a timeline, such as \
     20261123T183000Z-00000004"
)]
pub struct ParseBackupIdError(String);

impl BackupId {
    /// Returns the identifier of a backup that began at a time such as `20261123T183000Z`.
    ///
    /// # Errors
    /// Returns an error if the time has another form.
    pub fn new(time: &str, timeline: TimelineId) -> Result<Self, ParseBackupIdError> {
        if !is_time(time) {
            return Err(ParseBackupIdError(time.to_owned()));
        }
        Ok(Self { time: time.to_owned(), timeline })
    }

    /// Returns the timeline on which the backup began.
    pub fn timeline(&self) -> TimelineId {
        self.timeline
    }

    /// Returns the time at which the backup began, such as `20261123T183000Z`.
    pub fn time(&self) -> &str {
        &self.time
    }
}

impl FromStr for BackupId {
    type Err = ParseBackupIdError;

    fn from_str(text: &str) -> Result<Self, ParseBackupIdError> {
        let parts = text.split_once('-').and_then(|(time, timeline)| Some((time, parse_timeline(timeline)?)));
        let backup = parts.and_then(|(time, timeline)| Self::new(time, timeline).ok());
        backup.ok_or_else(|| ParseBackupIdError(text.to_owned()))
    }
}

fn parse_timeline(digits: &str) -> Option<TimelineId> {
    let (timeline, rest) = hex::split(digits)?;
    TimelineId::new(timeline).ok().filter(|_| rest.is_empty())
}

/// Returns whether a text is a time. Whether the month has the day is not checked.
fn is_time(text: &str) -> bool {
    let matches_form =
        |(byte, form): (u8, u8)| if form == b'0' { byte.is_ascii_digit() } else { byte == form };
    let has_form = text.len() == TIME_FORM.len() && text.bytes().zip(TIME_FORM.bytes()).all(matches_form);
    let in_range = |(at, lowest, highest): (usize, u8, u8)| {
        let number = text.get(at..at + 2).and_then(|digits| digits.parse().ok());
        number.is_some_and(|number| (lowest..=highest).contains(&number))
    };
    has_form && TIME_FIELDS.into_iter().all(in_range)
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:08X}", self.time, self.timeline.get())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn identifier_names_time_and_timeline() {
        let backup: BackupId = "20261123T183000Z-0000000A".parse().unwrap();
        assert_eq!((backup.time(), backup.timeline().get()), ("20261123T183000Z", 10));
        assert!(backup < "20261123T183001Z-00000002".parse().unwrap());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "20261123T183000Z",
            "20261123T183000Z-",
            "20261123T183000Z-00000000",
            "20261123T183000Z-0000000a",
            "20261123T183000Z-000000010",
            "20261323T183000Z-00000001",
            "20260023T183000Z-00000001",
            "20261100T183000Z-00000001",
            "20261123T243000Z-00000001",
            "20261123T186000Z-00000001",
            "20261123T183060Z-00000001",
            "20261123 183000Z-00000001",
            "2026112éT18300Z-00000001",
            "2026-11-23T18:30:00Z-00000001",
        ] {
            assert_eq!(text.parse::<BackupId>(), Err(ParseBackupIdError(text.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn accepted_text_renders_back(text in "\\PC*|20[0-9]{2}[01][0-9][0-3][0-9]T[0-2][0-9][0-5][0-9][0-5][0-9]Z-[0-9A-F]{8}") {
            if let Ok(backup) = text.parse::<BackupId>() {
                prop_assert_eq!(backup.to_string(), text);
            }
        }
    }
}
