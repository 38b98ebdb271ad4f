//! Deleting what controllers made in the cluster that has no owner who takes it along.

use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};
use operator_core::{ClusterLeftovers, labels::MANAGED_SELECTOR};

use super::{
    Report,
    error::{ReleaseError, advice},
    named::delete_this,
};

pub(super) async fn delete(client: &Client, leftovers: &ClusterLeftovers, report: &mut Report) {
    let api = Api::<DynamicObject>::all_with(client.clone(), &leftovers.resource);
    let found = match api.list_metadata(&ListParams::default().labels(MANAGED_SELECTOR)).await {
        Ok(found) => found,
        Err(source) => {
            let kind = leftovers.resource.kind.clone();
            return report.note(Err(ReleaseError::List { kind, advice: advice(&source), source }));
        }
    };
    for object in found.into_iter().filter(|object| leftovers.owner.owns(&object.metadata)) {
        report.note(delete_this(client, &leftovers.resource, &object.metadata).await);
    }
}
