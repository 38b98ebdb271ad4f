//! A kind of two versions. The older counts in centimetres, the hub in metres and keeps the rest.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, ResourceExt, core::crd::merge_crds};
use operator_core::admission::Conversion;

/// The hub, which is stored.
pub(super) mod v2 {
    use kube::{CustomResource, KubeSchema};
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "webhook.example.com", version = "v2", kind = "Sail", namespaced)]
    pub(crate) struct SailSpec {
        pub(crate) metres: i64,
        #[serde(default)]
        pub(crate) rest: i64,
    }
}

/// The older version.
pub(super) mod v1 {
    use kube::{CustomResource, KubeSchema};
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "webhook.example.com", version = "v1", kind = "Sail", namespaced)]
    pub(crate) struct SailSpec {
        pub(crate) centimetres: i64,
    }
}

#[allow(clippy::unnecessary_wraps, reason = "converters have this shape")]
fn to_hub(old: v1::Sail) -> Result<v2::Sail, String> {
    let centimetres = old.spec.centimetres;
    let spec = v2::SailSpec { metres: centimetres / 100, rest: centimetres % 100 };
    let mut new = v2::Sail::new(&old.name_any(), spec);
    new.metadata = old.metadata;
    Ok(new)
}

fn from_hub(new: v2::Sail) -> Result<v1::Sail, String> {
    if new.spec.metres == 13 {
        return Err("13 metres are unlucky".to_owned());
    }
    let spec = v1::SailSpec { centimetres: new.spec.metres * 100 + new.spec.rest };
    let mut old = v1::Sail::new(&new.name_any(), spec);
    old.metadata = new.metadata;
    Ok(old)
}

pub(super) fn conversions() -> Vec<Conversion> {
    vec![Conversion::hub::<v2::Sail>().spoke(to_hub, from_hub).build()]
}

pub(super) fn definitions() -> Vec<CustomResourceDefinition> {
    vec![merge_crds(vec![v2::Sail::crd(), v1::Sail::crd()], "v2").unwrap()]
}
