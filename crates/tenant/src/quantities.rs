//! Normalized quantities, for comparisons.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use operator_core::quantity::{Format, Quantity};

use crate::quota::Resources;

/// Converts each quantity to whole thousandths, so that equal quantities are equal strings.
///
/// The API server rounds the quantities of quotas and limit ranges in the same way, but keeps their
/// format. Invalid quantities stay unchanged.
pub(crate) fn normalize(resources: &Resources) -> Resources {
    resources.iter().map(|(name, quantity)| (name.clone(), normalize_quantity(quantity))).collect()
}

fn normalize_quantity(quantity: &ApiQuantity) -> ApiQuantity {
    Quantity::try_from(quantity)
        .map_or_else(|_| quantity.clone(), |read| read.in_thousandths().in_format(Format::DecimalSi).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantities(cpu: &str, memory: &str) -> Resources {
        [("cpu", cpu), ("memory", memory)]
            .map(|(name, quantity)| (name.to_owned(), ApiQuantity(quantity.to_owned())))
            .into()
    }

    #[test]
    fn equal_quantities_are_normalized_to_equal_strings() {
        assert_eq!(normalize(&quantities("1000m", "1024Mi")), normalize(&quantities("1", "1Gi")));
        assert_eq!(normalize(&quantities("100u", "0Gi")), normalize(&quantities("1m", "0")));
        assert_ne!(normalize(&quantities("1", "1G")), normalize(&quantities("1", "1Gi")));
    }

    #[test]
    fn invalid_quantity_stays_unchanged() {
        assert_eq!(normalize(&quantities("many", "1")), quantities("many", "1"));
    }
}
