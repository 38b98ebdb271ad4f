//! When a synchronous configuration of a primary can replace the one before.

use std::time::Duration;

use crate::{
    lsn::Lsn,
    report::StandbyReport,
    sync::{SyncConfiguration, SyncMethod},
};

/// How long the processes of PostgreSQL may take to read a new configuration.
pub const RELOAD: Duration = Duration::from_secs(5);

/// The configuration of a primary, as the primary follows it.
///
/// A configuration is in force when all processes have read it, and enough of its standbys have all
/// WAL that was written until then. A row that was acknowledged under an earlier configuration is
/// among it, so from then on only the present configuration matters to a failover.
#[derive(Clone, Debug, Default)]
pub struct InForce {
    value: String,
    since: Option<Duration>,
    /// End of the WAL when all processes had read the value.
    position: Option<Lsn>,
    /// Whether enough standbys have all WAL up to there.
    is_complete: bool,
}

impl InForce {
    /// Observes an answer of the primary: the time at which it was asked for, the parameter
    /// `synchronous_standby_names`, the end of the WAL on disk, and `pg_stat_replication`.
    ///
    /// `configuration` is the one to apply. All answers must come from one run of the server.
    pub fn observe(
        &mut self,
        asked: Duration,
        value: &str,
        flushed: Lsn,
        standbys: &[StandbyReport],
        configuration: &SyncConfiguration,
    ) {
        let since = match self.since {
            Some(since) if self.value == value => since,
            _ => {
                *self = Self { value: value.to_owned(), since: Some(asked), ..Self::default() };
                asked
            }
        };
        if asked.saturating_sub(since) >= RELOAD && self.position.is_none() {
            self.position = Some(flushed);
        }
        if configuration.standby_names(SyncMethod::Any) == value
            && let Some(position) = self.position
        {
            let is_listed = |standby: &&StandbyReport| configuration.members().contains(&standby.name);
            let has_all =
                |standby: &&StandbyReport| standby.flushed.is_some_and(|flushed| flushed >= position);
            let complete = standbys.iter().filter(is_listed).filter(has_all).count();
            self.is_complete |= complete >= configuration.number();
        }
    }

    /// Returns the parameter `synchronous_standby_names`, if it is in force.
    pub fn value(&self) -> Option<&str> {
        self.is_complete.then_some(self.value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{SyncState, WalSenderState};

    fn standby(name: &str, flushed: u64) -> StandbyReport {
        StandbyReport {
            name: name.to_owned(),
            state: WalSenderState::Streaming,
            sync_state: SyncState::Quorum,
            flushed: Some(Lsn(flushed)),
        }
    }

    /// Observes at a second, with the end of the WAL, and what `b` and `c` have of it.
    fn observe(in_force: &mut InForce, second: u64, number: usize, wal: u64, flushed: [u64; 2]) -> bool {
        let configuration = SyncConfiguration::new(number, vec!["b".into(), "c".into()]).unwrap();
        let standbys = [standby("b", flushed[0]), standby("c", flushed[1]), standby("x", wal)];
        let value = configuration.standby_names(SyncMethod::Any);
        in_force.observe(Duration::from_secs(second), &value, Lsn(wal), &standbys, &configuration);
        in_force.value().is_some()
    }

    #[test]
    fn standbys_must_have_what_was_written_before_all_processes_had_it() {
        let mut in_force = InForce::default();
        assert!(!observe(&mut in_force, 10, 1, 5, [5, 5]));
        assert!(!observe(&mut in_force, 14, 1, 6, [6, 6]));
        assert!(!observe(&mut in_force, 15, 1, 9, [8, 8]), "nobody has position 9");
        assert!(!observe(&mut in_force, 16, 1, 12, [8, 8]));
        assert!(observe(&mut in_force, 17, 1, 13, [8, 9]), "position 9 is enough");
        assert!(observe(&mut in_force, 18, 1, 20, [8, 9]), "what comes later waits for a standby");
        assert!(!observe(&mut in_force, 19, 2, 20, [20, 20]), "another value begins again");
        assert!(!observe(&mut in_force, 24, 2, 21, [21, 20]));
        assert!(observe(&mut in_force, 25, 2, 21, [21, 21]));
    }

    #[test]
    fn nobody_is_waited_for_without_synchronous_replication() {
        let mut in_force = InForce::default();
        for (second, expected) in [(1, None), (5, None), (6, Some(""))] {
            let asynchronous = SyncConfiguration::default();
            in_force.observe(Duration::from_secs(second), "", Lsn(7), &[], &asynchronous);
            assert_eq!(in_force.value(), expected);
        }
    }

    #[test]
    fn value_that_was_not_asked_for_is_not_in_force() {
        let mut in_force = InForce::default();
        for second in [1, 60] {
            let other = SyncConfiguration::new(1, vec!["b".into()]).unwrap();
            in_force.observe(Duration::from_secs(second), "", Lsn(7), &[standby("b", 7)], &other);
        }
        assert_eq!(in_force.value(), None);
    }
}
