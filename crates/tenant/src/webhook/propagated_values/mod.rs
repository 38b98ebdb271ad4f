//! Validates the values of a Tenant that the controller copies to other objects. Pure.
//!
//! The API server would reject every object with an invalid value. The webhook denies the Tenant
//! instead, with the path of the field. CEL rules in the CRD cannot do this: keys of maps have no
//! maximum length, so the estimated cost of a rule over keys exceeds the budget.

mod child_specs;

use std::collections::BTreeMap;

use capsule::{
    api::v1beta2::{AdditionalMetadata, AdditionalRoleBinding, NamespaceOptions, OwnerSpec, TenantSpec},
    syntax::{
        ANNOTATION_KEY, LABEL_KEY, LABEL_VALUE, MAX_ANNOTATIONS_SIZE, RBAC_NAME, SUBDOMAIN, annotations_size,
        is_annotation_key, is_label_key, is_label_value, is_rbac_name, is_subdomain,
    },
};
use k8s_openapi::{api::rbac::v1::Subject, apimachinery::pkg::apis::meta::v1::LabelSelector};

use crate::namespace_metadata;

/// Namespace name for rendering templates. A value that is invalid with this name is invalid with
/// every name.
const SHORTEST_NAME: &str = "x";
/// Maximum number of characters of a key or value in a message.
const MAX_QUOTED_CHARS: usize = 80;
/// Maximum number of messages that are recorded, to compare them with those of the stored Tenant.
const MAX_RECORDED: usize = 256;
/// Maximum number of messages in a denial.
const MAX_REPORTED: usize = 16;
/// API group of users and groups.
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

type Entries = BTreeMap<String, String>;

/// Returns the values that the API server would reject in the objects of a Tenant.
pub(super) fn validate(tenant: &str, spec: &TenantSpec) -> Violations {
    let mut violations = Violations::default();
    if let Some(options) = &spec.namespace_options {
        violations.namespaces(tenant, options);
    }
    violations.all_annotations(
        "spec",
        &namespace_metadata::desired_metadata(tenant, spec, SHORTEST_NAME, &Entries::new()).0.annotations,
    );
    let services = spec.service_options.iter().filter_map(|options| options.additional_metadata.as_ref());
    services.for_each(|metadata| violations.metadata("spec.serviceOptions.additionalMetadata", metadata));
    let pods = spec.pod_options.iter().filter_map(|options| options.additional_metadata.as_ref());
    pods.for_each(|metadata| violations.metadata("spec.podOptions.additionalMetadata", metadata));
    violations.labels("spec.nodeSelector", &spec.node_selector, str::to_owned);
    for (index, owner) in spec.owners.iter().enumerate() {
        violations.owner(&format!("spec.owners[{index}]"), owner);
    }
    for (index, binding) in spec.additional_role_bindings.iter().enumerate() {
        violations.binding(&format!("spec.additionalRoleBindings[{index}]"), binding);
    }
    violations.selectors(spec);
    for (index, range) in spec.limit_ranges.iter().flat_map(|ranges| &ranges.items).enumerate() {
        violations.limit_range(&format!("spec.limitRanges.items[{index}]"), range);
    }
    for (index, policy) in spec.network_policies.iter().flat_map(|policies| &policies.items).enumerate() {
        violations.network_policy(&format!("spec.networkPolicies.items[{index}]"), policy);
    }
    violations
}

/// Violations found so far. Only the first ones have a message, because a request can contain
/// hundreds of thousands of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Violations {
    messages: Vec<String>,
    count: usize,
}

impl Violations {
    /// Returns the violations that `before` does not contain.
    pub(super) fn since(mut self, before: &Self) -> Self {
        let unrecorded = self.count.saturating_sub(self.messages.len());
        self.messages.retain(|error| !before.messages.contains(error));
        let others = unrecorded.saturating_sub(before.count.saturating_sub(before.messages.len()));
        self.count = self.messages.len().saturating_add(others);
        self
    }

