//! Admission policies: CEL expressions that the API server evaluates, also if no manager runs.

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ObjectMeta;

use super::target::{Target, TargetRule};

/// A ValidatingAdmissionPolicy. Built with [`Policy::new`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Policy {
    name: &'static str,
    targets: Vec<TargetRule>,
    objects: Vec<String>,
    namespaces: Option<LabelSelector>,
    validations: Vec<(String, String)>,
}

impl Policy {
    /// Returns a policy without targets. The name is a DNS label, unique in the controller.
    pub fn new(name: &'static str) -> Self {
        Self { name, targets: Vec::new(), objects: Vec::new(), namespaces: None, validations: Vec::new() }
    }

    /// Adds a target.
    pub fn on<K>(mut self, target: Target<K>) -> Self {
        self.targets.push(target.into_rule());
        self
    }

    /// Limits the policy to objects with these names. Without names, it applies to all objects.
    pub fn named<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.objects.extend(names.into_iter().map(Into::into));
        self
    }

    /// Limits the policy to objects in the selected namespaces.
    pub fn in_namespaces(mut self, selector: LabelSelector) -> Self {
        self.namespaces = Some(selector);
        self
    }

    /// Adds a CEL expression over `object`, `oldObject`, `request`, `namespaceObject`, and
    /// `authorizer`. If it is not true, the request is denied with the message.
    pub fn validation(mut self, expression: impl Into<String>, message: impl Into<String>) -> Self {
        self.validations.push((expression.into(), message.into()));
        self
    }

    /// Returns the name of the policy in the cluster.
    pub fn full_name(&self, controller: &str) -> String {
        format!("ensemble-{controller}-{}", self.name)
    }

    /// Returns the policy. Requests for which an expression fails are denied.
    pub(crate) fn policy(&self, metadata: ObjectMeta) -> ValidatingAdmissionPolicy {
        let validation = |(expression, message): &(String, String)| Validation {
            expression: expression.clone(),
            message: Some(message.clone()),
            reason: Some("Forbidden".to_owned()),
            ..Validation::default()
        };
        ValidatingAdmissionPolicy {
            metadata,
            spec: Some(ValidatingAdmissionPolicySpec {
                failure_policy: Some("Fail".to_owned()),
                match_constraints: Some(MatchResources {
                    match_policy: Some("Equivalent".to_owned()),
                    namespace_selector: self.namespaces.clone(),
                    resource_rules: Some(self.targets.iter().map(|target| self.rule(target)).collect()),
                    ..MatchResources::default()
                }),
                validations: Some(self.validations.iter().map(validation).collect()),
                ..ValidatingAdmissionPolicySpec::default()
            }),
            ..ValidatingAdmissionPolicy::default()
        }
    }

    /// Returns the binding that enables the policy.
    pub(crate) fn binding(metadata: ObjectMeta) -> ValidatingAdmissionPolicyBinding {
        let spec = ValidatingAdmissionPolicyBindingSpec {
            policy_name: metadata.name.clone().unwrap_or_default(),
            validation_actions: vec!["Deny".to_owned()],
            ..ValidatingAdmissionPolicyBindingSpec::default()
        };
        ValidatingAdmissionPolicyBinding { metadata, spec }
    }

    fn rule(&self, target: &TargetRule) -> NamedRuleWithOperations {
        NamedRuleWithOperations {
            api_groups: Some(vec![target.group.clone()]),
            api_versions: Some(vec![target.version.clone()]),
            operations: Some(target.operations.names()),
            resource_names: (!self.objects.is_empty()).then(|| self.objects.clone()),
            resources: Some(vec![target.resource_name()]),
            scope: Some(target.scope().to_owned()),
        }
    }
}
