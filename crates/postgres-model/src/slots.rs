//! Replication slots of the members.

/// The first major version of PostgreSQL that copies logical slots to standbys.
pub const FIRST_MAJOR: u16 = 17;
/// Beginning of their names.
const PREFIX: &str = "ensemble_";

/// Returns the name of the slot that a member uses on its primary: it ends with the serial number of the member.
///
/// # Examples
/// ```
/// assert_eq!(postgres_model::slots::name("orders-db-3"), "ensemble_3");
/// ```
pub fn name(member: &str) -> String {
    let serial = member.rsplit_once('-').map_or(member, |(_, serial)| serial);
    format!("{PREFIX}{serial}")
}

/// Returns whether a slot of this name is that of a member.
///
/// # Examples
/// ```
/// use postgres_model::slots::is_of_member;
///
/// assert!(is_of_member("ensemble_3"));
/// assert!(!is_of_member("ensemble_backup"));
/// ```
pub fn is_of_member(slot: &str) -> bool {
    slot.strip_prefix(PREFIX).is_some_and(|serial| serial.parse::<u32>().is_ok())
}
