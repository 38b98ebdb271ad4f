//! Upgrades of the data to another major version.
//!
//! ```text
//!   copy_programs  copies the programs of the former version, in an init container with its image
//!   previous       those programs, in the container with the new version
//!   pg_upgrade     makes an upgraded data directory beside the former one
//!   attempts       how often that was tried in this Pod, and why it failed
//! ```
//!
//! `pg_upgrade` needs the programs of both versions. It links the files of tables, so it needs neither time nor space
//! for them.

mod attempts;
mod copy_programs;
mod pg_upgrade;
mod previous;

pub(crate) use self::{
    attempts::UpgradeAttempts,
    copy_programs::copy_programs,
    pg_upgrade::Upgrade,
    previous::{Previous, data_version},
};
