//! State that the main loop and the status API share.

use std::sync::Arc;

use postgres_model::report::InstanceReport;
use serde::Deserialize;
use tokio::sync::watch;

/// State that the main loop and the status API share. Cheap to clone; all clones share it.
///
/// # Examples
/// ```
/// use postgres_instance::status_api::StatusHandle;
/// use postgres_model::report::InstanceReport;
///
/// let report = InstanceReport::starting("db-1".to_owned(), "uid".to_owned(), "0.1.0");
/// let handle = StatusHandle::new(report.clone());
/// let seals = handle.seal_requests();
/// assert_eq!(*seals.borrow(), None);
///
/// assert_eq!(handle.publish(report.clone()), 1, "nothing has changed");
/// assert_eq!(handle.publish(InstanceReport { fencing: false, ..report }), 2);
/// ```
#[derive(Clone, Debug)]
pub struct StatusHandle {
    report: watch::Sender<Arc<InstanceReport>>,
    seal: watch::Sender<Option<u64>>,
    backup: watch::Sender<Option<BackupRequest>>,
    switch: watch::Sender<Option<String>>,
}

/// Request for a base backup.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupRequest {
    /// UID of the PostgresBackup. The same one is never made twice by one run of the instance.
    pub uid: String,
    /// Whether to begin with a checkpoint at full speed.
    #[serde(default)]
    pub immediate_checkpoint: bool,
    /// Whether to copy only what has changed since the newest backup, if that is possible.
    #[serde(default)]
    pub incremental: bool,
}

impl StatusHandle {
    /// Creates the state with the first report, whose sequence becomes 1.
    pub fn new(first: InstanceReport) -> Self {
        let first = InstanceReport { sequence: 1, ..first };
        Self {
            report: watch::Sender::new(Arc::new(first)),
            seal: watch::Sender::new(None),
            backup: watch::Sender::new(None),
            switch: watch::Sender::new(None),
        }
    }

    /// Replaces the report and answers long polls, if anything but the sequence has changed. Sets the
    /// sequence itself, and returns it.
    pub fn publish(&self, report: InstanceReport) -> u64 {
        self.report.send_if_modified(|current| replace(current, report));
        self.report.borrow().sequence
    }

    /// Returns the current report.
    pub fn report(&self) -> Arc<InstanceReport> {
        self.report.borrow().clone()
    }

    /// Returns the highest epoch at which the operator asked for a seal. Each higher one is a change.
    pub fn seal_requests(&self) -> watch::Receiver<Option<u64>> {
        self.seal.subscribe()
    }

    /// Asks the main loop for a seal. A lower epoch than an earlier one changes nothing.
    pub(super) fn request_seal(&self, epoch: u64) {
        self.seal.send_if_modified(|highest| {
            let is_higher = Some(epoch) > *highest;
            if is_higher {
                *highest = Some(epoch);
            }
            is_higher
        });
    }

    /// Returns the last request for a backup.
    pub(crate) fn backup_requests(&self) -> watch::Receiver<Option<BackupRequest>> {
        self.backup.subscribe()
    }

    /// Returns the last WAL file that a primary should finish. Each request is a change.
    pub(crate) fn switch_requests(&self) -> watch::Receiver<Option<String>> {
        self.switch.subscribe()
    }

    /// Asks the main loop for a backup.
    pub(super) fn request_backup(&self, request: BackupRequest) {
        self.backup.send_replace(Some(request));
    }

    /// Asks the main loop to finish a WAL file.
    pub(super) fn request_switch(&self, file: String) {
        self.switch.send_replace(Some(file));
    }

    /// Waits for a report about a backup.
    pub(super) async fn report_of_backup(&self, uid: &str) -> Arc<InstanceReport> {
        self.report_with(|report| report.backup.as_ref().is_some_and(|backup| backup.uid == uid)).await
    }

    /// Waits for a report with another sequence.
    ///
    /// A client can know a higher sequence from an earlier run of the program. It has the current
    /// report at once as well.
    pub(super) async fn report_other_than(&self, sequence: u64) -> Arc<InstanceReport> {
        self.report_with(|report| report.sequence != sequence).await
    }

