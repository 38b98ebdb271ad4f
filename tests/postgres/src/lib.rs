//! Plays the node and the operator for members of a PostgresCluster: each member is the instance
//! manager with a real PostgreSQL, in a PID namespace of its own, with a folder as its volume and a
//! loopback address as its Pod's.

mod api_proxy;
mod identities;
mod member;
mod operator;
mod programs;
mod status_client;

pub use api_proxy::ApiProxy;
pub use member::Member;
pub use operator::Database;
