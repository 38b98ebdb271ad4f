//! Faults that a run injects.

use std::time::Duration;

use crate::{
    proxy::{
        request_info::Key,
        rules::{Fault, FrameFault, Which},
    },
    workload::Step,
};

/// A fault to inject.
#[derive(Clone, Debug)]
pub enum Injection {
    /// A fault for requests.
    Requests {
        /// Who sends them.
        sender: Sender,
        /// The requests.
        which: Which,
        /// The fault.
        fault: Fault,
        /// Time after which the fault is removed. `None` for one-time faults.
        heal_after: Option<Duration>,
    },
    /// Faults for watch frames.
    Frames(Vec<FrameFilter>),
    /// The manager crashes at a write or a frame, and its successor first sees a cache from before
    /// any deletion.
    OutdatedCache(Trigger),
    /// Watches of a resource expire.
    Expire(String, Expiry),
    /// Watches of a resource stop sending events.
    Silence(String),
    /// An outage that affects all controllers.
    Outage(Outage),
    /// A third party modifies objects.
    Modify(fn(&str) -> Vec<Step>),
}

/// Who sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The manager.
    Manager,
    /// The members of PostgresClusters.
    Members,
}

/// A fault for frames.
#[derive(Clone, Debug)]
pub struct FrameFilter {
    /// The watched resource, or any.
    pub resource: Option<String>,
    /// The event type, or any.
    pub event: Option<String>,
    /// Which frame, counted from 1, or all.
    pub nth: Option<usize>,
    /// The fault.
    pub fault: FrameFault,
}

/// Event at which the manager crashes.
#[derive(Clone, Debug, PartialEq)]
pub enum Trigger {
    /// A write.
    Write(Key, usize),
    /// The first frame with the deletion of an object of this resource.
    Gone(String),
}

/// Where an expired resource version is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// In an open watch.
    InStream,
    /// When a watch is reopened.
    AtConnect,
    /// At the next page of a list.
    Continue,
}

/// An outage that affects all controllers, after a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The API server.
    ApiServer(Duration),
    /// etcd.
    Etcd(Duration),
    /// The CRDs are changed and reverted, so the API server closes all their watches.
    Definitions,
    /// The leader.
    Leader(End),
    /// The leader is killed, and the clock of its successor is ahead by this number of seconds.
    Clock(i64),
}

impl Outage {
    /// Returns whether the outage needs managers that share all controllers instead of one manager
    /// per controller.
    pub fn is_of_leaders(self) -> bool {
        matches!(self, Self::Leader(_) | Self::Clock(_))
    }
}

/// How a leader fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is killed.
    Killed,
    /// It is paused for longer than its Lease and resumes.
    Frozen,
    /// It cannot reach the API server for longer than its Lease.
    CutOff,
}
