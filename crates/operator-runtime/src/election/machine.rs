//! The rules by which one of several candidates for a Lease leads: a state machine without client and clock.
//!
//! Every write names the version of the Lease that it replaces, so a write that succeeds proves that nobody else has
//! written since that version was seen. A candidate leads only by a write that replaces
//! - a Lease that is *free*: its holder said, as the last thing it did, that it had stopped, or it never had one,
//! - a Lease that this candidate has seen unchanged for a whole lease duration, or
//! - the version that it wrote itself when it last led (a *renewal*).
//!
//! It leads until the renew deadline after the *start* of that write. Whoever follows begins a lease duration or more
//! after having seen that write's result, and so later by the difference of the two; what the watch says only makes a
//! candidate look. Nothing is concluded from an absent Lease, for it may have been deleted under a leader that is cut
//! off: a candidate that finds none makes an empty one, and that has to age like any other.

use std::time::Duration;

use super::timing::{LONGEST, Timing};

/// A moment on the candidate's own clock.
type Moment = Duration;

/// What concerns the election in a Lease.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// The resource version.
    pub(super) version: String,
    /// Who holds it; empty for nobody.
    pub(super) holder: String,
    /// How long its holder wants it to be left alone.
    pub(super) duration: Duration,
    /// Whether nobody can be leading by it: its last holder gave it back with all work stopped, or it never had one.
    pub(super) free: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the Lease, and tell [`Machine::looked`].
    Look,
    /// Write the Lease, and tell [`Machine::wrote`].
    Write(Write),
    /// Nothing before this moment, unless something is heard.
    Wait(Moment),
    /// Nothing any more.
    Done,
}

/// A write of the Lease. Those with a version replace that version or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Create it, held by nobody.
    Found,
    /// Create it anew, held by us, who lead.
    Restore,
    /// Become its holder.
    Take(String),
    /// Stay its holder.
    Renew(String),
    /// Give it back.
    Release(String),
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Done; the Lease has this version now.
    Done(String),
    /// Refused: the Lease has another version, is there already, is gone, or we have no right to.
    Refused,
    /// Unknown: no answer came. It may have been done, or may yet be.
    Unknown,
}

/// Why a candidate does not lead any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// It could not renew in time.
    Deadline,
    /// Another holds the Lease, or somebody has emptied it.
    Taken,
}

/// A version of the Lease and since when it is known to be the one.
#[derive(Clone, Debug)]
struct Observed {
    seen: Seen,
    since: Moment,
    /// When it was last read, rather than heard of.
    looked: Option<Moment>,
}

/// One candidate for one Lease.
pub(super) struct Machine {
    me: String,
    timing: Timing,
    observed: Option<Observed>,
    /// The version that we wrote as the leader, if nobody is known to have written after that.
    own: Option<String>,
    /// Until when nobody else can lead.
    until: Moment,
    /// When the write began by which we lead.
    began: Moment,
    /// When to read the Lease.
    look_at: Option<Moment>,
    /// Not to write before.
    patience: Moment,
    resigned: bool,
    lost: Option<Lost>,
}

impl Machine {
    /// A candidate that knows nothing yet. `me` is its name among the holders; no other candidate, not even an
    /// earlier life of this one, may have it.
    pub(super) fn new(me: String, timing: Timing, now: Moment) -> Self {
        Self {
            me,
            timing,
            observed: None,
            own: None,
            until: Moment::ZERO,
            began: Moment::ZERO,
            look_at: Some(now),
            patience: now,
            resigned: false,
            lost: None,
        }
    }

    /// Until when this candidate leads; a moment that has passed if it does not.
    pub(super) fn leads_until(&self) -> Moment {
        if self.resigned { Moment::ZERO } else { self.until }
    }

    /// Takes note of a deadline that has passed.
    pub(super) fn expire(&mut self, now: Moment) {
        if now >= self.until {
            self.lose(Lost::Deadline);
        }
    }

    /// Why it has ceased to lead.
    pub(super) fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// What to do next. `handicap` is how long to leave a free Lease to others; `watched` is whether changes are heard of.
    pub(super) fn next(&mut self, now: Moment, handicap: Duration, watched: bool) -> Step {
        self.expire(now);
        let look = match self.look_at {
            Some(at) if at <= now => return Step::Look,
            at => at,
        };
        let step = match (&self.own, self.is_leading()) {
            (Some(own), _) if self.resigned => at(self.patience, now, Write::Release(own.clone())),
            (None, _) if self.resigned => return look.map_or(Step::Done, Step::Wait),
            (Some(own), true) => {
                at(self.patience.max(self.began + self.timing.renewal()), now, Write::Renew(own.clone()))
            }
            (Some(own), false) => at(self.patience, now, Write::Renew(own.clone())),
            (None, true) => at(self.patience, now, Write::Restore),
            (None, false) => self.follow(now, handicap, watched),
        };
        let ends = self.is_leading().then_some(self.until);
        match step {
            // A write waits for a look that is due later: it may be in vain.
            Step::Write(_) if look.is_some() => Step::Wait(earliest(look, ends, Moment::MAX)),
            Step::Wait(at) => Step::Wait(earliest(look, ends, at)),
            step => step,
        }
    }

