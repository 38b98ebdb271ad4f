//! The admission policy behind `spec.deletionProtection`. It holds while the manager is down too.

use operator_core::admission::{DELETE, Policy, target};

use crate::api::PostgresCluster;

const UNPROTECTED: &str = "!has(oldObject.spec.deletionProtection) || !oldObject.spec.deletionProtection";

/// Returns the policies of the controller.
pub(crate) fn policies() -> Vec<Policy> {
    let remedy = "spec.deletionProtection is true: run `kubectl patch pgc NAME --type=merge \
        --patch='{\"spec\":{\"deletionProtection\":false}}'` first if you want to delete the PostgresCluster";
    vec![
        Policy::new("deletion-protection")
            .on(target::<PostgresCluster>(DELETE))
            .validation(UNPROTECTED, remedy),
    ]
}
