//! Deletion of cluster-scoped objects that have no owner, so that garbage collection does not
//! delete them.

use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};
use operator_core::{ClusterLeftovers, labels::MANAGED_SELECTOR};

use super::{
    Report,
    admission::delete_object,
    error::{CleanupError, advice},
};

pub(super) async fn delete(client: &Client, leftovers: &ClusterLeftovers, report: &mut Report) {
    let api = Api::<DynamicObject>::all_with(client.clone(), &leftovers.resource);
    let objects = match api.list_metadata(&ListParams::default().labels(MANAGED_SELECTOR)).await {
        Ok(objects) => objects,
        Err(source) => {
            let kind = leftovers.resource.kind.clone();
            return report.record(Err(CleanupError::List { kind, advice: advice(&source), source }));
        }
    };
    for object in objects.into_iter().filter(|object| leftovers.owner.owns(&object.metadata)) {
        report.record(delete_object(client, &leftovers.resource, &object.metadata).await);
    }
}
