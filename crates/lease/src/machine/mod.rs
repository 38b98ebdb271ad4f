//! State machine of one candidate for a Lease, without a client and without a clock.
//!
//! Every write contains the resource version that it replaces. A successful write therefore proves
//! that the Lease has not changed since that version was read. A candidate leads only by a write
//! that replaces one of the following:
//! - a *free* Lease: its holder released it after its work had stopped, or it has never been held
//! - a Lease that this candidate has observed unchanged for a whole lease duration
//! - the version that this candidate wrote when it last led (a *renewal*)
//! - a version with its own identity, if it has just sent the first of these writes, and the response
//!   was lost
//!
//! A leader also leads by renewals of another Lease, its [anchor](crate::SharedRenewal).
//!
//! The candidate leads until the renew deadline, counted from the *start* of that write. Its
//! successor starts at least a lease duration after it observed the result of that write. The
//! difference of the two durations is the safety margin. Watch events only make a candidate read
//! the Lease. A missing Lease proves nothing, because it may have been deleted under a partitioned
//! leader: a candidate then creates a Lease without a holder, which has to age like any other.

use std::time::Duration;

use crate::timing::{MAX_LEASE_DURATION, Timing};

/// Time on a monotonic clock of the process, since any start.
///
/// The clock must advance while the process is paused and while the computer sleeps, as
/// `CLOCK_BOOTTIME` of Linux does.
pub type Moment = Duration;

/// The parts of a Lease that matter to the election.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LeaseRecord {
    /// Resource version. Only compared for equality.
    pub version: String,
    /// Identity of the holder; empty if there is none.
    pub holder: String,
    /// Lease duration that the holder wrote.
    pub duration: Duration,
    /// Whether no candidate leads with it: its last holder released it after all work stopped, or
    /// it has never been held.
    pub free: bool,
    /// What is known about the anchor, if another Lease is renewed in place of this one.
    pub anchor: Anchor,
}

/// What a candidate knows about the anchor of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    /// The Lease names none, or has no holder.
    #[default]
    None,
    /// The anchor has the holder of the Lease, and the term that the Lease names. Contains its resource
    /// version.
    Held(String),
    /// The anchor has another holder or another term, or does not exist. Contains the resource version
    /// that its acquisition replaced, if that is known.
    Ended(Option<String>),
}

impl Anchor {
    /// Returns whether no renewal of the anchor can have happened between `self` and the later state.
    pub(crate) fn is_unchanged_in(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::Held(seen), Self::Ended(Some(replaced))) => seen == replaced,
            (Self::Ended(_), Self::Ended(_)) => true,
            _ => self == later,
        }
    }
}

/// Next step of a candidate, which the program performs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read the Lease from the API server, not from a cache, and call [`Machine::read_done`]. Read its
    /// anchor as well, if it has one and this candidate does not hold it.
    Read,
    /// Write the Lease and call [`Machine::write_done`].
    Write(Write),
    /// Wait until this time, the next watch event, or the resignation. Then call [`Machine::next`]
    /// again.
    Wait(Moment),
    /// The candidate has resigned, and holds no Lease that it could release.
    Done,
}

/// Write of a Lease. A write with a resource version replaces exactly that version. The others
/// create the Lease and fail if it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Create the Lease without a holder: [`Writer::unheld`](crate::Writer::unheld).
    Create,
    /// Recreate a deleted Lease while this candidate leads:
    /// [`Writer::recreate`](crate::Writer::recreate).
    Recreate,
    /// Become the holder: [`Writer::hold`](crate::Writer::hold).
    Acquire(String),
    /// Remain the holder: [`Writer::hold`](crate::Writer::hold).
    Renew(String),
    /// Release the Lease: [`Writer::release`](crate::Writer::release).
    Release(String),
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// The Lease has this resource version now. The response must have arrived.
    Committed(String),
    /// The API server rejected the write: a conflict, a missing Lease, or a missing right.
    Rejected,
    /// No response, or one that decides nothing. The write may have happened, or may still happen.
    Unknown,
}

