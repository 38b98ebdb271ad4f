//! What the operator of a PostgresCluster and the instances in its Pods share.
//!
//! The operator decides, and an instance (PID 1 of the Postgres container) obeys. Both must compute
//! the same positions, timelines, and quorums, so the arithmetic is here. The crate is pure: it has
//! no client, no clock, and no input or output. No function panics, whatever the input is.
//!
//! | module | contents |
//! |---|---|
//! | [`lsn`] | positions in the write-ahead log (WAL) |
//! | [`timeline`] | timelines, their histories, where two histories part, stub histories |
//! | [`wal_file`] | WAL segments and the names of the files in `pg_wal` |
//! | [`sync`] | `synchronous_standby_names` |
//! | [`failover`] | which member to promote, and the quorum that a promotion needs |
//! | [`fence`] | members that a person has fenced |
//! | [`incremental`] | incremental base backups |
//! | [`instance`] | what an instance does next |
//! | [`metrics`] | metrics that an instance serves |
//! | [`parameters`] | parameters of PostgreSQL in a spec |
//! | [`databases`] | roles and databases in a spec |
//! | [`report`] | what an instance answers to `GET /status` |
//! | [`space`] | when a volume is full, and what an instance keeps in reserve |
//! | [`volume_state`] | what an instance keeps on its volume |
//! | [`archive`] | keys of the objects in the archive, identifiers of backups |
//! | [`system_identifier`] | the number that `initdb` chooses |
//! | [`version`] | versions of PostgreSQL, the catalog of images, which image a version runs |
//!
//! # Examples
//!
//! A former primary wrote until `0/5000000`. Its successor forked at `0/4000000`, so the former
//! primary has WAL that the successor lacks:
//!
//! ```
//! use postgres_model::timeline::{Ancestry, History, Position, TimelineId, ancestry};
//!
//! let former = History::first();
//! let successor = History::parse(TimelineId::new(2)?, "1\t0/4000000\tno recovery target specified\n")?;
//! let fork = Position { timeline: TimelineId::FIRST, lsn: "0/4000000".parse()? };
//! assert_eq!(ancestry(&former, "0/5000000".parse()?, &successor), Ancestry::Diverged(fork));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod archive;
pub mod databases;
pub mod failover;
pub mod fence;
mod fingerprint;
mod hex;
pub mod in_force;
pub mod incremental;
pub mod instance;
pub mod lsn;
pub mod metrics;
pub mod parameters;
pub mod report;
pub mod slots;
pub mod space;
pub mod status_api;
pub mod sync;
pub mod system_identifier;
pub mod timeline;
pub mod version;
pub mod volume_state;
pub mod wal_file;
