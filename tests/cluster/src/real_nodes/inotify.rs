//! The limit of inotify instances, which a kubelet and containerd reach first.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

const LIMIT: &str = "/proc/sys/fs/inotify/max_user_instances";
/// Instances of the control plane, and of one node with its programs.
const CONTROL_PLANE: usize = 11;
const NODE: usize = 8;

/// Checks that a cluster with this number of real nodes can create its inotify instances.
///
/// # Errors
/// Returns an error with the numbers and the remedy. Nothing is changed.
pub(crate) fn check_inotify(nodes: usize) -> Result<()> {
    // Without the file there is no limit to check.
    let Some(limit) = fs::read_to_string(LIMIT).ok().and_then(|limit| limit.trim().parse().ok()) else {
        return Ok(());
    };
    let (used, needed) = (count(Path::new("/proc")), CONTROL_PLANE + nodes * NODE);
    ensure!(
        used + needed <= limit,
        "{nodes} real nodes and their control plane need {needed} inotify instances, and {used} of {limit} \
         are in use; stop other clusters, or raise the limit: sysctl fs.inotify.max_user_instances=1024"
    );
    Ok(())
}

/// Returns the number of inotify instances of all processes. Real nodes need root, so they are
/// nearly all of the same user.
fn count(proc: &Path) -> usize {
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let descriptors = entries(proc).flat_map(|process| entries(&process.path().join("fd")));
    let is_inotify = |link: &Path| link == Path::new("anon_inode:inotify");
    descriptors.filter(|file| fs::read_link(file.path()).is_ok_and(|link| is_inotify(&link))).count()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn counts_instances_of_all_processes() {
        let proc = tempfile::tempdir().unwrap();
        for (file, link) in
            [("1/fd/3", "anon_inode:inotify"), ("1/fd/4", "/dev/null"), ("27/fd/9", "anon_inode:inotify")]
        {
            let path = proc.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(link, path).unwrap();
        }
        fs::create_dir(proc.path().join("self-without-fd")).unwrap();
        assert_eq!(count(proc.path()), 2);
    }

    #[test]
    fn error_has_the_numbers_and_the_remedy() {
        let error = check_inotify(1_000_000).unwrap_err().to_string();
        assert!(
            error.starts_with("1000000 real nodes and their control plane need 8000011 inotify"),
            "{error}"
        );
        assert!(error.ends_with("sysctl fs.inotify.max_user_instances=1024"), "{error}");
    }
}
