//! Types, external addresses, and keys of Services.

use std::collections::HashSet;

use capsule::{
    api::v1beta2::{AdditionalMetadata, AllowedServices, ExternalIps, ServiceOptions, Tenant, TenantSpec},
    cidr::AddressRange,
    name_filter::NameFilter,
};
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{Violation, keys::forbidden_key};
use crate::reasons::{
    FORBIDDEN_ANNOTATION, FORBIDDEN_EXTERNAL_NAME, FORBIDDEN_EXTERNAL_SERVICE_IP, FORBIDDEN_LABEL,
    FORBIDDEN_LOAD_BALANCER, FORBIDDEN_NODE_PORT,
};

/// The fields of a Service that admission reads.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = "Service")]
pub(crate) struct ReviewedService {
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
}

/// `spec` of a Service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "type")]
    type_: String,
    #[serde(rename = "externalIPs")]
    external_ips: Vec<String>,
    allocate_load_balancer_node_ports: Option<bool>,
}

/// Compiled policy of a Tenant for Services.
#[derive(Debug)]
pub(crate) struct ServicePolicy {
    tenant: String,
    types: AllowedServices,
    forbidden_annotations: NameFilter,
    forbidden_labels: NameFilter,
    /// Addresses and networks. `None` allows all.
    external_ips: Option<AllowedAddresses>,
    /// Metadata that the Tenant itself sets on Services.
    own: AdditionalMetadata,
}

impl From<&Tenant> for ServicePolicy {
    fn from(tenant: &Tenant) -> Self {
        let options = tenant.spec.service_options.clone().unwrap_or_default();
        let filter = |list: Option<_>| list.as_ref().map(NameFilter::from).unwrap_or_default();
        Self {
            tenant: tenant.metadata.name.clone().unwrap_or_default(),
            types: options.allowed_services.unwrap_or_default(),
            forbidden_annotations: filter(options.forbidden_annotations),
            forbidden_labels: filter(options.forbidden_labels),
            external_ips: options.external_ips.map(AllowedAddresses::from),
            own: options.additional_metadata.unwrap_or_default(),
        }
    }
}

/// Addresses that Services may use.
#[derive(Debug)]
struct AllowedAddresses {
    ranges: Vec<AddressRange>,
    description: String,
}

impl From<ExternalIps> for AllowedAddresses {
    /// An entry that the schema would reject allows nothing.
    fn from(ExternalIps { allowed }: ExternalIps) -> Self {
        let description = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
        let ranges = allowed.iter().filter_map(|range| AddressRange::parse(range.trim()).ok());
        Self { ranges: ranges.collect(), description }
    }
}

