//! The fence around a controller's writes: they leave this process only while it leads.
//!
//! A leader that is cut off stops by itself before others may follow. One that was frozen finds out late: when it
//! thaws, its tasks run on before the news of the lost lease has gone round. So each write looks at the fence in the
//! moment in which it is sent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// The clock that leadership is measured with: it goes on while the process is frozen and while the machine sleeps,
/// and nobody can set it.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The present moment on the clock that leadership is measured with.
pub fn now() -> Duration {
    let time = clock_gettime(CLOCK);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// A write was held back because this process does not lead the controller any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: another replica may lead this controller now")]
pub struct NotLeading;

/// Lets writes through until a moment that leadership moves on. Cheap to clone; all clones are one fence.
#[derive(Clone, Debug)]
pub struct Fence {
    /// In nanoseconds on [`now`]'s clock.
    until: Arc<AtomicU64>,
}

impl Fence {
    /// A fence that is open for ever: for a process that does not share its controllers.
    pub fn open() -> Self {
        Self { until: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// A fence that is closed until leadership opens it.
    pub fn closed() -> Self {
        Self { until: Arc::new(AtomicU64::new(0)) }
    }

    /// Opens the fence until a moment on [`now`]'s clock.
    pub fn open_until(&self, moment: Duration) {
        self.until.store(nanoseconds(moment), Ordering::SeqCst);
    }

    /// Closes the fence.
    pub fn close(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    /// Whether a write may be sent now.
    ///
    /// # Errors
    /// When it may not.
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
    fn a_fence_closes_by_itself() {
        let fence = Fence::closed();
        assert_eq!(fence.check(), Err(NotLeading));
        fence.open_until(now() + Duration::from_mins(1));
        assert_eq!(fence.check(), Ok(()));
        fence.open_until(now());
        assert_eq!(fence.check(), Err(NotLeading));
        assert_eq!(Fence::open().check(), Ok(()));
    }
}
