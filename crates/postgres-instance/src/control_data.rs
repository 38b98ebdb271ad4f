//! What `pg_controldata` prints about a data directory.

use std::{fs, io, path::Path};

use postgres_model::{
    lsn::Lsn,
    system_identifier::SystemIdentifier,
    timeline::{History, Position, TimelineId},
};

use crate::programs::{ProgramError, Programs};

/// Control data of a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControlFile {
    /// System identifier.
    pub(crate) system_identifier: SystemIdentifier,
    /// Timeline of the last checkpoint, or of the WAL that has to be replayed at least.
    pub(crate) timeline: TimelineId,
    /// Where a primary stopped cleanly: the beginning of its last record.
    pub(crate) shutdown: Option<Position>,
}

/// Error of control data that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlDataError {
    /// The program failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A line is missing, or has another form.
    #[error(
        "pg_controldata printed no usable \"{0}\"; the data directory may be damaged, or of a version of \
         PostgreSQL that is not supported"
    )]
    Line(&'static str),
    /// A history file cannot be read.
    #[error("cannot read the history of timeline {timeline}")]
    History {
        /// The timeline.
        timeline: TimelineId,
        /// Why.
        source: anyhow::Error,
    },
}

/// Reads the control data of a data directory.
///
/// # Errors
/// Returns an error if `pg_controldata` fails or prints something else than expected.
pub(crate) async fn read(programs: &Programs, data: &Path) -> Result<ControlFile, ControlDataError> {
    let output = programs.output("pg_controldata", &["-D".as_ref(), data.as_os_str()]).await?;
    parse(&output)
}

fn parse(output: &str) -> Result<ControlFile, ControlDataError> {
    let system_identifier = value(output, "Database system identifier")?;
    let checkpoint_timeline = timeline(output, "Latest checkpoint's TimeLineID")?;
    // Zero if there is no such WAL.
    let needed_timeline = timeline(output, "Min recovery ending loc's timeline").ok();
    let timeline = needed_timeline.map_or(checkpoint_timeline, |needed| needed.max(checkpoint_timeline));
    let checkpoint: Lsn = value(output, "Latest checkpoint location")?;
    let is_stopped_primary = text(output, "Database cluster state")? == "shut down";
    let shutdown =
        is_stopped_primary.then_some(Position { timeline: checkpoint_timeline, lsn: Lsn(checkpoint.0 + 1) });
    Ok(ControlFile { system_identifier, timeline, shutdown })
}

/// What an upgraded data directory has in common with the former one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Size of a segment of WAL, in MiB.
    pub(crate) segment_mebibytes: u64,
    /// Whether pages have checksums.
    pub(crate) has_checksums: bool,
}

/// Reads the layout of a data directory.
///
/// # Errors
/// Returns an error if `pg_controldata` fails or prints something else than expected.
pub(crate) async fn layout(programs: &Programs, data: &Path) -> Result<Layout, ControlDataError> {
    let output = programs.output("pg_controldata", &["-D".as_ref(), data.as_os_str()]).await?;
    parse_layout(&output)
}

fn parse_layout(output: &str) -> Result<Layout, ControlDataError> {
    let bytes: u64 = value(output, "Bytes per WAL segment")?;
    let checksums: u32 = value(output, "Data page checksum version")?;
    Ok(Layout { segment_mebibytes: bytes >> 20, has_checksums: checksums > 0 })
}

fn timeline(output: &str, label: &'static str) -> Result<TimelineId, ControlDataError> {
    TimelineId::new(value(output, label)?).map_err(|_| ControlDataError::Line(label))
}

fn value<T: std::str::FromStr>(output: &str, label: &'static str) -> Result<T, ControlDataError> {
    text(output, label)?.parse().map_err(|_| ControlDataError::Line(label))
}

fn text<'a>(output: &'a str, label: &'static str) -> Result<&'a str, ControlDataError> {
    let value = |line: &'a str| line.strip_prefix(label)?.strip_prefix(':').map(str::trim);
    output.lines().find_map(value).ok_or(ControlDataError::Line(label))
}

/// Returns the history of the newest timeline in `pg_wal` that is not above `most`.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub(crate) fn newest_history(data: &Path, most: TimelineId) -> Result<History, ControlDataError> {
    let failed = |timeline, source| ControlDataError::History { timeline, source };
    let newest = histories_in(&data.join("pg_wal")).map_err(|error| failed(most, error.into()))?;
    let Some(timeline) = newest.into_iter().filter(|timeline| *timeline <= most).max() else {
        return Ok(History::first());
    };
    let text = fs::read_to_string(path(data, timeline)).map_err(|error| failed(timeline, error.into()))?;
    History::parse(timeline, &text).map_err(|error| failed(timeline, error.into()))
}

