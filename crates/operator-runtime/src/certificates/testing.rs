//! What the tests of this module share.

use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::ServerName;

use super::{
    contents::Data,
    lifetimes::{Lifetimes, after},
    plan::{Plan, Shown, Situation, plan},
};

/// So many seconds after the tests' beginning of time.
pub(super) fn time(seconds: u64) -> Timestamp {
    after(Timestamp::from_second(1_800_000_000).unwrap(), Duration::from_secs(seconds))
}

pub(super) fn names(names: &[&str]) -> Vec<ServerName<'static>> {
    names.iter().map(|name| ServerName::try_from((*name).to_owned()).unwrap()).collect()
}

/// The name that the tests' certificates are for.
pub(super) const NAME: &str = "ensemble-webhook.ensemble-system.svc";

/// An hour and three: the authority is due at 7200, the serving certificate at 2400, an authority may sign after 300.
pub(super) fn lifetimes() -> Lifetimes {
    Lifetimes::new(Duration::from_hours(3), Duration::from_hours(1)).unwrap()
}

/// The plan of a process that shows this.
pub(super) fn plan_at(seconds: u64, stored: &Data, shown: Option<&Shown>) -> Plan {
    let names = names(&[NAME]);
    plan(stored, Situation { now: time(seconds), lifetimes: lifetimes(), names: &names, shown }).unwrap()
}
