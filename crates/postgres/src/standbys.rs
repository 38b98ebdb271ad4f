//! What the primary reports about its standbys. Pure functions.

use postgres_model::report::{InstanceReport, InstanceState, StandbyReport, WalSenderState};

/// How many bytes of WAL a standby may lack to replace the primary on request.
const SUCCESSOR_LAG: u64 = 16 << 20;

/// Returns the standbys that stream. Returns `None` unless the report is that of a primary.
///
/// A primary that does not run has no standbys, and acknowledges nothing that they could miss.
pub(crate) fn streaming(primary: Option<&InstanceReport>) -> Option<Vec<String>> {
    let primary = primary.filter(|report| report.state == InstanceState::Primary)?;
    Some(names(primary, |_| true))
}

/// Returns the standbys that could replace the primary at once: they stream, and lack little WAL.
pub(crate) fn successors(primary: &InstanceReport) -> Vec<String> {
    let lag = |standby: &StandbyReport| primary.positions.flushed?.bytes_since(standby.flushed?);
    names(primary, |standby| lag(standby).unwrap_or_default() <= SUCCESSOR_LAG)
}

fn names(primary: &InstanceReport, is_wanted: impl Fn(&StandbyReport) -> bool) -> Vec<String> {
    let streams = |standby: &&StandbyReport| standby.state == WalSenderState::Streaming && is_wanted(standby);
    primary.standbys.iter().filter(streams).map(|standby| standby.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use postgres_model::{lsn::Lsn, report::SyncState};

    use super::*;

    #[test]
    fn standbys_stream_and_some_of_them_have_caught_up() {
        let standby = |name: &str, state, flushed| StandbyReport {
            name: name.into(),
            state,
            sync_state: SyncState::Quorum,
            flushed: Some(Lsn(flushed)),
        };
        let mut primary = InstanceReport::starting("db-1".into(), "p-1".into(), "0.1.0");
        primary.positions.flushed = Some(Lsn(20 << 20));
        primary.standbys = vec![
            standby("db-2", WalSenderState::Streaming, 1 << 20),
            standby("db-3", WalSenderState::Streaming, 19 << 20),
            standby("db-4", WalSenderState::Backup, 20 << 20),
        ];
        assert_eq!(streaming(Some(&primary)), None, "it does not run");
        primary.state = InstanceState::Primary;
        assert_eq!(streaming(Some(&primary)), Some(vec!["db-2".into(), "db-3".into()]));
        assert_eq!(successors(&primary), ["db-3"]);
    }
}
