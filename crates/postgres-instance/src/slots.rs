//! Replication slots of the members, on each of them.
//!
//! A member has a slot for each other member before these use it. So after a promotion, its standbys find theirs.
//! On a standby, the slots keep nothing: nobody reads from them.
//!
//! PostgreSQL copies logical slots from the primary to its standbys by itself. It refuses to replace a slot that the
//! standby has already, such as that of a former primary, which is therefore dropped. A member that does not stream
//! from another one can become the primary again, and keeps its slots.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use postgres_model::{instance::Moment, slots::is_of_member};
use postgres_protocol::escape::escape_literal;
use tokio_postgres::Row;
use tracing::{info, warn};

use crate::{
    server_task::{ServerTask, Work},
    session::{QUERY, Session, SessionError},
};

/// Time between two attempts.
const RETRY: Duration = Duration::from_secs(1);
/// Time between two looks.
const RECHECK: Duration = Duration::from_secs(10);

/// A server that must have these slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// When it was started.
    pub(crate) started: Moment,
    /// Names of the slots of the other members. `None`: slots are not synchronized.
    pub(crate) slots: Option<BTreeSet<String>>,
}

/// Looks after the slots. Reports which of them a server has, and when that was started.
pub(crate) type Slots = ServerTask<Task>;

impl Slots {
    /// Returns the slots of members on the server that was started at a moment.
    pub(crate) fn present(&self, started: Option<Moment>) -> Vec<String> {
        let report = self.report();
        let present = report.iter().filter(|(server, _)| started == Some(*server));
        present.flat_map(|(_, slots)| slots.iter().cloned()).collect()
    }
}

/// Ends the process that copies logical slots from the primary, if there is one.
///
/// A promotion waits for it, and it can wait for a primary that does not answer. PostgreSQL starts no other one
/// without an upstream.
///
/// # Errors
/// Returns an error if the server does not answer in time.
pub(crate) async fn end_synchronization(socket: &Path) -> Result<(), SessionError> {
    const END: &str =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'slotsync worker'";
    Session::connect(socket).await?.execute("end of the synchronization of slots", QUERY, END).await
}

/// Creates and drops slots.
pub(crate) struct Task {
    socket: PathBuf,
    /// The start of a server, and the slots that it is known to have.
    known: (Moment, BTreeSet<String>),
    last_error: Option<String>,
}

impl Work for Task {
    type Server = Server;
    type Report = (Moment, BTreeSet<String>);

    async fn perform(&mut self, server: &Server) -> (Self::Report, Duration) {
        // A server that does not answer has not lost its slots.
        if self.known.0 != server.started {
            self.known = (server.started, BTreeSet::new());
        }
        let ensured = self.ensure(server).await;
        let error = ensured.map(|present| self.known.1 = present).err().map(|error| error.to_string());
        if error != self.last_error
            && let Some(error) = &error
        {
            warn!(error, "cannot look after the replication slots of the members; trying again");
        }
        self.last_error = error;
        let pause = match &server.slots {
            _ if self.last_error.is_some() => RETRY,
            None if self.known.1.is_empty() => Duration::MAX,
            _ => RECHECK,
        };
        (self.known.clone(), pause)
    }
}

impl Task {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket, known: Default::default(), last_error: None }
    }

    async fn ensure(&self, server: &Server) -> Result<BTreeSet<String>, SessionError> {
        const ACTION: &str = "query for its replication slots";
        let session = Session::connect(&self.socket).await?;
        let rows = session.rows(ACTION, QUERY, SLOTS).await?;
        let found: Vec<_> = rows.iter().map(slot).collect::<Option<_>>().ok_or(SessionError::Form(ACTION))?;
        let own = found.iter().filter(|slot| slot.is_of_member).map(|slot| slot.name.clone());
        let mut present: BTreeSet<_> = own.collect();
        for change in changes(&found, server.slots.as_ref()) {
            session.execute("change of a replication slot", QUERY, &change.statement()).await?;
            match change {
                Change::Create(slot) => {
                    present.insert(slot);
                }
                Change::Drop { slot, reason, .. } => {
                    info!(slot, reason, "dropped a replication slot");
                    present.remove(&slot);
                }
            }
        }
        Ok(present)
    }
}

/// A slot that a server has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an observation of its own")]
struct Slot {
    name: String,
    is_of_member: bool,
    /// Whether somebody reads from it.
    is_active: bool,
    /// Whether it can no longer be used: it kept more WAL than `max_slot_wal_keep_size`.
    is_lost: bool,
    /// Whether it keeps WAL, although the server streams from another one.
    is_stale: bool,
    /// Whether it is one that PostgreSQL copies to standbys, and no copy, although the server streams from another
    /// one.
    is_of_former_primary: bool,
}

/// Change of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// Create a physical slot, which keeps nothing until it is used.
    Create(String),
    Drop {
        slot: String,
        reason: &'static str,
        /// Whether the slot stays if the server has been promoted meanwhile.
        on_standby: bool,
    },
}

impl Change {
    /// Returns the statement. PostgreSQL refuses to drop a slot that is used meanwhile.
    fn statement(&self) -> String {
        match self {
            Self::Create(slot) => {
                format!("SELECT pg_create_physical_replication_slot({}, false)", escape_literal(slot))
            }
            Self::Drop { slot, on_standby, .. } => format!(
                "SELECT pg_drop_replication_slot({}) WHERE pg_is_in_recovery() OR NOT {on_standby}",
                escape_literal(slot)
            ),
        }
    }
}

