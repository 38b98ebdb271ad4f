//! `--kubernetes`: the version of Kubernetes that a cluster runs.

use anyhow::Result;
use clap::Args;
use cluster::{KUBERNETES_VARIABLE, Release, binaries::Locator};

/// Version of Kubernetes.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Kubernetes {
    /// Minor version of Kubernetes to run, such as 1.34, which the first cluster builds; or
    /// emulated-1.34, as which the default version runs
    #[arg(long, value_name = "VERSION", env = KUBERNETES_VARIABLE, default_value_t)]
    kubernetes: Release,
}

impl Kubernetes {
    /// Returns the release that the option selects.
    pub(crate) fn release(self) -> Release {
        self.kubernetes
    }

    /// Returns the locator of the release's programs.
    pub(crate) fn locator(self) -> Result<Locator> {
        Locator::of(self.kubernetes)
    }
}

#[cfg(test)]
mod tests {
    use cluster::RELEASES;
    use manager::OLDEST_KUBERNETES;

    #[test]
    fn oldest_supported_version_can_run() {
        assert_eq!(RELEASES[0].minor(), OLDEST_KUBERNETES);
    }
}
