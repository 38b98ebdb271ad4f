//! What Ingresses may use.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AllowedList, DefaultAllowedList};

/// The classes and host names that Ingresses may use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressOptions {
    /// The IngressClasses that Ingresses may use, and the one for Ingresses that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_classes: Option<DefaultAllowedList>,

    /// Among which Ingresses a pair of host name and path may be used once only.
    #[serde(default)]
    pub hostname_collision_scope: HostnameCollisionScope,

    /// The host names that rules may use. With it, a rule without a host name is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_hostnames: Option<AllowedList>,

    /// Whether host names may begin with a wildcard.
    #[serde(default)]
    pub allow_wildcard_hostnames: bool,
}

/// Among which Ingresses a pair of host name and path may be used once only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum HostnameCollisionScope {
    /// All those of all Tenants.
    Cluster,
    /// Those of the Tenant.
    Tenant,
    /// Those of the namespace.
    Namespace,
    /// It is not looked at.
    #[default]
    Disabled,
}