    /// Returns the message of a denial, or `None` if there are no violations.
    pub(super) fn message(mut self) -> Option<String> {
        self.messages.truncate(MAX_REPORTED);
        let more = self.count.saturating_sub(self.messages.len());
        if more > 0 {
            self.messages.push(format!("and {more} more errors"));
        }
        (!self.messages.is_empty()).then(|| self.messages.join("; "))
    }

    fn add(&mut self, path: &str, message: &str) {
        self.count = self.count.saturating_add(1);
        if self.messages.len() < MAX_RECORDED {
            self.messages.push(format!("{path}: {message}"));
        }
    }

    fn require(&mut self, is_valid: bool, path: &str, message: &str) {
        if !is_valid {
            self.add(path, message);
        }
    }

    fn namespaces(&mut self, tenant: &str, options: &NamespaceOptions) {
        let path = "spec.namespaceOptions";
        if let Some(metadata) = &options.additional_metadata {
            self.metadata(&format!("{path}.additionalMetadata"), metadata);
        }
        let render = |text: &str| namespace_metadata::render_template(text, tenant, SHORTEST_NAME);
        for (index, entry) in options.additional_metadata_list.iter().enumerate() {
            let path = format!("{path}.additionalMetadataList[{index}]");
            self.labels(&format!("{path}.labels"), &entry.labels, render);
            self.annotations(&format!("{path}.annotations"), &entry.annotations, render);
            if let Some(selector) = &entry.namespace_selector {
                self.selector(&format!("{path}.namespaceSelector"), selector);
            }
        }
        if let Some(required) = &options.required_metadata {
            let path = format!("{path}.requiredMetadata");
            self.keys(&format!("{path}.labels"), required.labels.keys(), is_label_key, LABEL_KEY);
            self.keys(
                &format!("{path}.annotations"),
                required.annotations.keys(),
                is_annotation_key,
                ANNOTATION_KEY,
            );
        }
    }

    fn metadata(&mut self, path: &str, metadata: &AdditionalMetadata) {
        self.labels(&format!("{path}.labels"), &metadata.labels, str::to_owned);
        self.annotations(&format!("{path}.annotations"), &metadata.annotations, str::to_owned);
    }

    fn labels(&mut self, path: &str, labels: &Entries, render: impl Fn(&str) -> String) {
        for (key, value) in labels {
            let at = format!("{path}[{}]", quoted(key));
            self.require(is_label_key(&render(key)), &at, LABEL_KEY);
            self.require(is_label_value(&render(value)), &at, LABEL_VALUE);
        }
    }

    fn annotations(&mut self, path: &str, annotations: &Entries, render: impl Fn(&str) -> String) {
        let keys: Vec<_> = annotations.keys().map(|key| (key, render(key))).collect();
        for (key, rendered) in keys {
            self.require(is_annotation_key(&rendered), &format!("{path}[{}]", quoted(key)), ANNOTATION_KEY);
        }
        self.all_annotations(path, annotations);
    }

    fn all_annotations(&mut self, path: &str, annotations: &Entries) {
        let size = annotations_size(annotations);
        if size > MAX_ANNOTATIONS_SIZE {
            let message = format!(
                "the annotations of an object may have at most {MAX_ANNOTATIONS_SIZE} bytes in total; these have {size}"
            );
            self.add(path, &message);
        }
    }

