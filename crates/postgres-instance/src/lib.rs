//! The instance manager of a PostgresCluster: the first process of the container that runs
//! PostgreSQL.

pub mod status_api;