    /// What a candidate does that does not lead.
    fn follow(&self, now: Moment, handicap: Duration, watched: bool) -> Step {
        let Some(Observed { seen, since, looked }) = &self.observed else {
            return at(self.patience, now, Write::Found);
        };
        let poll = if watched { Moment::MAX } else { looked.unwrap_or(*since) + self.timing.retry() };
        let free = *since + self.age_of_freedom(seen);
        match looked {
            _ if now < free && poll <= now => Step::Look,
            _ if now < free => Step::Wait(free.min(poll)),
            Some(looked) if *looked >= free => {
                at(self.patience.max(*looked + handicap), now, Write::Take(seen.version.clone()))
            }
            _ => Step::Look,
        }
    }

    /// How long a version must have been there for the Lease to be free. The holder's own idea of a lease counts if
    /// it is longer than ours; a shorter one may be a stranger's edit.
    fn age_of_freedom(&self, seen: &Seen) -> Duration {
        if seen.free {
            return Duration::ZERO;
        }
        seen.duration.min(LONGEST).max(self.timing.lease())
    }

    /// The Lease was read: nothing if there is none, an error if there was no answer.
    pub(super) fn looked(&mut self, now: Moment, found: Result<Option<Seen>, ()>) {
        let Ok(found) = found else {
            self.look_at = Some(now + self.timing.retry());
            return;
        };
        self.look_at = None;
        match found {
            None => {
                self.own = None;
                self.observed = None;
            }
            Some(seen) => {
                self.judge(now, &seen);
                self.observe(now, seen, true);
            }
        }
    }

    /// Whether a version that was read lets us lead on. While nobody else can lead, a Lease that somebody has emptied,
    /// or deleted and another candidate made anew, is still ours.
    fn judge(&mut self, now: Moment, seen: &Seen) {
        let is_ours = seen.holder == self.me || (seen.holder.is_empty() && !seen.free);
        let nobody_else = now < self.until || self.own.as_ref() == Some(&seen.version);
        if is_ours && nobody_else {
            self.own = Some(seen.version.clone());
        } else {
            self.own = None;
            self.lose(Lost::Taken);
        }
    }

    fn observe(&mut self, now: Moment, seen: Seen, live: bool) {
        let looked = live.then_some(now);
        match &mut self.observed {
            Some(observed) if observed.seen.version == seen.version => {
                observed.looked = looked.or(observed.looked);
            }
            _ => self.observed = Some(Observed { seen, since: now, looked }),
        }
    }

    /// Something was heard of the Lease, perhaps long ago.
    pub(super) fn heard(&mut self, now: Moment, news: Option<Seen>) {
        let own = self.own.is_some() || self.is_leading();
        match news {
            Some(seen) if own && seen.holder == self.me => {}
            None if self.observed.is_none() => {}
            Some(seen) if !own => self.observe(now, seen, false),
            _ => self.look_at = Some(self.look_at.map_or(now, |at| at.min(now))),
        }
    }

    /// A write that began at `started` has come to its end.
    pub(super) fn wrote(&mut self, write: &Write, started: Moment, now: Moment, written: Written) {
        match written {
            Written::Done(version) => self.did(write, started, now, version),
            Written::Refused => self.wait_after_failure(now, now),
            Written::Unknown => self.wait_after_failure(now, now + self.timing.retry()),
        }
    }

    fn wait_after_failure(&mut self, now: Moment, look_at: Moment) {
        self.patience = now + self.timing.retry();
        self.look_at = Some(look_at);
    }

    fn did(&mut self, write: &Write, started: Moment, now: Moment, version: String) {
        let holder = if *write == Write::Found { String::new() } else { self.me.clone() };
        let seen = Seen { version: version.clone(), holder, duration: self.timing.lease(), free: false };
        let leads = match write {
            Write::Take(_) | Write::Renew(_) => true,
            // Nobody can have led in between only if that is so until now.
            Write::Restore => self.is_leading() && now < self.until,
            Write::Found | Write::Release(_) => false,
        };
        self.observed = Some(Observed { seen, since: now, looked: Some(now) });
        self.own = leads.then_some(version);
        if leads {
            self.began = started;
            self.until = started + self.timing.renew_deadline();
            self.lost = None;
        }
    }

    /// Ceases to lead, or to want to. The next steps give the Lease back.
    pub(super) fn resign(&mut self, now: Moment) {
        self.resigned = true;
        self.patience = now;
    }

    fn is_leading(&self) -> bool {
        self.until > Moment::ZERO
    }

    fn lose(&mut self, why: Lost) {
        if self.is_leading() {
            self.until = Moment::ZERO;
            self.lost = Some(why);
        }
    }
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
