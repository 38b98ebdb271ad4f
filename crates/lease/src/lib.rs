//! Leader election with a Kubernetes Lease: at most one holder, and a fast handover after a clean
//! stop.
//!
//! The crate sends no requests, reads no clock, and starts no tasks. [`Machine`] says what to do
//! next, and your program does it: with an asynchronous client, in a thread without a runtime, or in
//! a simulation. [`Writer`] creates the Leases to write, and [`record`] reads them.
//!
//! # Guarantees
//! Among the candidates for one Lease:
//! - At most one leads at any instant. A candidate leads while its clock is before
//!   [`Machine::leads_until`].
//! - A leader that cannot renew its Lease stops before another candidate can start. The time between
//!   is the lease duration minus the renew deadline of [`Timing`].
//! - A released Lease, or one that has never been held, is acquired without waiting for its expiry.
//! - If a Lease is deleted or emptied under its leader, nobody else leads before that leader stopped.
//!
//! This holds if processes are killed or paused, and if requests are lost, delayed, or executed after
//! their timeout. Whoever forges the annotation of a release, or replaces a held Lease with an
//! unused one, moves leadership without the leader's consent.
//!
//! # Assumptions
//! - Clocks run at about the same speed: see [`Timing::new`] for the tolerance. They do not have to
//!   show the same time, and times in the Lease are never compared.
//! - All calls of one machine use the same [`Moment`] clock. It is never set back, and it advances
//!   while the process is paused and while the computer sleeps.
//! - All candidates have the same lease duration. A longer one in the Lease is respected.
//! - Resource versions are never reused. They can be after a restore of etcd: end the process if a
//!   response has a lower version than an earlier one.
//! - Each identity is used by one [`Machine`] only, and never again after a restart.
//! - A write is sent once and replaces exactly the resource version that it names. A client that
//!   retries requests by itself hides when the write began, which [`Machine::write_done`] must know.
//! - The program checks [`Machine::leads_until`] immediately before everything that only the leader
//!   may do.
//!
//! # A Lease of your own
//! The name, the labels, and the annotations of the Lease are yours. Another program may create it
//! with [`unused`]; the first candidate then leads at once. To hold it only while a condition is met,
//! do not perform [`Write::Renew`] while the condition is not met: leadership then ends at the renew
//! deadline. The machine still tries to lead again. If it must not, drop it, and continue later with
//! a new machine that has a new identity. After a clean stop, call [`Machine::resign`] and perform
//! the steps until [`Step::Done`]: the next candidate then leads immediately.
//!
//! # Several Leases of one process
//! A process that holds several Leases need not renew each of them: [`SharedRenewal`].
//!
//! # Examples
//! One candidate, which reads the Lease, acquires it, and renews it. Comments stand for the requests.
//!
//! ```
//! use std::time::Duration;
//!
//! use k8s_openapi::jiff::Timestamp;
//! use lease::{Machine, Step, Timing, Write, WriteResult, Writer, record, unused};
//!
//! let identity = "database-1_5d3c_7";
//! let writer = Writer::new(identity, Timing::default());
//! // The wall clock goes into the Lease for people only.
//! let time = Timestamp::from_second(1_800_000_000).unwrap();
//! // The program's clock shows 100 s. It has a working watch and leaves no free Lease to others.
//! let mut now = Duration::from_secs(100);
//! let mut machine = Machine::new(identity.to_owned(), Timing::default(), now);
//! let next = |machine: &mut Machine, now| machine.next(now, Duration::ZERO, true);
//!
//! // GET: another program created the Lease, and nobody has held it.
//! assert_eq!(next(&mut machine, now), Step::Read);
//! let mut lease = unused("database", "default", [].into());
//! lease.metadata.resource_version = Some("1".to_owned());
//! machine.read_done(now, now, Ok(Some(record(&lease))));
//!
//! // PUT: the response has the next resource version.
//! let acquire = Write::Acquire("1".to_owned());
//! assert_eq!(next(&mut machine, now), Step::Write(acquire.clone()));
//! lease = writer.hold(lease, time);
//! machine.write_done(&acquire, now, now, WriteResult::Committed("2".to_owned()));
//! assert_eq!(machine.leads_until(), Duration::from_secs(110), "the renew deadline is 10 s");
//! assert_eq!(next(&mut machine, now), Step::Wait(Duration::from_secs(105)));
//!
//! // PUT, after a third of the lease duration. Deadlines count from the start of a write.
//! let (renew, started) = (Write::Renew("2".to_owned()), Duration::from_secs(105));
//! assert_eq!(next(&mut machine, started), Step::Write(renew.clone()));
//! lease = writer.hold(lease, time);
//! now = Duration::from_secs(106);
//! machine.write_done(&renew, started, now, WriteResult::Committed("3".to_owned()));
//! assert_eq!(machine.leads_until(), Duration::from_secs(115));
//! assert_eq!(record(&lease).holder, identity);
//! ```

mod anchor;
mod machine;
mod record;
mod timing;

pub use anchor::{SharedRenewal, anchor_name, is_renewed_with};
pub use machine::{Anchor, LeaseRecord, LossReason, Machine, Moment, Step, Write, WriteResult};
pub use record::{Writer, record, record_with_anchor, unused};
pub use timing::{MAX_LEASE_DURATION, Timing, TimingError};
