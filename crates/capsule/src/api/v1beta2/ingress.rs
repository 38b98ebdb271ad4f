//! Restrictions of Ingresses.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AllowedList, DefaultAllowedList};

/// IngressOptions restricts the IngressClasses and host names of Ingresses.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressOptions {
    /// allowedClasses lists the IngressClasses that Ingresses may use, and the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_classes: Option<DefaultAllowedList>,

    /// hostnameCollisionScope is the scope in which a pair of host name and path must be unique.
    #[serde(default)]
    pub hostname_collision_scope: HostnameCollisionScope,

    /// allowedHostnames lists the host names that rules may use. If set, a rule without a host name
    /// is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_hostnames: Option<AllowedList>,

    /// allowWildcardHostnames allows host names that begin with a wildcard.
    #[serde(default)]
    pub allow_wildcard_hostnames: bool,
}

/// HostnameCollisionScope is the scope in which a pair of host name and path must be unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum HostnameCollisionScope {
    /// The Ingresses of all Tenants.
    Cluster,
    /// The Ingresses of the Tenant.
    Tenant,
    /// The Ingresses of the namespace.
    Namespace,
    /// The pairs need not be unique.
    #[default]
    Disabled,
}
