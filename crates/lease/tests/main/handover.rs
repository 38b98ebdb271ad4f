//! Handover between two programs that drive the state machine themselves.

use std::time::Duration;

use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use lease::{LossReason, Machine, Moment, Step, Timing, Write, WriteResult, Writer, record, unused};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// API server with one Lease, which nobody has held.
struct Server {
    lease: Lease,
    writes: u64,
}

impl Server {
    fn new() -> Self {
        let labels = [("lukeb0nd.com/cluster".to_owned(), "database".to_owned())].into();
        let mut server = Self { lease: unused("database", "default", labels), writes: 0 };
        server.store(server.lease.clone());
        server
    }

    fn store(&mut self, lease: Lease) -> String {
        self.writes += 1;
        let version = self.writes.to_string();
        self.lease = lease;
        self.lease.metadata.resource_version = Some(version.clone());
        version
    }

    fn holder(&self) -> String {
        record(&self.lease).holder
    }
}

struct Program {
    machine: Machine,
    writer: Writer,
}

impl Program {
    fn new(identity: &str, now: Moment) -> Self {
        let annotations = [("lukeb0nd.com/system".to_owned(), "7".to_owned())].into();
        Self {
            machine: Machine::new(identity.to_owned(), Timing::default(), now),
            writer: Writer::new(identity, Timing::default()).with_annotations(annotations),
        }
    }

    fn next(&mut self, now: Moment) -> Step {
        self.machine.next(now, Duration::ZERO, false)
    }

    fn leads(&self, now: Moment) -> bool {
        now < self.machine.leads_until()
    }

    /// Performs steps until the machine waits or is done.
    fn run(&mut self, server: &mut Server, now: Moment) -> Step {
        loop {
            match self.next(now) {
                Step::Read => self.machine.read_done(now, now, Ok(Some(record(&server.lease)))),
                Step::Write(write) => {
                    let version = self.write(server, &write);
                    self.machine.write_done(&write, now, now, WriteResult::Committed(version));
                }
                step => return step,
            }
        }
    }

    fn write(&self, server: &mut Server, write: &Write) -> String {
        let (lease, time) = (server.lease.clone(), Timestamp::UNIX_EPOCH);
        server.store(match write {
            Write::Acquire(_) | Write::Renew(_) => self.writer.hold(lease, time),
            Write::Release(_) => self.writer.release(lease, time),
            Write::Create | Write::Recreate => panic!("the Lease exists"),
        })
    }
}

#[test]
fn next_program_leads_immediately_after_clean_stop() {
    let mut server = Server::new();
    let mut first = Program::new("database-1_5d3c_7", Duration::ZERO);
    assert_eq!(first.run(&mut server, seconds(1)), Step::Wait(seconds(6)), "it leads and renews");
    assert!(first.leads(seconds(1)));
    assert_eq!(server.holder(), "database-1_5d3c_7");
    let mut second = Program::new("database-2_90aa_8", seconds(2));
    assert_eq!(second.run(&mut server, seconds(2)), Step::Wait(seconds(4)), "it polls");

    first.machine.resign(seconds(3));
    assert!(!first.leads(seconds(3)));
    assert_eq!(first.run(&mut server, seconds(3)), Step::Done);
    second.run(&mut server, seconds(4));
    assert!(second.leads(seconds(4)));
    assert_eq!(server.holder(), "database-2_90aa_8");
    let metadata = &server.lease.metadata;
    assert_eq!(metadata.annotations, Some([("lukeb0nd.com/system".to_owned(), "7".to_owned())].into()));
    assert_eq!(metadata.labels.as_ref().unwrap()["lukeb0nd.com/cluster"], "database");
}

#[test]
fn program_that_leaves_out_renewals_stops_before_next_one_starts() {
    let mut server = Server::new();
    let mut first = Program::new("database-1_5d3c_7", Duration::ZERO);
    first.run(&mut server, seconds(1));
    let mut second = Program::new("database-2_90aa_8", seconds(1));
    let mut started = None;
    for now in (1..40).map(seconds) {
        assert_eq!(first.leads(now), now < seconds(11));
        first.machine.expire(now);
        second.run(&mut server, now);
        if second.leads(now) {
            started.get_or_insert(now);
        }
    }
    assert_eq!(first.machine.lost(), Some(LossReason::Deadline));
    assert!(started.is_some_and(|started| started >= seconds(16)), "{started:?}");
}
