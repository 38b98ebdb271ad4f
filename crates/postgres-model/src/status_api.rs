//! What both sides of the status API of an instance know.

use std::time::Duration;

/// Port on which instances serve their status, by HTTPS with certificates of both sides.
pub const PORT: u16 = 8008;
/// Port on which instances serve their probes, by HTTP.
pub const PROBE_PORT: u16 = 8009;
/// Common name in the certificate of the operator.
pub const OPERATOR: &str = "ensemble-operator";
/// Common name in the certificate of the members, with which their standbys also log in.
pub const MEMBER: &str = "streaming_replica";
/// Longest time that a request may wait for the next report.
pub const MAX_WAIT: Duration = Duration::from_mins(1);
