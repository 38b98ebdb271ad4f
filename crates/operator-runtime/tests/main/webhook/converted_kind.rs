//! Kind with two versions: v1 in centimetres, and the hub v2 in metres and a remainder.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, ResourceExt, core::crd::merge_crds};
use operator_core::admission::Conversion;

/// Hub and storage version.
pub(super) mod v2 {
    use kube::{CustomResource, KubeSchema};
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "webhook.example.com", version = "v2", kind = "Rope", namespaced)]
    pub(crate) struct RopeSpec {
        pub(crate) metres: i64,
        #[serde(default)]
        pub(crate) remainder: i64,
    }
}

/// Older version.
pub(super) mod v1 {
    use kube::{CustomResource, KubeSchema};
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "webhook.example.com", version = "v1", kind = "Rope", namespaced)]
    pub(crate) struct RopeSpec {
        pub(crate) centimetres: i64,
    }
}

#[allow(clippy::unnecessary_wraps, reason = "converters have this shape")]
fn to_hub(old: v1::Rope) -> Result<v2::Rope, String> {
    let centimetres = old.spec.centimetres;
    let spec = v2::RopeSpec { metres: centimetres / 100, remainder: centimetres % 100 };
    let mut new = v2::Rope::new(&old.name_any(), spec);
    new.metadata = old.metadata;
    Ok(new)
}

fn from_hub(new: v2::Rope) -> Result<v1::Rope, String> {
    if new.spec.metres == 13 {
        return Err("13 metres are not supported".to_owned());
    }
    let spec = v1::RopeSpec { centimetres: new.spec.metres * 100 + new.spec.remainder };
    let mut old = v1::Rope::new(&new.name_any(), spec);
    old.metadata = new.metadata;
    Ok(old)
}

pub(super) fn conversions() -> Vec<Conversion> {
    vec![Conversion::hub::<v2::Rope>().spoke(to_hub, from_hub).build()]
}

pub(super) fn definitions() -> Vec<CustomResourceDefinition> {
    vec![merge_crds(vec![v2::Rope::crd(), v1::Rope::crd()], "v2").unwrap()]
}
