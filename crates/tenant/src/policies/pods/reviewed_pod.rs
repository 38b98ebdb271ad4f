//! The fields of a Pod that admission reads or sets.

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Serialize};

/// The fields of a Pod that admission reads or sets. Other fields are preserved.
#[derive(Resource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[resource(inherit = "Pod")]
pub(crate) struct ReviewedPod {
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Spec,
}

/// `spec` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Container>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ephemeral_containers: Vec<Container>,
    containers: Vec<Container>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<Volume>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority_class_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) preemption_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runtime_class_name: Option<String>,
}

/// A container of any kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    image: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    image_pull_policy: String,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct Volume {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<ImageVolume>,
}

/// An image as the source of a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct ImageVolume {
    #[serde(skip_serializing_if = "String::is_empty")]
    reference: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pull_policy: String,
}

/// An image that a container or a volume uses.
#[derive(Clone, Debug)]
pub(crate) struct ImageUse<'p> {
    name: &'p str,
    field: &'static str,
    index: usize,
    pub(crate) reference: &'p str,
    pub(crate) pull_policy: &'p str,
}

impl<'p> ImageUse<'p> {
    /// Returns what an update must not change, or it uses another image. The position may change.
    pub(crate) fn identity(&self) -> (&'static str, &'p str, &'p str, &'p str) {
        (self.field, self.name, self.reference, self.pull_policy)
    }

    /// Path of the field with the reference.
    pub(crate) fn reference_path(&self) -> String {
        let Self { field, index, .. } = self;
        if *field == "volumes" {
            format!("spec.volumes[{index}].image.reference")
        } else {
            format!("spec.{field}[{index}].image")
        }
    }

    /// Path of the field with the pull policy.
    pub(crate) fn pull_policy_path(&self) -> String {
        let Self { field, index, .. } = self;
        if *field == "volumes" {
            format!("spec.volumes[{index}].image.pullPolicy")
        } else {
            format!("spec.{field}[{index}].imagePullPolicy")
        }
    }
}

impl ReviewedPod {
    /// Returns the images of init containers, ephemeral containers, containers, and volumes.
    pub(crate) fn images(&self) -> Vec<ImageUse<'_>> {
        let spec = &self.spec;
        let containers = [
            ("initContainers", &spec.init_containers),
            ("ephemeralContainers", &spec.ephemeral_containers),
            ("containers", &spec.containers),
        ];
        let of_containers = containers.into_iter().flat_map(|(field, containers)| {
            containers.iter().enumerate().map(move |(index, container)| ImageUse {
                name: &container.name,
                field,
                index,
                reference: &container.image,
                pull_policy: &container.image_pull_policy,
            })
        });
        let of_volumes = spec.volumes.iter().enumerate().filter_map(|(index, volume)| {
            let image = volume.image.as_ref()?;
            Some(ImageUse {
                name: &volume.name,
                field: "volumes",
                index,
                reference: &image.reference,
                pull_policy: &image.pull_policy,
            })
        });
        of_containers.chain(of_volumes).collect()
    }
}
