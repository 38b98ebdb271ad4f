//! Amounts that say the same in other words.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use operator_core::quantity::{Format, Quantity};

use crate::quota::Resources;

/// The amounts in one spelling, as whole thousandths, so that equal amounts are equal texts. The API server
/// rounds the amounts of quotas and limit ranges so, and keeps the spelling it was given. What is no quantity
/// stays.
pub(crate) fn comparable(resources: &Resources) -> Resources {
    resources.iter().map(|(name, amount)| (name.clone(), spelled(amount))).collect()
}

fn spelled(amount: &ApiQuantity) -> ApiQuantity {
    Quantity::try_from(amount)
        .map_or_else(|_| amount.clone(), |read| read.in_thousandths().in_format(Format::DecimalSi).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(cpu: &str, memory: &str) -> Resources {
        [("cpu", cpu), ("memory", memory)]
            .map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_owned())))
            .into()
    }

    #[test]
    fn equal_amounts_become_equal_texts() {
        assert_eq!(comparable(&amounts("1000m", "1024Mi")), comparable(&amounts("1", "1Gi")));
        assert_eq!(comparable(&amounts("100u", "0Gi")), comparable(&amounts("1m", "0")));
        assert_ne!(comparable(&amounts("1", "1G")), comparable(&amounts("1", "1Gi")));
    }

    #[test]
    fn what_is_no_quantity_stays() {
        assert_eq!(comparable(&amounts("many", "1")), amounts("many", "1"));
    }
}
