//! Storage of the members.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// storage describes the PersistentVolumeClaim of each member.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("type(self.size) == int || isQuantity(string(self.size))")
        .message("storage.size must be a quantity, such as 10Gi"),
    validation = Rule::new("type(self.size) == int || !isQuantity(string(self.size)) || quantity(string(self.size)).isGreaterThan(quantity('255Mi'))")
        .message("storage.size must be at least 256Mi"),
    validation = Rule::new("type(self.size) == int || type(oldSelf.size) == int || !isQuantity(string(self.size)) || !quantity(string(self.size)).isLessThan(quantity(string(oldSelf.size)))")
        .message("storage.size can only grow"),
    validation = Rule::new("has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)")
        .message("storage.storageClassName cannot be changed"),
    validation = Rule::new("self.accessMode == oldSelf.accessMode")
        .message("storage.accessMode cannot be changed")
)]
pub struct Storage {
    /// size is the requested size of the volume. It can only grow, and the volumes of existing members
    /// grow with it if their storage class allows that.
    #[serde(default = "default_size")]
    pub size: Quantity,

    /// storageClassName is the storage class of the volume. Defaults to the cluster's default class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,

    /// accessMode is the access mode of the volume.
    #[serde(default)]
    pub access_mode: AccessMode,
}

fn default_size() -> Quantity {
    Quantity("1Gi".to_owned())
}

impl Default for Storage {
    fn default() -> Self {
        Self { size: default_size(), storage_class_name: None, access_mode: AccessMode::default() }
    }
}

/// Access mode of a volume.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessMode {
    /// One node can mount the volume.
    #[default]
    ReadWriteOnce,
    /// One Pod can mount the volume.
    ReadWriteOncePod,
}

impl AccessMode {
    /// Returns the value in the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
        }
    }
}

/// retention decides what happens to volumes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// whenDeleted is for all volumes of the cluster when it is deleted. Delete sets a finalizer: the
    /// members stop first, and then their volumes are deleted.
    #[serde(default)]
    pub when_deleted: RetentionPolicy,

    /// whenScaled is for the volume of a member that is removed because size is lowered.
    #[serde(default)]
    pub when_scaled: RetentionPolicy,
}

/// Policy for a volume that no member uses any longer.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetentionPolicy {
    /// Retain keeps the PersistentVolumeClaim.
    #[default]
    Retain,
    /// Delete deletes the PersistentVolumeClaim.
    Delete,
}
