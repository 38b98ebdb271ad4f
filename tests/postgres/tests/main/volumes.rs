//! Plays a storage provider: storage classes, and volumes to which claims are bound.

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::TestEnv;

/// A storage class, and the volumes of a test.
pub(crate) struct Provider {
    /// Name of the storage class.
    pub(crate) class: String,
    classes: Api<StorageClass>,
    volumes: Api<PersistentVolume>,
    claims: Api<PersistentVolumeClaim>,
    namespace: String,
    names: Vec<String>,
}

impl Provider {
    /// Creates a storage class. Claims of it may grow or not.
    pub(crate) async fn new(env: &TestEnv, may_grow: bool) -> Self {
        let namespace = env.namespace.name().to_owned();
        let classes = Api::all(env.client.clone());
        let class = json!({
            "metadata": {"name": namespace}, "provisioner": "example.com/test",
            "allowVolumeExpansion": may_grow, "reclaimPolicy": "Retain",
        });
        classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
        Self {
            class: namespace.clone(),
            classes,
            volumes: Api::all(env.client.clone()),
            claims: env.api(),
            namespace,
            names: Vec::new(),
        }
    }

    /// Lets claims of the class grow from now on.
    pub(crate) async fn allow_growth(&self) {
        let patch = Patch::Merge(json!({"allowVolumeExpansion": true}));
        self.classes.patch(&self.class, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates a volume of 1 GiB for a claim, and waits until the claim is bound to it.
    pub(crate) async fn bind(&mut self, env: &mut TestEnv, claim: &str) {
        let name = format!("{}-{claim}", self.namespace);
        let volume = json!({
            "metadata": {"name": name},
            "spec": {
                "storageClassName": self.class, "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": self.namespace, "name": claim},
                "hostPath": {"path": "/nonexistent"},
            },
        });
        let volume = serde_json::from_value(volume).unwrap();
        self.volumes.create(&PostParams::default(), &volume).await.unwrap();
        self.names.push(name);
        env.until(claim, "the claim to be bound", |claim: &PersistentVolumeClaim| {
            claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"))
        })
        .await;
    }

    /// Changes the status of a claim, as the provider and the kubelet do.
    pub(crate) async fn set_status(&self, claim: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.claims.patch_status(claim, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Deletes what belongs to no namespace.
    pub(crate) async fn delete(self) {
        for name in &self.names {
            self.volumes.delete(name, &DeleteParams::default()).await.unwrap();
        }
        self.classes.delete(&self.class, &DeleteParams::default()).await.unwrap();
    }
}

/// Returns the size that a claim requests.
pub(crate) fn request(claim: &PersistentVolumeClaim) -> String {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    requests.and_then(|requests| requests.get("storage")).map_or_else(String::new, |size| size.0.clone())
}
