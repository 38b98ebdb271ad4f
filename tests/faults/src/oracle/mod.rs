//! Whether a run came to what it should, and did nothing on its way that it must not. Pure.

pub mod counts;
pub mod log;
pub mod normal;
pub mod safety;

/// The annotation by which a third hand changes an object in a way that concerns nobody.
pub const TOUCHED: &str = "faults.test/touched";