/// A type of Services, and the field of the Tenant that allows it.
type ServiceType = (&'static str, &'static str, &'static str);

const NODE_PORT: ServiceType = (FORBIDDEN_NODE_PORT, "NodePort", "nodePort");
const EXTERNAL_NAME: ServiceType = (FORBIDDEN_EXTERNAL_NAME, "ExternalName", "externalName");
const LOAD_BALANCER: ServiceType = (FORBIDDEN_LOAD_BALANCER, "LoadBalancer", "loadBalancer");

impl ServicePolicy {
    /// Returns whether the Tenant restricts Services.
    pub(crate) fn applies(spec: &TenantSpec) -> bool {
        let Some(options) = &spec.service_options else { return false };
        let ServiceOptions {
            allowed_services, external_ips, forbidden_labels, forbidden_annotations, ..
        } = options;
        let forbids = [forbidden_labels, forbidden_annotations];
        allowed_services.as_ref().is_some_and(|types| *types != AllowedServices::default())
            || external_ips.is_some()
            || forbids.into_iter().flatten().any(|list| !list.is_empty())
    }

    /// Checks what the old Service does not have: type, annotations, labels, external addresses.
    pub(crate) fn check(
        &self,
        old: Option<&ReviewedService>,
        new: &ReviewedService,
    ) -> Result<(), Violation> {
        if old.is_none_or(|old| type_inputs(old) != type_inputs(new)) {
            self.check_type(&new.spec)?;
        }
        self.check_keys(old.map(|old| &old.metadata), &new.metadata)?;
        let before: HashSet<_> = old.iter().flat_map(|old| &old.spec.external_ips).collect();
        let addresses = new.spec.external_ips.iter().enumerate();
        let mut added = addresses.filter(|(_, address)| !before.contains(address));
        added.try_for_each(|(index, address)| self.check_address(index, address))
    }

    fn check_type(&self, spec: &Spec) -> Result<(), Violation> {
        let AllowedServices { node_port, external_name, load_balancer } = self.types;
        let denied = |(reason, type_, field): ServiceType| {
            let message = format!(
                "spec.type: Services of type {type_} are not allowed by Tenant {}; use another type, or ask an \
                 administrator to set spec.serviceOptions.allowedServices.{field} of the Tenant",
                self.tenant
            );
            Err(Violation::new(reason, message))
        };
        match spec.type_.as_str() {
            "NodePort" if !node_port => denied(NODE_PORT),
            "ExternalName" if !external_name => denied(EXTERNAL_NAME),
            "LoadBalancer" if !load_balancer => denied(LOAD_BALANCER),
            "LoadBalancer" if !node_port && spec.allocate_load_balancer_node_ports != Some(false) => {
                let message = format!(
                    "spec.allocateLoadBalancerNodePorts: node ports are not allowed by Tenant {}; set it to false",
                    self.tenant
                );
                Err(Violation::new(FORBIDDEN_NODE_PORT, message))
            }
            _ => Ok(()),
        }
    }

    fn check_keys(&self, old: Option<&ObjectMeta>, new: &ObjectMeta) -> Result<(), Violation> {
        let annotations = old.and_then(|old| old.annotations.as_ref());
        let own = &self.own.annotations;
        if let Some(key) =
            forbidden_key(&self.forbidden_annotations, annotations, new.annotations.as_ref(), own)
        {
            return Err(self.forbidden(
                FORBIDDEN_ANNOTATION,
                "annotations",
                key,
                &self.forbidden_annotations,
            ));
        }
        let labels = old.and_then(|old| old.labels.as_ref());
        match forbidden_key(&self.forbidden_labels, labels, new.labels.as_ref(), &self.own.labels) {
            Some(key) => Err(self.forbidden(FORBIDDEN_LABEL, "labels", key, &self.forbidden_labels)),
            None => Ok(()),
        }
    }

    fn forbidden(&self, reason: &'static str, field: &str, key: &str, filter: &NameFilter) -> Violation {
        let message = format!(
            "metadata.{field}[{key}]: the key is forbidden by Tenant {}; forbidden: {filter}",
            self.tenant
        );
        Violation::new(reason, message)
    }

    fn check_address(&self, index: usize, text: &str) -> Result<(), Violation> {
        let Some(allowed) = &self.external_ips else { return Ok(()) };
        let is_allowed = |address| allowed.ranges.iter().any(|range| range.contains(address));
        if text.parse().is_ok_and(is_allowed) {
            return Ok(());
        }
        let AllowedAddresses { description, .. } = allowed;
        let message = format!(
            "spec.externalIPs[{index}]: {text:?} is not allowed by Tenant {}; allowed addresses: {description}",
            self.tenant
        );
        Err(Violation::new(FORBIDDEN_EXTERNAL_SERVICE_IP, message))
    }
}

/// Returns what determines whether the type of a Service is allowed.
fn type_inputs(service: &ReviewedService) -> (&str, bool) {
    (&service.spec.type_, service.spec.allocate_load_balancer_node_ports == Some(false))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(options: Value, old: Option<Value>, new: Value) -> Result<(), (&'static str, String)> {
        let tenant = json!({ "metadata": { "name": "oil" }, "spec": { "serviceOptions": options } });
        let policy = ServicePolicy::from(&serde_json::from_value::<Tenant>(tenant).unwrap());
        let service = |value: Value| -> ReviewedService { serde_json::from_value(value).unwrap() };
        let checked = policy.check(old.map(service).as_ref(), &service(new));
        checked.map_err(|violation| (violation.reason, violation.message))
    }

    fn of_type(type_: &str) -> Value {
        json!({ "metadata": { "name": "web" }, "spec": { "type": type_ } })
    }

    #[test]
    fn types_are_allowed_unless_they_are_disabled() {
        for (field, type_, reason) in [
            ("nodePort", "NodePort", FORBIDDEN_NODE_PORT),
            ("externalName", "ExternalName", FORBIDDEN_EXTERNAL_NAME),
            ("loadBalancer", "LoadBalancer", FORBIDDEN_LOAD_BALANCER),
        ] {
            let options = |allowed: bool| json!({ "allowedServices": { field: allowed } });
            let (found, message) = check(options(false), None, of_type(type_)).unwrap_err();
            assert_eq!(found, reason);
            assert!(message.contains(&format!("allowedServices.{field}")), "{message}");
            assert_eq!(check(options(true), None, of_type(type_)), Ok(()));
            assert_eq!(check(json!({ "allowedServices": {} }), None, of_type(type_)), Ok(()));
            assert_eq!(check(options(false), None, of_type("ClusterIP")), Ok(()));
            assert_eq!(check(options(false), Some(of_type(type_)), of_type(type_)), Ok(()));
            assert!(check(options(false), Some(of_type("ClusterIP")), of_type(type_)).is_err());
        }
    }

    #[test]
    fn load_balancer_with_node_ports_counts_as_node_port() {
        let options = || json!({ "allowedServices": { "nodePort": false } });
        let (reason, message) = check(options(), None, of_type("LoadBalancer")).unwrap_err();
        assert_eq!(reason, FORBIDDEN_NODE_PORT);
        assert!(message.starts_with("spec.allocateLoadBalancerNodePorts: "), "{message}");
        let mut without = of_type("LoadBalancer");
        without["spec"]["allocateLoadBalancerNodePorts"] = false.into();
        assert_eq!(check(options(), None, without.clone()), Ok(()));
        assert!(check(options(), Some(without), of_type("LoadBalancer")).is_err());
    }

    #[test]
    fn forbidden_keys_are_denied_when_they_are_added_or_changed() {
        let options = || {
            json!({
                "forbiddenLabels": { "denied": ["a"], "deniedRegex": "^x-" },
                "forbiddenAnnotations": { "denied": ["b"] },
                "additionalMetadata": { "labels": { "a": "own" } },
            })
        };
        let with = |metadata: Value| json!({ "metadata": metadata, "spec": {} });
        for (metadata, reason, path) in [
            (json!({ "labels": { "a": "1" } }), FORBIDDEN_LABEL, "metadata.labels[a]"),
            (json!({ "labels": { "x-y": "1" } }), FORBIDDEN_LABEL, "metadata.labels[x-y]"),
            (
                json!({ "labels": { "a": "1" }, "annotations": { "b": "" } }),
                FORBIDDEN_ANNOTATION,
                "metadata.annotations[b]",
            ),
        ] {
            let (found, message) = check(options(), None, with(metadata.clone())).unwrap_err();
            assert_eq!(found, reason);
            assert!(message.starts_with(path), "{message}");
            assert_eq!(check(options(), Some(with(metadata.clone())), with(metadata.clone())), Ok(()));
            assert_eq!(check(options(), Some(with(metadata)), with(json!({}))), Ok(()));
        }
        let own = || with(json!({ "labels": { "a": "own" } }));
        assert_eq!(check(options(), None, own()), Ok(()));
        assert!(check(options(), Some(own()), with(json!({ "labels": { "a": "other" } }))).is_err());
    }

    #[test]
    fn external_addresses_must_be_in_an_allowed_range() {
        let options =
            || json!({ "externalIPs": { "allowed": ["10.20.0.0/16", "192.168.1.2/32", "fd00::7"] } });
        let with = |addresses: Value| json!({ "metadata": {}, "spec": { "externalIPs": addresses } });
        let good = json!(["10.20.0.0", "10.20.255.255", "192.168.1.2", "fd00::7"]);
        assert_eq!(check(options(), None, with(good)), Ok(()));
        for bad in ["8.8.8.8", "10.21.0.0", "192.168.1.3", "fd00::8", "many"] {
            let (reason, message) = check(options(), None, with(json!(["10.20.0.1", bad]))).unwrap_err();
            assert_eq!(reason, FORBIDDEN_EXTERNAL_SERVICE_IP);
            assert!(message.starts_with("spec.externalIPs[1]: "), "{message}");
            assert_eq!(check(options(), Some(with(json!([bad]))), with(json!(["10.20.0.1", bad]))), Ok(()));
        }
        let many: Vec<_> =
            (0..50_000).map(|index: u32| format!("10.20.{}.{}", index / 250 % 250, index % 250)).collect();
        assert_eq!(check(options(), None, with(json!(many))), Ok(()));
        assert_eq!(check(options(), Some(with(json!(many))), with(json!(many))), Ok(()));
        let none = json!({ "externalIPs": { "allowed": [] } });
        assert!(check(none.clone(), None, with(json!(["10.20.0.1"]))).is_err());
        assert_eq!(check(none, None, with(json!([]))), Ok(()));
    }
}
