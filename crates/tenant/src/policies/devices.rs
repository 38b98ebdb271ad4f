//! DeviceClasses that ResourceClaims and ResourceClaimTemplates request.

use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate};

/// A requested DeviceClass, and the path of its field.
pub(crate) type DeviceClassReference<'o> = (String, &'o str);

/// Returns the classes of all requests of a claim, also of those that are alternatives.
pub(crate) fn of_claim(claim: &ResourceClaim) -> Vec<DeviceClassReference<'_>> {
    of_spec("spec", &claim.spec)
}

/// Returns the classes of all requests of the claims of a template.
pub(crate) fn of_template(template: &ResourceClaimTemplate) -> Vec<DeviceClassReference<'_>> {
    of_spec("spec.spec", &template.spec.spec)
}

fn of_spec<'o>(path: &str, spec: &'o ResourceClaimSpec) -> Vec<DeviceClassReference<'o>> {
    let requests = spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten()).enumerate();
    let mut found = Vec::new();
    for (index, request) in requests {
        let path = format!("{path}.devices.requests[{index}]");
        if let Some(exactly) = &request.exactly {
            found.push((format!("{path}.exactly.deviceClassName"), exactly.device_class_name.as_str()));
        }
        for (alternative, request) in request.first_available.iter().flatten().enumerate() {
            let path = format!("{path}.firstAvailable[{alternative}].deviceClassName");
            found.push((path, request.device_class_name.as_str()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_classes_of_all_requests_and_alternatives() {
        let spec = json!({ "devices": { "requests": [
            { "name": "one", "exactly": { "deviceClassName": "gpu" } },
            { "name": "two", "firstAvailable": [
                { "name": "a", "deviceClassName": "fast" }, { "name": "b", "deviceClassName": "slow" },
            ] },
        ] } });
        let claim: ResourceClaim = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
        let expected = [
            ("spec.devices.requests[0].exactly.deviceClassName".to_owned(), "gpu"),
            ("spec.devices.requests[1].firstAvailable[0].deviceClassName".to_owned(), "fast"),
            ("spec.devices.requests[1].firstAvailable[1].deviceClassName".to_owned(), "slow"),
        ];
        assert_eq!(of_claim(&claim), expected);
        let template = json!({ "metadata": {}, "spec": { "spec": spec } });
        let template: ResourceClaimTemplate = serde_json::from_value(template).unwrap();
        assert_eq!(of_template(&template)[0].0, "spec.spec.devices.requests[0].exactly.deviceClassName");
        assert_eq!(of_template(&ResourceClaimTemplate::default()), []);
    }
}
