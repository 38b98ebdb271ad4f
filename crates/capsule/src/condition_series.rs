//! Conditions as series of a gauge, as Capsule shows them. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Returns a series for each condition: the labels of the object with the type of the condition, and
/// 1 if it is true, or else 0.
pub fn condition_series<'c>(
    labels: &'c [&str],
    conditions: &'c [Condition],
) -> impl Iterator<Item = (Vec<String>, f64)> + use<'c> {
    conditions.iter().map(move |condition| {
        let labels = labels.iter().copied().chain([condition.type_.as_str()]);
        let value = if condition.status == "True" { 1.0 } else { 0.0 };
        (labels.map(str::to_owned).collect(), value)
    })
}
