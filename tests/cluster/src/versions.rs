//! Versions of the programs of a cluster.

use std::env::consts::{ARCH, OS};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::kubernetes_module;
use crate::release::Release;

/// Go module of the pinned release.
pub(crate) const KUBERNETES: [&str; 2] =
    [include_str!("../modules/kubernetes/go.mod"), include_str!("../modules/kubernetes/go.sum")];
const ETCD: [&str; 2] = [include_str!("../modules/etcd/go.mod"), include_str!("../modules/etcd/go.sum")];
const KWOK: [&str; 2] = [include_str!("../modules/kwok/go.mod"), include_str!("../modules/kwok/go.sum")];

/// Versions of the programs, with a leading `v`.
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
    /// Returns the versions of a cluster with this release of Kubernetes. The modules of this crate
    /// pin the others.
    pub fn of(release: Release) -> Result<Self> {
        let [etcd, kwok] = [ETCD, KWOK].map(|[go_mod, _]| go_mod);
        Ok(Self {
            kubernetes: release.version(),
            etcd: required(etcd, "go.etcd.io/etcd/server/v3")?,
            kwok: required(kwok, "sigs.k8s.io/kwok")?,
        })
    }
}

/// Returns the name of the cache directory of a release: the versions, a digest of the Go modules,
/// and the platform.
pub fn cache_key(release: Release) -> Result<String> {
    let Versions { kubernetes, etcd, kwok } = Versions::of(release)?;
    let [pinned, checksums] = KUBERNETES.map(str::to_owned);
    let module = if release.is_pinned() {
        [pinned, checksums]
    } else {
        [kubernetes_module::go_mod(release, &pinned), String::new()]
    };
    let texts = module.iter().map(String::as_str).chain(ETCD).chain(KWOK);
    let digest = texts.fold(FNV_OFFSET, fnv);
    Ok(format!("kubernetes-{kubernetes}-etcd-{etcd}-kwok-{kwok}-{OS}-{ARCH}-{digest:016x}"))
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
    use crate::release::RELEASES;

    #[test]
    fn every_module_pins_a_version() {
        let versions = Versions::of(Release::default()).unwrap();
        assert_eq!(versions.kubernetes, required(KUBERNETES[0], "k8s.io/kubernetes").unwrap());
        assert!(versions.etcd.starts_with("v3."), "{versions:?}");
        assert!(versions.kwok.starts_with("v0."), "{versions:?}");
    }

    #[test]
    fn pinned_module_has_the_go_version_of_the_release() {
        assert!(KUBERNETES[0].contains(&format!("\ngo {}\n", Release::default().go())));
    }

    #[test]
    fn key_changes_with_dependencies() {
        assert_ne!(fnv(FNV_OFFSET, "a v1 h1:x"), fnv(FNV_OFFSET, "a v1 h1:y"));
        let keys = RELEASES.map(|release| cache_key(release).unwrap());
        assert!(keys.iter().all(|key| key.contains("kubernetes-v1.") && !key.contains('/')), "{keys:?}");
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    }

    #[test]
    fn missing_module_is_an_error() {
        let error = required("require k8s.io/api v0.36.0\n", "k8s.io/kubernetes").unwrap_err();
        assert!(error.to_string().contains("k8s.io/kubernetes"));
    }
}
