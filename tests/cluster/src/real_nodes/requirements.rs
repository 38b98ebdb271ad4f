//! What a machine needs to run real nodes.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use rustix::process::getuid;

use crate::cgroups;

/// Packages of Debian and Ubuntu with the programs and the CNI plugins that real nodes need.
pub const PACKAGES: [&str; 10] = [
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "dpkg",
    "iproute2",
    "iptables",
    "mount",
    "nftables",
    "runc",
    "util-linux",
];

const PROGRAMS: [&str; 10] = [
    "conntrack",
    "containerd",
    "containerd-shim-runc-v2",
    "dpkg-deb",
    "ip",
    "iptables",
    "nft",
    "nsenter",
    "runc",
    "unshare",
];

/// Directories where distributions install CNI plugins.
const CNI_PLUGINS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];

/// Checks that this machine can run real nodes.
///
/// # Errors
/// Returns an error that lists everything that is missing, with the remedy. Nothing is changed.
pub fn check() -> Result<()> {
    let missing = missing();
    if !missing.is_empty() {
        bail!(
            "real nodes need {}; install them with `cargo xtask cluster prepare`, or use simulated nodes",
            missing.join(", ")
        );
    }
    if !getuid().is_root() {
        bail!(
            "real nodes need root, for namespaces, mounts, and cgroups; run the command as root, or use simulated nodes"
        );
    }
    if let Err(controllers) = cgroups::check() {
        bail!("real nodes need {controllers}, which this machine lacks; use simulated nodes");
    }
    if !can_create_namespaces() {
        bail!(
            "real nodes need new network, mount, and PID namespaces, which this machine does not allow; \
             in a container, add --privileged, or use simulated nodes"
        );
    }
    Ok(())
}

/// Returns the directory of the CNI plugins.
pub(super) fn cni_plugins() -> Option<PathBuf> {
    CNI_PLUGINS.into_iter().map(PathBuf::from).find(|dir| dir.join("ptp").is_file())
}

/// Returns the programs that are not installed, by their names.
pub fn missing() -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_missing = |name: &&str| !std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let plugins = cni_plugins().is_none().then_some("CNI plugins");
    PROGRAMS.into_iter().filter(is_missing).chain(plugins).collect()
}

fn can_create_namespaces() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["--net", "--mount", "--pid", "--fork", "mount", "-t", "proc", "proc", "/proc"]);
    probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
