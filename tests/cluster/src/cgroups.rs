//! Cgroups of real nodes: `/CLUSTER/NODE` in each hierarchy of the machine.
//!
//! The programs of a node run in the leaf `system`, and the kubelet creates the cgroups of Pods
//! beside it. With cgroup v2, only leaves may contain processes.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

const ROOT: &str = "/sys/fs/cgroup";
/// Cgroup of the programs of a node.
const SYSTEM: &str = "system";
/// Controllers that the kubelet needs.
const REQUIRED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];
/// Time in which killed processes leave their cgroups. It is below a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// Returns the name of the parent of a cluster's cgroups. It is derived from the cluster's
/// directory, so that a sweep can derive it as well. Clusters share no parent: one could be removed
/// while another cluster creates its first cgroup in it.
pub(crate) fn name(cluster_dir: &Path) -> String {
    cluster_dir.display().to_string().trim_matches('/').replace(['/', '.'], "-")
}

/// Returns the cgroup of a node as the kubelet's `cgroupRoot`.
pub(crate) fn kubelet_root(cluster: &str, node: &str) -> String {
    format!("/{cluster}/{node}")
}

/// Checks that this machine has the controllers that the kubelet needs.
///
/// # Errors
/// Returns an error that lists the missing controllers.
pub(crate) fn check() -> Result<()> {
    let found: BTreeSet<String> = match fs::read_to_string(Path::new(ROOT).join("cgroup.controllers")) {
        Ok(controllers) => controllers.split_whitespace().map(str::to_owned).collect(),
        Err(_) => hierarchies()?
            .iter()
            .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
            .flat_map(|name| name.split(',').map(str::to_owned).collect::<Vec<_>>())
            .collect(),
    };
    let missing: Vec<_> = REQUIRED.into_iter().filter(|name| !found.contains(*name)).collect();
    ensure!(missing.is_empty(), "the cgroup controllers {} in {ROOT}", missing.join(", "));
    Ok(())
}

/// Creates the cgroups of a node. Returns the files that a process writes its ID to in order to
/// join them.
///
/// # Errors
/// Returns an error if this process may not create cgroups.
pub(crate) fn create(cluster: &str, node: &str) -> Result<Vec<PathBuf>> {
    hierarchies()?
        .iter()
        .map(|hierarchy| {
            let mut path = hierarchy.clone();
            for part in [cluster, node, SYSTEM] {
                let parent = path.clone();
                path.push(part);
                create_one(&parent, &path)?;
            }
            Ok(path.join("cgroup.procs"))
        })
        .collect()
}

/// Creates one cgroup, and makes the controllers of its parent available in it.
fn create_one(parent: &Path, path: &Path) -> Result<()> {
    delegate(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("create the cgroup {}", path.display()));
        }
        _ => {}
    }
    // With cgroup v1, no process may join before these are set.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        copy_if_empty(&parent.join(file), &path.join(file))?;
    }
    Ok(())
}

/// Enables the controllers for the children of a cgroup. Does nothing with cgroup v1.
fn delegate(parent: &Path) -> Result<()> {
    let Ok(available) = fs::read_to_string(parent.join("cgroup.controllers")) else { return Ok(()) };
    for controller in available.split_whitespace() {
        let file = parent.join("cgroup.subtree_control");
        fs::write(&file, format!("+{controller}"))
            .with_context(|| format!("enable the cgroup controller {controller} in {}", file.display()))?;
    }
    Ok(())
}

fn copy_if_empty(from: &Path, to: &Path) -> Result<()> {
    let v1 = from.with_file_name("tasks").exists();
    if v1 && fs::read_to_string(to).is_ok_and(|current| current.trim().is_empty()) {
        let value = fs::read_to_string(from).with_context(|| format!("read {}", from.display()))?;
        fs::write(to, value.trim()).with_context(|| format!("write {}", to.display()))?;
    }
    Ok(())
}

/// Removes the cgroups of a cluster, or those below one of its nodes. Waits until the killed
/// processes have left them.
///
/// # Errors
/// Returns an error if they still exist after 20 s.
pub(crate) fn remove(cluster: &str, node: Option<&str>) -> Result<()> {
    let start = Instant::now();
    loop {
        let left: Vec<_> = paths(cluster, node).filter(|path| !remove_tree(path)).collect();
        let Some(path) = left.first() else { return Ok(()) };
        if start.elapsed() > PATIENCE {
            bail!(
                "cannot remove the cgroup {} after {} s: a process is still in it; see cgroup.procs below it",
                path.display(),
                PATIENCE.as_secs()
            );
        }
        std::thread::sleep(POLL);
    }
}

fn paths(cluster: &str, node: Option<&str>) -> impl Iterator<Item = PathBuf> {
    let below = Path::new(cluster).join(node.unwrap_or_default());
    hierarchies().unwrap_or_default().into_iter().map(move |path| path.join(&below))
}

/// Removes a cgroup with its descendants. Returns whether it is gone.
fn remove_tree(path: &Path) -> bool {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    // Fails while a process is in it.
    let _ = fs::remove_dir(path);
    !path.exists()
}

/// Returns the cgroups of a container on a node of a cluster, one in each hierarchy.
pub(crate) fn find(cluster: &str, container: &str) -> Vec<PathBuf> {
    paths(cluster, None).filter_map(|path| find_below(&path, container)).collect()
}

fn find_below(path: &Path, container: &str) -> Option<PathBuf> {
    if path.file_name()?.to_str()?.contains(container) {
        return Some(path.to_owned());
    }
    let entries = fs::read_dir(path).ok()?.flatten();
    let mut children = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    children.find_map(|child| find_below(&child.path(), container))
}

/// Returns the hierarchies: one with cgroup v2, several with v1.
fn hierarchies() -> Result<BTreeSet<PathBuf>> {
    if Path::new(ROOT).join("cgroup.controllers").exists() {
        return Ok(BTreeSet::from([ROOT.into()]));
    }
    let entries = fs::read_dir(ROOT).with_context(|| format!("list {ROOT}"))?;
    // Hierarchies with several controllers have a link for each of them.
    Ok(entries
        .flatten()
        .filter_map(|entry| fs::canonicalize(entry.path()).ok())
        .filter(|path| path.join("cgroup.procs").exists())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_one_path_component() {
        assert_eq!(name(Path::new("/tmp/ensemble-0/test")), "tmp-ensemble-0-test");
        assert_eq!(name(Path::new("/tmp/.tmpX/ensemble-0/test")), "tmp--tmpX-ensemble-0-test");
    }

    #[test]
    fn finds_cgroup_of_container_below_pods() {
        let dir = tempfile::tempdir().unwrap();
        let cgroup = dir.path().join("node/kubepods/burstable/pod1/cri-containerd-abc.scope");
        fs::create_dir_all(&cgroup).unwrap();
        assert_eq!(find_below(dir.path(), "abc"), Some(cgroup));
        assert_eq!(find_below(dir.path(), "def"), None);
    }

    #[test]
    fn kubelet_root_is_below_cluster() {
        assert_eq!(kubelet_root("tmp-x", "node-1"), "/tmp-x/node-1");
    }
}
