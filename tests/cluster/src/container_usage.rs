//! Memory and CPU time of a container on a real node, from its cgroups.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::{Cluster, cgroups};

const MIB: f64 = 1024.0 * 1024.0;

/// Cgroups of a running container. They end with the container.
#[derive(Clone, Debug)]
pub struct ContainerUsage {
    /// One cgroup with cgroup v2, one for each hierarchy with v1.
    cgroups: Vec<PathBuf>,
}

impl Cluster {
    /// Returns the usage of the first container of a Pod on a real node.
    ///
    /// # Errors
    /// Returns an error if the container does not run on a real node of this cluster.
    pub async fn container_usage(&self, namespace: &str, pod: &str) -> Result<ContainerUsage> {
        let id = "jsonpath={.status.containerStatuses[0].containerID}";
        let id = self.kubectl(&["--namespace", namespace, "get", "pod", pod, "-o", id]).await?;
        let id = id.rsplit('/').next().filter(|id| !id.is_empty());
        let id = id.with_context(|| format!("the Pod {namespace}/{pod} has no container"))?;
        let cgroups = cgroups::find(&cgroups::name(&self.record().dir), id);
        Ok(ContainerUsage { cgroups })
    }
}

impl ContainerUsage {
    /// Returns the memory that counts towards the limit of the container, in MiB. It includes files
    /// that the kernel has cached for the container.
    ///
    /// # Errors
    /// Returns an error if the container has ended.
    pub fn memory(&self) -> Result<f64> {
        self.mebibytes(&["memory.current", "memory.usage_in_bytes"])
    }

    /// Returns the peak of [`ContainerUsage::memory`]. Errors as there.
    pub fn peak_memory(&self) -> Result<f64> {
        self.mebibytes(&["memory.peak", "memory.max_usage_in_bytes"])
    }

    /// Returns the CPU time of the container. Errors as in [`ContainerUsage::memory`].
    pub fn cpu(&self) -> Result<Duration> {
        if let Ok(nanoseconds) = self.read(&["cpuacct.usage"]) {
            return Ok(Duration::from_nanos(nanoseconds.trim().parse()?));
        }
        let statistics = self.read(&["cpu.stat"])?;
        let microseconds = statistics.lines().find_map(|line| line.strip_prefix("usage_usec "));
        Ok(Duration::from_micros(microseconds.context("cpu.stat has no usage_usec")?.parse()?))
    }

    /// Returns the ID of the first process of the container. Errors as in [`ContainerUsage::memory`].
    pub fn pid(&self) -> Result<u32> {
        let processes = self.read(&["cgroup.procs"])?;
        processes.lines().next().context("the container has no process")?.parse().context("read its process")
    }

    fn mebibytes(&self, names: &[&str]) -> Result<f64> {
        Ok(self.read(names)?.trim().parse::<f64>()? / MIB)
    }

    /// Reads the first of these files that exists.
    fn read(&self, names: &[&str]) -> Result<String> {
        let files = self.cgroups.iter().flat_map(|cgroup| names.iter().map(|name| cgroup.join(name)));
        let mut texts = files.filter_map(|file: PathBuf| read(&file));
        texts
            .next()
            .with_context(|| format!("the container has no {}; it may have ended", names.join(" or ")))
    }
}

fn read(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(files: &[(&str, &str)]) -> (tempfile::TempDir, ContainerUsage) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let cgroups = vec![dir.path().to_owned()];
        (dir, ContainerUsage { cgroups })
    }

    #[test]
    fn reads_both_versions_of_cgroups() {
        let v1 = usage(&[
            ("memory.usage_in_bytes", "1048576\n"),
            ("memory.max_usage_in_bytes", "2097152\n"),
            ("cpuacct.usage", "5000000\n"),
            ("cgroup.procs", "17\n18\n"),
        ]);
        let v2 = usage(&[
            ("memory.current", "1048576\n"),
            ("memory.peak", "2097152\n"),
            ("cpu.stat", "usage_usec 5000\nuser_usec 1\n"),
            ("cgroup.procs", "17\n18\n"),
        ]);
        for (_dir, usage) in [v1, v2] {
            assert_eq!((usage.memory().unwrap(), usage.peak_memory().unwrap()), (1.0, 2.0));
            assert_eq!((usage.cpu().unwrap(), usage.pid().unwrap()), (Duration::from_millis(5), 17));
        }
    }

    #[test]
    fn error_says_that_container_may_have_ended() {
        let (_dir, usage) = usage(&[]);
        assert!(usage.memory().unwrap_err().to_string().contains("may have ended"));
    }
}
