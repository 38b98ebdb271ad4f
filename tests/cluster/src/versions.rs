//! Versions that the Go modules pin.

use std::env::consts::{ARCH, OS};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

const KUBERNETES: [&str; 2] =
    [include_str!("../modules/kubernetes/go.mod"), include_str!("../modules/kubernetes/go.sum")];
const ETCD: [&str; 2] = [include_str!("../modules/etcd/go.mod"), include_str!("../modules/etcd/go.sum")];
const KWOK: [&str; 2] = [include_str!("../modules/kwok/go.mod"), include_str!("../modules/kwok/go.sum")];

/// Pinned versions, with a leading `v`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// `k8s.io/kubernetes`
    pub kubernetes: String,
    /// `go.etcd.io/etcd/server/v3`
    pub etcd: String,
    /// `sigs.k8s.io/kwok`
    pub kwok: String,
}

impl Versions {
    /// Returns the versions that the modules of this crate pin.
    pub fn pinned() -> Result<Self> {
        let [kubernetes, etcd, kwok] = [KUBERNETES, ETCD, KWOK].map(|[go_mod, _]| go_mod);
        Ok(Self {
            kubernetes: required(kubernetes, "k8s.io/kubernetes")?,
            etcd: required(etcd, "go.etcd.io/etcd/server/v3")?,
            kwok: required(kwok, "sigs.k8s.io/kwok")?,
        })
    }

    /// Returns the name of the cache directory: the versions, a digest of all checksums, and the
    /// platform.
    pub fn key(&self) -> String {
        let digest = [KUBERNETES, ETCD, KWOK].iter().flatten().fold(FNV_OFFSET, |hash, text| fnv(hash, text));
        format!(
            "kubernetes-{}-etcd-{}-kwok-{}-{OS}-{ARCH}-{digest:016x}",
            self.kubernetes, self.etcd, self.kwok
        )
    }

    /// Returns the major and minor version of Kubernetes, as in `/version`.
    pub fn kubernetes_minor(&self) -> (&str, &str) {
        let mut parts = self.kubernetes.trim_start_matches('v').split('.');
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }
}

fn required(go_mod: &str, module: &str) -> Result<String> {
    go_mod
        .lines()
        .map(|line| line.trim().trim_start_matches("require ").split_whitespace())
        .find_map(|mut fields| if fields.next()? == module { fields.next() } else { None })
        .filter(|version| version.starts_with('v'))
        .map(str::to_owned)
        .with_context(|| format!("the go.mod under tests/cluster/modules does not require {module}"))
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a. The key must not depend on the compiler; std's hasher does not guarantee that.
fn fnv(seed: u64, text: &str) -> u64 {
    text.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_pins_a_version() {
        let versions = Versions::pinned().unwrap();
        assert!(versions.kubernetes.starts_with("v1."), "{versions:?}");
        assert!(versions.etcd.starts_with("v3."), "{versions:?}");
        assert!(versions.kwok.starts_with("v0."), "{versions:?}");
        assert_eq!(versions.kubernetes_minor().0, "1");
    }

    #[test]
    fn key_changes_with_dependencies() {
        assert_ne!(fnv(FNV_OFFSET, "a v1 h1:x"), fnv(FNV_OFFSET, "a v1 h1:y"));
        let key = Versions::pinned().unwrap().key();
        assert!(key.contains("kubernetes-v1.") && !key.contains('/'), "{key}");
    }

    #[test]
    fn missing_module_is_an_error() {
        let error = required("require k8s.io/api v0.36.0\n", "k8s.io/kubernetes").unwrap_err();
        assert!(error.to_string().contains("k8s.io/kubernetes"));
    }
}