    fn keys<'k>(
        &mut self,
        path: &str,
        keys: impl IntoIterator<Item = &'k String>,
        is_key: fn(&str) -> bool,
        message: &str,
    ) {
        for key in keys {
            self.require(is_key(key), &format!("{path}[{}]", quoted(key)), message);
        }
    }

    fn owner(&mut self, path: &str, owner: &OwnerSpec) {
        for (index, role) in owner.cluster_roles.iter().enumerate() {
            self.require(is_rbac_name(role), &format!("{path}.clusterRoles[{index}]"), RBAC_NAME);
        }
        self.labels(&format!("{path}.labels"), &owner.labels, str::to_owned);
        self.annotations(&format!("{path}.annotations"), &owner.annotations, str::to_owned);
    }

    fn binding(&mut self, path: &str, binding: &AdditionalRoleBinding) {
        self.require(is_rbac_name(&binding.cluster_role_name), &format!("{path}.clusterRoleName"), RBAC_NAME);
        for (index, subject) in binding.subjects.iter().enumerate() {
            self.subject(&format!("{path}.subjects[{index}]"), subject);
        }
        self.labels(&format!("{path}.labels"), &binding.labels, str::to_owned);
        self.annotations(&format!("{path}.annotations"), &binding.annotations, str::to_owned);
    }

    fn subject(&mut self, path: &str, subject: &Subject) {
        let is_account = subject.kind == "ServiceAccount";
        let (name, group) = (format!("{path}.name"), subject.api_group.as_deref().unwrap_or_default());
        if is_account {
            self.require(is_subdomain(&subject.name), &name, SUBDOMAIN);
        } else {
            self.require(!subject.name.is_empty(), &name, "the name of a subject must not be empty");
        }
        let expected = if is_account { "" } else { RBAC_GROUP };
        let message = format!("the API group of a {} must be {expected:?}; remove it", subject.kind);
        self.require(group.is_empty() || group == expected, &format!("{path}.apiGroup"), &message);
    }

    /// Validates the selectors of the Tenant. An invalid selector would match nothing.
    fn selectors(&mut self, spec: &TenantSpec) {
        let owners = spec.permissions.iter().flat_map(|permissions| &permissions.match_owners);
        for (index, selector) in owners.enumerate() {
            self.selector(&format!("spec.permissions.matchOwners[{index}]"), selector);
        }
        let ingress = spec.ingress_options.as_ref().and_then(|options| options.allowed_classes.as_ref());
        let gateway = spec.gateway_options.as_ref().and_then(|options| options.allowed_classes.as_ref());
        let lists = [
            ("spec.storageClasses", spec.storage_classes.as_ref()),
            ("spec.priorityClasses", spec.priority_classes.as_ref()),
            ("spec.runtimeClasses", spec.runtime_classes.as_ref()),
            ("spec.ingressOptions.allowedClasses", ingress),
            ("spec.gatewayOptions.allowedClasses", gateway),
        ];
        for (path, list) in lists.into_iter().filter_map(|(path, list)| Some((path, list?))) {
            let (match_labels, match_expressions) =
                (list.match_labels.clone(), list.match_expressions.clone());
            self.selector(path, &LabelSelector { match_labels, match_expressions });
        }
        if let Some(list) = &spec.device_classes {
            let (match_labels, match_expressions) =
                (list.match_labels.clone(), list.match_expressions.clone());
            self.selector("spec.deviceClasses", &LabelSelector { match_labels, match_expressions });
        }
    }

    fn selector(&mut self, path: &str, selector: &LabelSelector) {
        if let Some(labels) = &selector.match_labels {
            self.labels(&format!("{path}.matchLabels"), labels, str::to_owned);
        }
        for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
            let path = format!("{path}.matchExpressions[{index}]");
            let values = requirement.values.as_deref().unwrap_or_default();
            self.require(is_label_key(&requirement.key), &format!("{path}.key"), LABEL_KEY);
            let at = format!("{path}.values");
            match requirement.operator.as_str() {
                "In" | "NotIn" => {
                    self.require(!values.is_empty(), &at, "the operators In and NotIn require values");
                }
                "Exists" | "DoesNotExist" => {
                    self.require(
                        values.is_empty(),
                        &at,
                        "the operators Exists and DoesNotExist do not allow values",
                    );
                }
                _ => self.add(
                    &format!("{path}.operator"),
                    "the operator must be In, NotIn, Exists or DoesNotExist",
                ),
            }
            for (index, value) in values.iter().enumerate() {
                self.require(is_label_value(value), &format!("{at}[{index}]"), LABEL_VALUE);
            }
        }
    }
}

/// Returns the first characters of a text, with control characters escaped.
fn quoted(text: &str) -> String {
    let mut quoted: String = text.chars().take(MAX_QUOTED_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_QUOTED_CHARS).is_some() {
        quoted.push_str("...");
    }
    quoted
}

#[cfg(test)]
mod tests;
