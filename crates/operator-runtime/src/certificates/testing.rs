//! Fixtures for unit tests of certificates.

use std::time::Duration;

use certificates::Lifetimes;
use jiff::Timestamp;
use rustls::pki_types::ServerName;

use super::{
    rotation::plan::{Inputs, Plan, Served, plan},
    store::contents::Data,
};

/// Returns the time `seconds` after the start of a test.
pub(super) fn time(seconds: u64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + Duration::from_secs(seconds)
}

pub(super) fn names(names: &[&str]) -> Vec<ServerName<'static>> {
    names.iter().map(|name| ServerName::try_from((*name).to_owned()).unwrap()).collect()
}

/// Host name of the certificates in tests.
pub(super) const NAME: &str = "ensemble-webhook.ensemble-system.svc";

/// Returns three hours and one hour: the authority is due after 7200 s, the serving certificate
/// after 2400 s, and a new authority signs after 300 s.
pub(super) fn lifetimes() -> Lifetimes {
    Lifetimes::new(Duration::from_hours(3), Duration::from_hours(1)).unwrap()
}

/// Returns the plan of a process that serves `served`.
pub(super) fn plan_at(seconds: u64, stored: &Data, served: Option<&Served>) -> Plan {
    let names = names(&[NAME]);
    plan(stored, Inputs { now: time(seconds), lifetimes: lifetimes(), names: &names, served }).unwrap()
}