impl WriteResult {
    /// Returns the result of a write that was answered with this HTTP status, which is an error.
    ///
    /// A status of 400 to 499 is a rejection, with two exceptions. After 408, a timeout, the write
    /// may still happen. A status of 429 asks for a pause, and a proxy can send it too. The next read
    /// after [`Self::Unknown`] waits, and the one after [`Self::Rejected`] does not.
    ///
    /// # Examples
    /// ```
    /// use lease::WriteResult;
    ///
    /// assert_eq!(WriteResult::of_error(409), WriteResult::Rejected);
    /// assert_eq!(WriteResult::of_error(408), WriteResult::Unknown);
    /// ```
    pub fn of_error(status: u16) -> Self {
        let is_final = (400..500).contains(&status) && !matches!(status, 408 | 429);
        if is_final { Self::Rejected } else { Self::Unknown }
    }
}

/// Reason why a candidate stopped leading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// The renew deadline passed.
    Deadline,
    /// The Lease has another holder, or its holder was removed.
    HolderChanged,
}

/// Latest known version of the Lease, and since when it has been the latest.
#[derive(Clone, Debug)]
struct Observed {
    record: LeaseRecord,
    since: Moment,
    /// When the last read of this version began; `None` if only the watch delivered it.
    read_at: Option<Moment>,
}

/// State of one candidate for one Lease. The [crate] lists the guarantees and their assumptions.
///
/// Call [`Machine::next`] in a loop and perform one step at a time. Call [`Machine::expire`] or
/// [`Machine::next`] at [`Machine::leads_until`] at the latest, to notice the end of leadership.
pub struct Machine {
    identity: String,
    timing: Timing,
    observed: Option<Observed>,
    /// A version that is known to have expired.
    expired: Option<String>,
    /// The version that this candidate wrote as the leader, unless a later write is known.
    own: Option<String>,
    /// Start of an acquisition that no response has confirmed.
    acquiring: Option<Moment>,
    /// Time until which this candidate leads.
    until: Moment,
    /// Start of the write by which this candidate leads.
    renewed_at: Moment,
    /// Whether renewals of an anchor are expected to renew this Lease.
    has_anchor: bool,
    /// Time of the next read, if one is needed.
    next_read: Option<Moment>,
    /// Earliest time of the next write.
    not_before: Moment,
    resigned: bool,
    lost: Option<LossReason>,
}

impl Machine {
    /// Creates a candidate without any knowledge. `identity` must be unique, even among earlier
    /// processes.
    pub fn new(identity: String, timing: Timing, now: Moment) -> Self {
        Self {
            identity,
            timing,
            observed: None,
            expired: None,
            own: None,
            acquiring: None,
            until: Moment::ZERO,
            renewed_at: Moment::ZERO,
            has_anchor: false,
            next_read: Some(now),
            not_before: now,
            resigned: false,
            lost: None,
        }
    }

    /// Names a version of the Lease that has expired, so that this candidate need not watch it for its
    /// whole duration.
    ///
    /// Somebody else must have seen it unchanged for that time, on one clock. It stays expired: its
    /// holder stopped before, and a renewal is another version.
    #[must_use]
    pub fn with_expired(self, version: Option<String>) -> Self {
        Self { expired: version, ..self }
    }

    /// Returns the timeout of a request that begins now, which never exceeds the time for which this
    /// candidate still leads. A program may choose a shorter one.
    pub fn request_timeout(&self, now: Moment) -> Duration {
        let left = self.leads_until().saturating_sub(now);
        let attempt = self.timing.attempt();
        if left.is_zero() { attempt } else { attempt.min(left) }
    }

    /// Returns the time until which this candidate leads; zero or a time in the past if it does not
    /// lead.
    pub fn leads_until(&self) -> Moment {
        if self.resigned { Moment::ZERO } else { self.until }
    }

    /// Stops leading if the renew deadline has passed.
    pub fn expire(&mut self, now: Moment) {
        if now >= self.until {
            self.lose(LossReason::Deadline);
        }
    }

    /// Returns why this candidate stopped leading; `None` if it leads, never led, or resigned.
    pub fn lost(&self) -> Option<LossReason> {
        self.lost
    }

