//! Admission policies: CEL expressions that the API server evaluates by itself, whether a manager runs or not.

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ObjectMeta;

use super::target::{Target, TargetRule};

/// What must be true of certain objects, whoever writes them. Begun by [`Policy::new`].
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
    /// A policy about nothing yet. The name is a DNS label, unique among those of the controller.
    pub fn new(name: &'static str) -> Self {
        Self { name, targets: Vec::new(), objects: Vec::new(), namespaces: None, validations: Vec::new() }
    }

    /// It is about this, too.
    pub fn on<K>(mut self, target: Target<K>) -> Self {
        self.targets.push(target.into_rule());
        self
    }

    /// It is only about the objects of these names; without any, about all.
    pub fn named<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.objects.extend(names.into_iter().map(Into::into));
        self
    }

    /// It is only about objects in namespaces with these labels.
    pub fn in_namespaces(mut self, selector: LabelSelector) -> Self {
        self.namespaces = Some(selector);
        self
    }

    /// This CEL expression, over `object`, `oldObject`, `request`, `namespaceObject` and `authorizer`, must be true; if it is
    /// not, the message is told.
    pub fn holds(mut self, expression: impl Into<String>, message: impl Into<String>) -> Self {
        self.validations.push((expression.into(), message.into()));
        self
    }

    /// Its name in the cluster, as a policy of a controller of this name.
    pub fn full_name(&self, controller: &str) -> String {
        format!("ensemble-{controller}-{}", self.name)
    }

    /// The object that says what holds. What cannot be evaluated is refused.
    pub(super) fn policy(&self, metadata: ObjectMeta) -> ValidatingAdmissionPolicy {
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

    /// The object that puts it into effect.
    pub(super) fn binding(metadata: ObjectMeta) -> ValidatingAdmissionPolicyBinding {
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
