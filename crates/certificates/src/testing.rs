//! Fixtures for unit tests.

use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::ServerName;

use crate::lifetimes::after;

/// Returns the time `seconds` after the start of a test.
pub(crate) fn time(seconds: u64) -> Timestamp {
    after(Timestamp::from_second(1_800_000_000).unwrap(), Duration::from_secs(seconds))
}

pub(crate) fn names(names: &[&str]) -> Vec<ServerName<'static>> {
    names.iter().map(|name| ServerName::try_from((*name).to_owned()).unwrap()).collect()
}