    /// Returns the next step. The leader renews its Lease ([`Write::Renew`]) at regular intervals.
    ///
    /// `acquire_delay` is how long to leave a free Lease to other candidates. `watched` is whether
    /// a watch delivers changes of the Lease. Without one, the Lease is read after each
    /// [`Timing::retry`] while another candidate holds it.
    pub fn next(&mut self, now: Moment, acquire_delay: Duration, watched: bool) -> Step {
        self.expire(now);
        let next_read = match self.next_read {
            Some(at) if at <= now => return Step::Read,
            at => at,
        };
        let step = match (&self.own, self.is_leading()) {
            (Some(own), _) if self.resigned => at(self.not_before, now, Write::Release(own.clone())),
            (None, _) if self.resigned => return next_read.map_or(Step::Done, Step::Wait),
            (Some(own), true) => at(self.not_before.max(self.renewal_due()), now, Write::Renew(own.clone())),
            (Some(own), false) => at(self.not_before, now, Write::Renew(own.clone())),
            (None, true) => at(self.not_before, now, Write::Recreate),
            (None, false) => self.next_as_follower(now, acquire_delay, watched),
        };
        let ends = self.is_leading().then_some(self.until);
        match step {
            // A write waits for a pending read, which may show that it would fail.
            Step::Write(_) if next_read.is_some() => Step::Wait(earliest(next_read, ends, Moment::MAX)),
            Step::Wait(at) => Step::Wait(earliest(next_read, ends, at)),
            step => step,
        }
    }

    /// Returns when the leader writes the next renewal. A leader that has an anchor leaves time for the
    /// anchor's renewal and for the watch to deliver it.
    fn renewal_due(&self) -> Moment {
        let patience = if self.has_anchor { self.timing.retry() } else { Duration::ZERO };
        self.renewed_at + self.timing.renewal() + patience
    }

    /// Says whether renewals of another Lease, the anchor, are expected to renew this one:
    /// [`SharedRenewal::covers`](crate::SharedRenewal::covers). If they do not, the leader
    /// renews it itself before the renew deadline.
    pub fn expect_anchor(&mut self, has_anchor: bool) {
        self.has_anchor = has_anchor;
    }

    /// Extends leadership by a renewal of the anchor that began at `started`, if this candidate leads
    /// with this version of the Lease. The [anchor](crate::SharedRenewal) says when this is allowed.
    pub fn renewed_with_anchor(&mut self, version: &str, started: Moment, now: Moment) {
        self.expire(now);
        let leads = now < self.leads_until() && self.own.as_deref() == Some(version);
        if leads && started > self.renewed_at {
            self.renewed_at = started;
            self.until = started + self.timing.renew_deadline();
        }
    }

    /// Returns the next step of a candidate that does not lead.
    fn next_as_follower(&self, now: Moment, acquire_delay: Duration, watched: bool) -> Step {
        let Some(Observed { record, since, read_at }) = &self.observed else {
            return at(self.not_before, now, Write::Create);
        };
        let poll = if watched { Moment::MAX } else { read_at.unwrap_or(*since) + self.timing.retry() };
        let free = *since + self.age_when_free(record);
        match read_at {
            _ if now < free && poll <= now => Step::Read,
            _ if now < free => Step::Wait(free.min(poll)),
            Some(read_at) if *read_at >= free => {
                at(self.not_before.max(*read_at + acquire_delay), now, Write::Acquire(record.version.clone()))
            }
            _ => Step::Read,
        }
    }

    /// Returns the age at which a version counts as free. The duration that the holder wrote counts
    /// if it is longer than the configured one. A shorter one may be a manual edit.
    fn age_when_free(&self, record: &LeaseRecord) -> Duration {
        if record.free || self.expired.as_ref() == Some(&record.version) {
            return Duration::ZERO;
        }
        record.duration.min(MAX_LEASE_DURATION).max(self.timing.lease())
    }

    /// Processes the result of [`Step::Read`]: `None` if there is no Lease, `Err` if the request
    /// failed. `started` is the time immediately before the first request was sent.
    pub fn read_done(&mut self, started: Moment, now: Moment, found: Result<Option<LeaseRecord>, ()>) {
        let Ok(found) = found else {
            self.next_read = Some(now + self.timing.retry());
            return;
        };
        self.next_read = None;
        match found {
            None => {
                self.own = None;
                self.observed = None;
            }
            Some(record) => {
                self.check_ownership(now, &record);
                self.observe(now, record, Some(started));
            }
        }
    }

    /// Decides whether this candidate still owns a version that it read. Until the deadline, it
    /// still owns a Lease that was emptied, or that was deleted and then created by another
    /// candidate.
    ///
    /// It also owns a version with its identity if it has sent an acquisition, and does not know the
    /// result: nobody else knows the identity before, and nobody else can lead within the deadline
    /// after. It leads with the renewal of this version.
    fn check_ownership(&mut self, now: Moment, record: &LeaseRecord) {
        let has_identity = record.holder == self.identity;
        let is_own = has_identity || (record.holder.is_empty() && !record.free);
        let is_exclusive = now < self.until || self.own.as_ref() == Some(&record.version);
        let is_acquired = has_identity && self.is_acquiring(now);
        if (is_own && is_exclusive) || is_acquired {
            self.own = Some(record.version.clone());
        } else {
            self.own = None;
            self.lose(LossReason::HolderChanged);
        }
    }

