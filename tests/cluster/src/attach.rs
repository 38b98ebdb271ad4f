//! Attaches to a cluster that another process owns.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::Cluster;
use crate::cluster::is_dns_label;
use crate::record::Record;
use crate::state::{Owner, StateRoot};

/// Returns the running cluster with the given name, directory, or kubeconfig.
///
/// # Errors
/// Returns an error if the cluster does not run or is not ready.
pub fn attach(wanted: &str) -> Result<Cluster> {
    let cluster = if is_dns_label(wanted) {
        attach_if_running(wanted)?
    } else {
        attach_to_dir(&directory(Path::new(wanted)))?
    };
    cluster.with_context(|| format!("no cluster {wanted:?} is running; `cargo xtask cluster up --name NAME` starts one, `cargo xtask cluster status` lists them"))
}

/// Returns the running cluster with the given name. Returns `None` if it does not run or is not
/// ready.
pub(crate) fn attach_if_running(name: &str) -> Result<Option<Cluster>> {
    let root = StateRoot::from_env()?;
    match root.owner(name)? {
        Some(Owner::Present) => attach_to_dir(&root.dir(name)),
        Some(Owner::Gone) | None => Ok(None),
    }
}

fn attach_to_dir(dir: &Path) -> Result<Option<Cluster>> {
    Ok(Record::read(dir)?.map(Cluster::attached))
}

fn directory(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|_| path.is_file());
    parent.unwrap_or(path).to_owned()
}
