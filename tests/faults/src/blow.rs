//! What goes wrong in a run.

use std::time::Duration;

use crate::{
    proxy::{
        asked::Key,
        rules::{Fault, Twist, Which},
    },
    workload::Step,
};

/// What is to go wrong.
#[derive(Clone, Debug)]
pub enum Blow {
    /// A fault of requests.
    Requests {
        /// Which of them.
        which: Which,
        /// What is done to them.
        fault: Fault,
        /// After how long it heals by itself, if it does not come just once.
        heals: Option<Duration>,
    },
    /// Faults of frames.
    Frames(Vec<Told>),
    /// The manager dies of a write or a frame, and the next one sees for a while what there was before anything was
    /// deleted.
    Travel(Trigger),
    /// Watches of a resource have expired.
    Expire(String, Expiry),
    /// Watches of a resource fall silent.
    Silence(String),
    /// Something that all controllers need is away.
    Outage(Outage),
    /// Somebody does something to what is there.
    Disturb(fn(&str) -> Vec<Step>),
}

/// Frames that are told otherwise.
#[derive(Clone, Debug)]
pub struct Told {
    /// The resource that is watched, or any.
    pub resource: Option<String>,
    /// What they tell, or anything.
    pub event: Option<String>,
    /// Which of them, counted from 1; or each.
    pub nth: Option<usize>,
    /// What is done to them.
    pub twist: Twist,
}

/// What a manager dies of.
#[derive(Clone, Debug, PartialEq)]
pub enum Trigger {
    /// A write.
    Write(Key, usize),
    /// The first news that an object of this resource is gone.
    Gone(String),
}

/// Where it shows that a version has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// In the midst of a watch.
    InStream,
    /// When a watch is opened again.
    AtConnect,
    /// When the rest of a list is asked for.
    Continue,
}

/// Something that all controllers need and that is away for a while, after some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The API server.
    ApiServer(Duration),
    /// What the API server stores into.
    Etcd(Duration),
    /// The definitions of our kinds are changed, and changed back: the API server ends all watches of them.
    Definitions,
    /// The manager that leads.
    Leader(End),
    /// The manager that leads is killed, and the clock of the one that follows it is so many seconds ahead.
    Clock(i64),
}

impl Outage {
    /// Whether it meets managers that share all controllers, and not those that have one each: these have to end for it.
    pub fn is_of_leaders(self) -> bool {
        matches!(self, Self::Leader(_) | Self::Clock(_))
    }
}

/// How a leader comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is killed.
    Killed,
    /// It is frozen for longer than its lease, and thaws.
    Frozen,
    /// It does not reach the API server for longer than its lease.
    CutOff,
}
