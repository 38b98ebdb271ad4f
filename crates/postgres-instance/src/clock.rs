//! The clock of Leases and deadlines.

use std::time::Duration;

use postgres_model::instance::Moment;
use rustix::time::{ClockId, clock_gettime};

/// Returns the present time on `CLOCK_BOOTTIME`, which is never set back, and which advances while
/// the computer sleeps.
pub fn now() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
