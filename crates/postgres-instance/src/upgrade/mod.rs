//! Upgrades of the data to another major version.
//!
//! ```text
//!   copy_programs  copies the programs of the former version, in an init container with its image
//!   previous       those programs, in the container with the new version
//!   pg_upgrade     makes an upgraded data directory beside the former one
//!   failure        why that failed, for as long as the Pod exists
//! ```
//!
//! `pg_upgrade` needs the programs of both versions. It links the files of tables, so it needs neither time nor space
//! for them.

mod copy_programs;
mod failure;
mod pg_upgrade;
mod previous;

pub(crate) use self::{
    copy_programs::copy_programs,
    failure::UpgradeFailure,
    pg_upgrade::Upgrade,
    previous::{Previous, data_version},
};