/// Returns what to change, so that the server has the wanted slots of members. `None`: slots are not synchronized.
/// Slots that are in use stay.
fn changes(found: &[Slot], wanted: Option<&BTreeSet<String>>) -> Vec<Change> {
    let none = BTreeSet::new();
    let mut missing = wanted.unwrap_or(&none).clone();
    let mut changes = Vec::new();
    for slot in found {
        let drop = |reason, on_standby| Change::Drop { slot: slot.name.clone(), reason, on_standby };
        let is_wanted = wanted.is_some_and(|wanted| wanted.contains(&slot.name));
        let change = match slot {
            Slot { is_active: true, .. } => None,
            Slot { is_of_member: true, .. } if !is_wanted => Some(drop("its member has gone", false)),
            Slot { is_of_member: true, is_lost: true, .. } => Some(drop("it kept too much WAL", false)),
            Slot { is_of_member: true, is_stale: true, .. } => Some(drop("nobody reads from it here", true)),
            Slot { is_of_former_primary: true, .. } if wanted.is_some() => {
                Some(drop("it is that of a former primary", true))
            }
            _ => None,
        };
        if change.is_none() {
            missing.remove(&slot.name);
        }
        changes.extend(change);
    }
    changes.extend(missing.into_iter().map(Change::Create));
    changes
}

fn slot(row: &Row) -> Option<Slot> {
    let flag = |column: &str| row.try_get::<_, bool>(column).ok();
    let name: String = row.try_get("name").ok()?;
    Some(Slot {
        is_of_member: flag("is_physical")? && is_of_member(&name),
        name,
        is_active: flag("is_active")?,
        is_lost: flag("is_lost")?,
        is_stale: flag("is_stale")?,
        is_of_former_primary: flag("is_of_former_primary")?,
    })
}

/// Before PostgreSQL 17, the view has no `failover` and `synced`.
const SLOTS: &str = "\
SELECT slot_name::text AS name, slot_type = 'physical' AS is_physical, active AS is_active,
       coalesce(wal_status = 'lost', false) AS is_lost,
       restart_lsn IS NOT NULL AND streams AS is_stale,
       coalesce((to_jsonb(slot)->>'failover')::boolean AND NOT (to_jsonb(slot)->>'synced')::boolean, false)
         AND streams AS is_of_former_primary
FROM pg_replication_slots AS slot,
     (SELECT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')) AS receiver (streams)
WHERE NOT temporary ORDER BY slot_name";

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> Slot {
        Slot { name: name.to_owned(), is_of_member: true, ..Slot::default() }
    }

    /// Returns the names of the slots that are dropped, and of those that are created.
    fn names(found: &[Slot], wanted: Option<&[&str]>) -> (Vec<String>, Vec<String>) {
        let wanted = wanted.map(|slots| slots.iter().map(|slot| (*slot).to_owned()).collect());
        let (mut dropped, mut created) = (Vec::new(), Vec::new());
        for change in changes(found, wanted.as_ref()) {
            match change {
                Change::Create(slot) => created.push(slot),
                Change::Drop { slot, .. } => dropped.push(slot),
            }
        }
        (dropped, created)
    }

    #[test]
    fn server_gets_the_slots_of_the_other_members() {
        let created = (vec![], vec!["ensemble_3".to_owned()]);
        assert_eq!(names(&[member("ensemble_2")], Some(&["ensemble_2", "ensemble_3"])), created);
    }

    #[test]
    fn slot_of_a_member_that_has_gone_is_dropped_unless_it_is_used() {
        let used = Slot { is_active: true, ..member("ensemble_3") };
        let other = Slot { name: "backup".to_owned(), is_lost: true, is_stale: true, ..Slot::default() };
        let found = [member("ensemble_2"), used, other];
        for wanted in [None, Some(&[][..])] {
            assert_eq!(names(&found, wanted), (vec!["ensemble_2".to_owned()], vec![]));
        }
    }

    #[test]
    fn slot_of_a_member_that_cannot_be_used_or_keeps_wal_for_nobody_is_created_again() {
        let both = (vec!["ensemble_2".to_owned()], vec!["ensemble_2".to_owned()]);
        let lost = Slot { is_lost: true, ..member("ensemble_2") };
        let stale = Slot { is_stale: true, ..member("ensemble_2") };
        for slot in [lost, stale] {
            assert_eq!(names(&[slot], Some(&["ensemble_2"])), both);
        }
    }

    #[test]
    fn logical_slot_of_a_former_primary_is_dropped_where_slots_are_copied() {
        let slot = |is_active| Slot {
            name: "cdc".to_owned(),
            is_active,
            is_stale: true,
            is_of_former_primary: true,
            ..Slot::default()
        };
        assert_eq!(names(&[slot(false)], Some(&[])), (vec!["cdc".to_owned()], vec![]));
        assert_eq!(names(&[slot(false)], None), (vec![], vec![]));
        assert_eq!(names(&[slot(true)], Some(&[])), (vec![], vec![]));
    }
}