    /// Waits for a report of a member that is sealed at `epoch`, or at a later one.
    pub(super) async fn report_sealed_at(&self, epoch: u64) -> Arc<InstanceReport> {
        self.report_with(|report| report.sealed_epoch >= Some(epoch)).await
    }

    async fn report_with(&self, condition: impl Fn(&InstanceReport) -> bool) -> Arc<InstanceReport> {
        let mut reports = self.report.subscribe();
        match reports.wait_for(|report| condition(report)).await {
            Ok(report) => report.clone(),
            // The sender is `self`, so it is never closed.
            Err(_closed) => self.report(),
        }
    }
}

/// Replaces a report by a newer one. Returns whether anything but the sequence differs.
fn replace(current: &mut Arc<InstanceReport>, newer: InstanceReport) -> bool {
    let newer = InstanceReport { sequence: current.sequence, ..newer };
    let has_changed = newer != **current;
    if has_changed {
        *current = Arc::new(InstanceReport { sequence: current.sequence + 1, ..newer });
    }
    has_changed
}

#[cfg(test)]
mod tests {
    use std::{future::Future, time::Duration};

    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    fn report() -> InstanceReport {
        let first = InstanceReport::starting("db-1".to_owned(), "uid".to_owned(), "0.1.0");
        InstanceReport { sequence: 70, ..first }
    }

    /// Returns how long a future takes on the clock of the test, or `None` if it never ends.
    async fn duration(future: impl Future) -> Option<Duration> {
        let start = Instant::now();
        timeout(Duration::from_hours(24), future).await.ok().map(|_| start.elapsed())
    }

    #[test]
    fn sequence_counts_changes() {
        let handle = StatusHandle::new(report());
        assert_eq!(handle.report().sequence, 1);
        assert_eq!(handle.publish(InstanceReport { sequence: 0, ..report() }), 1);
        assert_eq!(handle.publish(InstanceReport { free_bytes: 7, sequence: 5, ..report() }), 2);
        assert_eq!(handle.publish(InstanceReport { free_bytes: 7, sequence: 9, ..report() }), 2);
        assert_eq!(handle.publish(report()), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn poll_ends_with_next_change() {
        let handle = StatusHandle::new(report());
        for known in [0, 2, 500] {
            assert_eq!(duration(handle.report_other_than(known)).await, Some(Duration::ZERO), "{known}");
        }
        assert_eq!(duration(handle.report_other_than(1)).await, None);
        let publish = async {
            sleep(Duration::from_secs(5)).await;
            handle.publish(report());
            sleep(Duration::from_secs(5)).await;
            handle.publish(InstanceReport { fencing: false, ..report() });
        };
        let poll = async { (duration(handle.report_other_than(1)).await, handle.report().sequence) };
        let ((), polled) = tokio::join!(publish, poll);
        assert_eq!(polled, (Some(Duration::from_secs(10)), 2), "a report without a change ends no poll");
    }

    #[tokio::test(start_paused = true)]
    async fn seal_ends_with_its_epoch_or_a_later_one() {
        let handle = StatusHandle::new(InstanceReport { sealed_epoch: Some(7), ..report() });
        for epoch in [0, 6, 7] {
            assert_eq!(duration(handle.report_sealed_at(epoch)).await, Some(Duration::ZERO), "{epoch}");
        }
        let publish = async {
            handle.publish(InstanceReport { fencing: false, ..report() });
            sleep(Duration::from_secs(1)).await;
            handle.publish(InstanceReport { sealed_epoch: Some(9), ..report() });
        };
        let (sealed, ()) = tokio::join!(duration(handle.report_sealed_at(8)), publish);
        assert_eq!(sealed, Some(Duration::from_secs(1)));
    }

    #[test]
    fn highest_seal_request_wins() {
        let handle = StatusHandle::new(report());
        let mut requests = handle.seal_requests();
        for (epoch, is_change, highest) in
            [(0, true, 0), (7, true, 7), (3, false, 7), (7, false, 7), (8, true, 8)]
        {
            handle.request_seal(epoch);
            assert_eq!(requests.has_changed().unwrap(), is_change, "{epoch}");
            assert_eq!(*requests.borrow_and_update(), Some(highest));
        }
        assert_eq!(*handle.seal_requests().borrow(), Some(8), "a later receiver has it as well");
    }
}
