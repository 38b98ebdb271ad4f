//! When a schedule makes backups. Pure functions.

use cronexpr::{Crontab, parse_crontab};
use jiff::{SignedDuration, Timestamp};

use crate::api::BackupSchedule;

/// How far back missed times are looked for, in hours, from near to far.
const WINDOWS: [i64; 4] = [24, 24 * 8, 24 * 40, 24 * 400];
/// Most times within a window.
const MAX_TIMES: usize = 1500;

/// A schedule that can be used.
pub(super) struct Schedule(Crontab);

impl Schedule {
    /// Parses the cron expression and the time zone.
    ///
    /// # Errors
    /// Returns the words of the parser.
    pub(super) fn parse(schedule: &BackupSchedule) -> Result<Self, String> {
        let zone = schedule.time_zone.as_deref().unwrap_or("UTC");
        let line = format!("{} {zone}", schedule.cron);
        parse_crontab(&line).map(Self).map_err(|error| error.to_string())
    }

    /// Returns the first time after a moment.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.0.find_next(after.to_string().as_str()).ok().map(|next| next.timestamp())
    }

    /// Returns the last time that is due after one, up to the present. All missed times are one.
    pub(super) fn due(&self, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        WINDOWS.into_iter().find_map(|hours| {
            let start = now.checked_sub(SignedDuration::from_hours(hours)).ok()?.max(after);
            let times = std::iter::successors(self.next(start), |last| self.next(*last));
            times.take(MAX_TIMES).take_while(|time| *time <= now).last()
        })
    }

    /// Returns the time between the next two backups.
    pub(super) fn interval(&self, now: Timestamp) -> Option<SignedDuration> {
        let next = self.next(now)?;
        Some(self.next(next)?.duration_since(next))
    }
}

/// Returns the name of the backup of a schedule at a time.
pub(super) fn name(cluster: &str, schedule: &str, time: Timestamp) -> String {
    format!("{cluster}-{schedule}-{}", time.strftime("%Y%m%d%H%M"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{BackupTarget, BackupType};

    fn schedule(cron: &str, zone: Option<&str>) -> BackupSchedule {
        BackupSchedule {
            name: "daily".to_owned(),
            cron: cron.to_owned(),
            time_zone: zone.map(str::to_owned),
            backup_type: BackupType::default(),
            target: BackupTarget::default(),
            suspend: false,
        }
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn missed_times_are_made_up_for_once() {
        let daily = Schedule::parse(&schedule("0 3 * * *", None)).unwrap();
        let last = time("2026-11-20T03:00:00Z");
        assert_eq!(daily.due(last, time("2026-11-21T02:59:59Z")), None);
        assert_eq!(daily.due(last, time("2026-11-21T03:00:00Z")), Some(time("2026-11-21T03:00:00Z")));
        assert_eq!(daily.due(last, time("2026-11-25T12:00:00Z")), Some(time("2026-11-25T03:00:00Z")));
        assert_eq!(daily.next(last), Some(time("2026-11-21T03:00:00Z")));
        let yearly = Schedule::parse(&schedule("0 3 1 1 *", None)).unwrap();
        assert_eq!(yearly.due(time("2020-01-01T00:00:00Z"), last), Some(time("2026-01-01T03:00:00Z")));
        let often = Schedule::parse(&schedule("* * * * *", None)).unwrap();
        assert_eq!(often.due(time("2020-01-01T00:00:00Z"), last), Some(last));
        assert_eq!(often.interval(last), Some(SignedDuration::from_mins(1)));
    }

    #[test]
    fn time_zone_has_its_summer_time() {
        let schedule = schedule("30 2 * * *", Some("Europe/Berlin"));
        let schedule = Schedule::parse(&schedule).unwrap();
        assert_eq!(schedule.next(time("2026-07-01T12:00:00Z")), Some(time("2026-07-02T00:30:00Z")));
        assert_eq!(schedule.next(time("2026-12-01T12:00:00Z")), Some(time("2026-12-02T01:30:00Z")));
    }

    #[test]
    fn parser_says_what_is_wrong() {
        for (cron, zone) in
            [("61 * * * *", None), ("* * * * x", None), ("0 3 * * *", Some("Europe/Atlantis"))]
        {
            let error = Schedule::parse(&schedule(cron, zone)).err().unwrap();
            assert!(!error.is_empty(), "{cron}");
        }
    }

    #[test]
    fn date_that_does_not_exist_is_never_due() {
        let never = Schedule::parse(&schedule("0 3 30 2 *", None));
        let (last, now) = (time("2020-01-01T00:00:00Z"), time("2026-11-25T12:00:00Z"));
        let never = never.ok();
        assert_eq!(never.as_ref().and_then(|never| never.due(last, now)), None);
        assert_eq!(never.as_ref().and_then(|never| never.next(now)), None);
    }

    #[test]
    fn name_has_the_minute_in_utc() {
        assert_eq!(name("db", "daily", time("2026-11-25T03:00:00Z")), "db-daily-202611250300");
    }
}