    fn is_acquiring(&self, now: Moment) -> bool {
        self.acquiring.is_some_and(|started| now < started + self.timing.renew_deadline())
    }

    fn observe(&mut self, now: Moment, mut record: LeaseRecord, read_at: Option<Moment>) {
        // This candidate knows whether it leads. Its own anchor would keep others away for ever.
        if record.holder == self.identity {
            record.anchor = Anchor::None;
        }
        match &mut self.observed {
            Some(observed) if is_unchanged(&observed.record, &record) => {
                observed.record = record;
                observed.read_at = read_at.or(observed.read_at);
            }
            _ => self.observed = Some(Observed { record, since: now, read_at }),
        }
    }

    /// Processes a watch event, which may be old: `None` if the Lease was deleted. Events are
    /// optional and make a candidate faster.
    pub fn watch_event(&mut self, now: Moment, news: Option<LeaseRecord>) {
        let own = self.own.is_some() || self.is_leading();
        match news {
            Some(record) if own && record.holder == self.identity => {}
            None if self.observed.is_none() => {}
            Some(record) if !own => self.observe(now, record, None),
            _ => self.next_read = Some(self.next_read.map_or(now, |at| at.min(now))),
        }
    }

    /// Processes the result of [`Step::Write`]. `started` is the time immediately before the request
    /// was sent; a later one lets two candidates lead at the same time.
    pub fn write_done(&mut self, write: &Write, started: Moment, now: Moment, written: WriteResult) {
        if matches!(write, Write::Acquire(_)) && !self.is_acquiring(now) {
            self.acquiring = Some(started);
        }
        match written {
            WriteResult::Committed(version) => self.committed(write, started, now, version),
            WriteResult::Rejected => self.wait_after_failure(now, now),
            WriteResult::Unknown => self.wait_after_failure(now, now + self.timing.retry()),
        }
    }

    fn wait_after_failure(&mut self, now: Moment, next_read: Moment) {
        self.not_before = now + self.timing.retry();
        self.next_read = Some(next_read);
    }

    fn committed(&mut self, write: &Write, started: Moment, now: Moment, version: String) {
        let holder = if *write == Write::Create { String::new() } else { self.identity.clone() };
        let duration = self.timing.lease();
        let record = LeaseRecord { version: version.clone(), holder, duration, ..LeaseRecord::default() };
        let leads = match write {
            Write::Acquire(_) | Write::Renew(_) => true,
            // Nobody else can have led in between only if this candidate still leads now.
            Write::Recreate => self.is_leading() && now < self.until,
            Write::Create | Write::Release(_) => false,
        };
        self.observed = Some(Observed { record, since: now, read_at: Some(now) });
        self.acquiring = None;
        self.own = leads.then_some(version);
        if leads {
            self.renewed_at = started;
            self.until = started + self.timing.renew_deadline();
            self.lost = None;
        }
    }

    /// Stops leading and being a candidate. The next steps release the Lease, so call it only after
    /// all work of the leader has stopped.
    pub fn resign(&mut self, now: Moment) {
        self.resigned = true;
        self.not_before = now;
    }

    fn is_leading(&self) -> bool {
        self.until > Moment::ZERO
    }

    fn lose(&mut self, reason: LossReason) {
        if self.is_leading() {
            self.until = Moment::ZERO;
            self.lost = Some(reason);
        }
    }
}

/// Returns whether neither the Lease nor its anchor was renewed between the two.
fn is_unchanged(before: &LeaseRecord, after: &LeaseRecord) -> bool {
    before.version == after.version && before.anchor.is_unchanged_in(&after.anchor)
}

fn at(moment: Moment, now: Moment, write: Write) -> Step {
    if moment <= now { Step::Write(write) } else { Step::Wait(moment) }
}

fn earliest(a: Option<Moment>, b: Option<Moment>, c: Moment) -> Moment {
    c.min(a.unwrap_or(Moment::MAX)).min(b.unwrap_or(Moment::MAX))
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