/// Removes history files of timelines above `most`.
///
/// They are left by interrupted promotions. A standby with such a file waits for a timeline that
/// nobody writes.
///
/// # Errors
/// Returns the error of the file system.
pub(crate) fn remove_histories_above(data: &Path, most: TimelineId) -> io::Result<()> {
    let above = histories_in(&data.join("pg_wal"))?.into_iter().filter(|timeline| *timeline > most);
    above.map(|timeline| path(data, timeline)).try_for_each(|path| crate::durable::remove(&path))
}

/// Returns the path of a history file.
pub(crate) fn path(data: &Path, timeline: TimelineId) -> std::path::PathBuf {
    data.join("pg_wal").join(format!("{:08X}.history", timeline.get()))
}

/// Returns the timelines with a history file in `pg_wal`.
///
/// # Errors
/// Returns the error of the file system.
pub(crate) fn histories_in(wal: &Path) -> io::Result<Vec<TimelineId>> {
    let number = |name: &str| u32::from_str_radix(name.strip_suffix(".history")?, 16).ok();
    let mut timelines = Vec::new();
    for entry in fs::read_dir(wal)? {
        let timeline = entry?.file_name().to_str().and_then(number).map(TimelineId::new);
        timelines.extend(timeline.and_then(Result::ok));
    }
    Ok(timelines)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
Database system identifier:           7300000000000000001
Database cluster state:               shut down
Latest checkpoint location:           0/3000028
Latest checkpoint's TimeLineID:       1
Minimum recovery ending location:     0/0
Min recovery ending loc's timeline:   0
";

    fn position(timeline: u32, lsn: u64) -> Position {
        Position { timeline: TimelineId::new(timeline).unwrap(), lsn: Lsn(lsn) }
    }

    #[test]
    fn clean_stop_of_a_primary_tells_where_its_wal_ends() {
        let control = parse(OUTPUT).unwrap();
        assert_eq!(control.system_identifier, SystemIdentifier(7_300_000_000_000_000_001));
        assert_eq!(control.timeline, TimelineId::FIRST);
        assert_eq!(control.shutdown, Some(position(1, 0x300_0029)));
        let crashed = OUTPUT.replace("shut down", "in production");
        assert_eq!(parse(&crashed).unwrap().shutdown, None);
        let standby = OUTPUT.replace("shut down", "shut down in recovery");
        assert_eq!(parse(&standby).unwrap().shutdown, None);
    }

    #[test]
    fn promotion_without_a_checkpoint_is_seen() {
        let promoted = OUTPUT
            .replace("shut down", "in production")
            .replace("loc's timeline:   0", "loc's timeline:   2");
        assert_eq!(parse(&promoted).unwrap().timeline.get(), 2);
    }

    #[test]
    fn missing_and_unreadable_lines_are_errors() {
        for (from, to) in
            [("0/3000028", "x"), ("TimeLineID:       1", "TimeLineID: 0"), ("Database system", "")]
        {
            let error = parse(&OUTPUT.replace(from, to)).unwrap_err();
            assert!(error.to_string().starts_with("pg_controldata printed no usable"), "{error}");
        }
    }

    #[test]
    fn newest_history_within_the_bound_counts_and_those_above_are_removed() {
        let data = tempfile::tempdir().unwrap();
        let timeline = |number| TimelineId::new(number).unwrap();
        fs::create_dir(data.path().join("pg_wal")).unwrap();
        assert_eq!(newest_history(data.path(), timeline(9)).unwrap(), History::first());
        fs::write(path(data.path(), timeline(2)), "1\t0/50\n").unwrap();
        fs::write(path(data.path(), timeline(3)), "1\t0/0\n2\t0/0\n").unwrap();
        fs::write(data.path().join("pg_wal/000000010000000000000001"), "").unwrap();
        assert_eq!(newest_history(data.path(), timeline(2)).unwrap().to_string(), "1\t0/50\n");
        remove_histories_above(data.path(), timeline(2)).unwrap();
        assert_eq!(newest_history(data.path(), timeline(9)).unwrap().timeline(), timeline(2));
        fs::write(path(data.path(), timeline(2)), "x").unwrap();
        let error = newest_history(data.path(), timeline(2)).unwrap_err();
        assert_eq!(error.to_string(), "cannot read the history of timeline 2");
    }
}
