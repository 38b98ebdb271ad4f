//! DeviceClasses of dynamic resource allocation. Kubernetes serves the version that the manager reads from 1.34 on.

use super::TestEnv;

/// API group of DeviceClasses.
pub(crate) const DEVICES: &str = "resource.k8s.io";

impl TestEnv {
    /// Returns whether this version of Kubernetes has DeviceClasses. A newer one must serve them.
    pub(crate) async fn serves_device_classes(&self) -> bool {
        let version = self.read(&["version"]).await;
        let minor = version["serverVersion"]["minor"].as_str().unwrap();
        minor.trim_end_matches('+').parse::<u32>().unwrap() >= 34
    }
}
