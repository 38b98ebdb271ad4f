//! The fence that blocks writes of a controller unless this process leads it.
//!
//! A paused leader can resume before it learns that its lease expired. Every write therefore checks
//! the fence immediately before it is sent. A leader that is only disconnected closes its fence
//! before another replica can acquire the lease.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// Clock of leadership. It advances while the process is paused and while the machine sleeps, and
/// it cannot be set.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Returns the current time of the leadership clock.
pub fn now() -> Duration {
    let time = clock_gettime(CLOCK);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// A write was blocked because this process does not lead the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: another replica may lead this controller")]
pub struct NotLeading;

/// Allows writes until a deadline that leadership extends. Cheap to clone; all clones share state.
#[derive(Clone, Debug)]
pub struct Fence {
    /// Deadline in nanoseconds of [`now`]'s clock.
    until: Arc<AtomicU64>,
}

impl Fence {
    /// Returns a fence that is always open, for a process without leader election.
    pub fn open() -> Self {
        Self { until: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// Returns a fence that is closed until [`Fence::open_until`] opens it.
    pub fn closed() -> Self {
        Self { until: Arc::new(AtomicU64::new(0)) }
    }

    /// Opens the fence until `moment` of [`now`]'s clock.
    pub fn open_until(&self, moment: Duration) {
        self.until.store(nanoseconds(moment), Ordering::SeqCst);
    }

    /// Closes the fence.
    pub fn close(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    /// Checks whether a write may be sent now.
    ///
    /// # Errors
    /// Returns [`NotLeading`] if the fence is closed.
    pub fn check(&self) -> Result<(), NotLeading> {
        if nanoseconds(now()) < self.until.load(Ordering::SeqCst) { Ok(()) } else { Err(NotLeading) }
    }
}

fn nanoseconds(moment: Duration) -> u64 {
    moment.as_nanos().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_closes_at_its_deadline() {
        let fence = Fence::closed();
        assert_eq!(fence.check(), Err(NotLeading));
        fence.open_until(now() + Duration::from_mins(1));
        assert_eq!(fence.check(), Ok(()));
        fence.open_until(now());
        assert_eq!(fence.check(), Err(NotLeading));
        assert_eq!(Fence::open().check(), Ok(()));
    }
}
