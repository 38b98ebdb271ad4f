//! Health of the instance, as the kubelet asks for it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Time without a tick after which the instance does not count as alive.
const STALLED: Duration = Duration::from_secs(30);

/// Health of the instance. The main loop and the fence thread report to it, from any thread.
///
/// The creation counts as the first tick of both. Until [`Health::set_ready`], the instance is not
/// ready.
#[derive(Debug)]
pub struct Health {
    created: Instant,
    main_loop: Ticks,
    fence: Ticks,
    /// Why the instance is not ready. `None` if it is.
    unready: Mutex<Option<String>>,
}

/// Milliseconds from the creation to the last tick.
#[derive(Debug, Default)]
struct Ticks(AtomicU64);

impl Health {
    /// Creates the health of an instance that starts now.
    pub fn new() -> Self {
        Self {
            created: Instant::now(),
            main_loop: Ticks::default(),
            fence: Ticks::default(),
            unready: Mutex::new(Some("the instance starts".to_owned())),
        }
    }

    /// Records that the main loop runs. Call it at least every few seconds.
    pub fn main_loop_ticked(&self) {
        self.main_loop.record(self.created.elapsed());
    }

    /// Records that the fence thread runs. Call it at least every few seconds.
    pub fn fence_ticked(&self) {
        self.fence.record(self.created.elapsed());
    }

    /// Makes the instance ready.
    pub fn set_ready(&self) {
        *self.unready.lock() = None;
    }

    /// Makes the instance unready. The reason is one line, such as `no primary is known`.
    pub fn set_unready(&self, reason: impl Into<String>) {
        *self.unready.lock() = Some(reason.into());
    }

    /// Returns why the instance is not ready, or `None` if it is.
    pub(super) fn unready(&self) -> Option<String> {
        self.unready.lock().clone()
    }

    /// Returns who stands still, or `None` if the instance is alive.
    pub(super) fn stalled(&self) -> Option<String> {
        self.stalled_after(self.created.elapsed())
    }

    /// Returns who stands still at this time after the creation.
    fn stalled_after(&self, now: Duration) -> Option<String> {
        let loops = [("the main loop", &self.main_loop), ("the fence thread", &self.fence)];
        let ages = loops.map(|(name, ticks)| (name, ticks.age(now)));
        let stalled = ages.into_iter().filter(|(_, age)| *age > STALLED);
        let stalled: Vec<_> =
            stalled.map(|(name, age)| format!("{name} has not run for {} s", age.as_secs())).collect();
        (!stalled.is_empty()).then(|| stalled.join(", "))
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Ticks {
    fn record(&self, now: Duration) {
        let milliseconds = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_max(milliseconds, Ordering::Relaxed);
    }

    fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.0.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_is_alive_while_both_tick() {
        let health = Health::new();
        let at = |seconds| health.stalled_after(Duration::from_secs(seconds));
        assert_eq!(at(30), None, "the creation is a tick");
        assert_eq!(
            at(31).unwrap(),
            "the main loop has not run for 31 s, the fence thread has not run for 31 s"
        );
        health.main_loop.record(Duration::from_secs(20));
        assert_eq!(at(45).unwrap(), "the fence thread has not run for 45 s");
        health.fence.record(Duration::from_secs(40));
        assert_eq!(at(50), None);
        assert_eq!(at(60).unwrap(), "the main loop has not run for 40 s");
        health.main_loop.record(Duration::from_secs(10));
        assert_eq!(at(50), None, "an older tick changes nothing");
    }

    #[test]
    fn instance_is_not_ready_before_it_says_so() {
        let health = Health::default();
        assert_eq!(health.unready().unwrap(), "the instance starts");
        health.set_ready();
        assert_eq!(health.unready(), None);
        health.set_unready("no primary is known");
        assert_eq!(health.unready().unwrap(), "no primary is known");
        health.main_loop_ticked();
        health.fence_ticked();
        assert_eq!(health.stalled(), None);
    }
}
