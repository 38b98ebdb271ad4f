//! The fence: a thread that stops a primary whose Lease has expired.
//!
//! It needs neither the network, nor the main loop, nor PostgreSQL. It holds the moment until which
//! PostgreSQL may write. At this moment it sends SIGQUIT to the postmaster, and if that has not ended
//! a second later, SIGKILL to all processes but the instance manager itself.

use std::{io, os::fd::OwnedFd, sync::Arc, thread, time::Duration};

use parking_lot::Mutex;
use postgres_model::instance::Moment;
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    process::{Pid, Signal, kill_process},
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};
use tracing::{error, warn};

use crate::{clock::now, processes::kill_all};

/// How long PostgreSQL has to end after SIGQUIT. The lease duration leaves more than that.
const GRACE: Duration = Duration::from_secs(1);
/// How often the thread shows that it runs.
const TICK: Duration = Duration::from_secs(5);

/// The fence of one instance.
#[derive(Clone)]
pub(crate) struct Fence {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: OwnedFd,
    timer: OwnedFd,
}

#[derive(Default)]
struct State {
    /// Until when PostgreSQL may write.
    until: Moment,
    /// Whether PostgreSQL needs the Lease to continue.
    is_required: bool,
    /// The postmaster, while PostgreSQL may write.
    postmaster: Option<Pid>,
    /// How many postmasters the thread has stopped.
    fences: u64,
}

/// PostgreSQL must not start to write, because the Lease has expired.
#[derive(Debug, thiserror::Error)]
#[error("the Lease has expired, so PostgreSQL must not start to write")]
pub(crate) struct Expired;

impl Fence {
    /// Starts the thread. It calls `tick` at least every few seconds.
    ///
    /// # Errors
    /// Returns an error if the operating system has no timers or threads left.
    pub(crate) fn start(tick: impl Fn() + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { is_required: true, ..State::default() }),
            changed: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            timer: timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?,
        });
        let fence = Self { shared };
        let thread = fence.clone();
        thread::Builder::new().name("fence".to_owned()).spawn(move || thread.run(&tick))?;
        Ok(fence)
    }

    /// Sets the moment until which PostgreSQL may write.
    pub(crate) fn set_until(&self, until: Moment) {
        self.shared.state.lock().until = until;
        self.notify();
    }

    /// Sets whether PostgreSQL needs the Lease to continue.
    pub(crate) fn set_required(&self, is_required: bool) {
        self.shared.state.lock().is_required = is_required;
        self.notify();
    }

    /// Lets PostgreSQL write. `start` starts the postmaster, or names the one that will write.
    ///
    /// # Errors
    /// Returns [`Expired`] if the Lease has expired, and the error of `start`. PostgreSQL may not
    /// write then.
    pub(crate) fn permit<E: From<Expired>>(&self, start: impl FnOnce() -> Result<Pid, E>) -> Result<(), E> {
        let mut state = self.shared.state.lock();
        if now() >= state.until {
            return Err(Expired.into());
        }
        state.postmaster = Some(start()?);
        drop(state);
        self.notify();
        Ok(())
    }

    /// Returns how many times PostgreSQL was stopped at once, because the Lease had expired.
    pub(crate) fn fences(&self) -> u64 {
        self.shared.state.lock().fences
    }

    /// Returns how long PostgreSQL may still write.
    pub(crate) fn remaining(&self) -> Duration {
        self.shared.state.lock().until.saturating_sub(now())
    }

    /// Notes that PostgreSQL has ended.
    pub(crate) fn ended(&self) {
        self.shared.state.lock().postmaster = None;
        self.notify();
    }

    fn notify(&self) {
        // Fails only if the counter is full, and then the thread wakes anyway.
        let _ = rustix::io::write(&self.shared.changed, &1_u64.to_ne_bytes());
    }

    fn run(&self, tick: &dyn Fn()) {
        loop {
            tick();
            let due = self.due();
            match due {
                Some((postmaster, until)) if now() >= until => self.strike(postmaster),
                _ => self.wait(due.map(|(_, until)| until)),
            }
        }
    }

    /// Returns the postmaster that has to end, and when.
    fn due(&self) -> Option<(Pid, Moment)> {
        let state = self.shared.state.lock();
        state.postmaster.filter(|_| state.is_required).map(|postmaster| (postmaster, state.until))
    }

    fn strike(&self, postmaster: Pid) {
        error!("the Lease has expired: stopping PostgreSQL at once");
        self.shared.state.lock().fences += 1;
        if let Err(error) = kill_process(postmaster, Signal::QUIT) {
            warn!(%error, "cannot send SIGQUIT to PostgreSQL");
        }
        let end = now() + GRACE;
        while now() < end && self.is_present(postmaster) {
            self.wait(Some(end));
        }
        if self.is_present(postmaster) {
            error!("PostgreSQL has not stopped: killing all of its processes");
            // Fails only if there are no processes.
            let _ = kill_all();
            self.shared.state.lock().postmaster = None;
        }
    }

    fn is_present(&self, postmaster: Pid) -> bool {
        self.shared.state.lock().postmaster == Some(postmaster)
    }

    /// Waits for a change, for a moment, or for the next tick.
    fn wait(&self, until: Option<Moment>) {
        let tick = now() + TICK;
        let at = until.map_or(tick, |until| until.min(tick));
        let timer = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(at) };
        let shared = &self.shared;
        if let Err(error) = timerfd_settime(&shared.timer, TimerfdTimerFlags::ABSTIME, &timer) {
            error!(%error, "cannot set the timer of the fence");
        }
        let mut ready =
            [PollFd::new(&shared.timer, PollFlags::IN), PollFd::new(&shared.changed, PollFlags::IN)];
        // Wakes without a timer too, should it fail.
        let most = timespec(Duration::from_millis(500).max(at.saturating_sub(now())));
        let _ = poll(&mut ready, Some(&most));
        let mut count = [0; 8];
        let _ = rustix::io::read(&shared.timer, &mut count);
        let _ = rustix::io::read(&shared.changed, &mut count);
    }
}

fn timespec(moment: Moment) -> Timespec {
    Timespec {
        tv_sec: moment.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: moment.subsec_nanos().into(),
    }
}
