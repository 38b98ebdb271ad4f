//! Admission policies: CEL expressions that the API server evaluates, also if no manager runs.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition as ApiMatchCondition, MatchResources, NamedRuleWithOperations, ParamKind, ParamRef,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Validation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ObjectMeta;

use super::{
    target::{Target, TargetRule},
    webhook::{FailurePolicy, MatchCondition},
};
use crate::kind::Kind;

/// A ValidatingAdmissionPolicy. Built with [`Policy::new`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Policy {
    name: &'static str,
    targets: Vec<TargetRule>,
    objects: Vec<String>,
    namespaces: Option<LabelSelector>,
    parameter: Option<Parameter>,
    match_conditions: Vec<MatchCondition>,
    validations: Vec<(String, String)>,
    on_error: FailurePolicy,
}

/// The object with the settings of a policy.
#[derive(Clone, Debug)]
struct Parameter {
    kind: ParamKind,
    name: &'static str,
}

impl Policy {
    /// Returns a policy without targets. The name is a DNS label, unique in the controller.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            targets: Vec::new(),
            objects: Vec::new(),
            namespaces: None,
            parameter: None,
            match_conditions: Vec::new(),
            validations: Vec::new(),
            on_error: FailurePolicy::Fail,
        }
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

    /// Gives the expressions a cluster-scoped object as `params`. Without such an object, the policy
    /// allows every request.
    pub fn parameter<K: Kind>(mut self, name: &'static str) -> Self {
        let kind = ParamKind {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
        };
        self.parameter = Some(Parameter { kind, name });
        self
    }

    /// Limits the policy to requests for which a CEL expression is true.
    pub fn match_condition(mut self, name: &str, expression: &str) -> Self {
        let condition = MatchCondition { name: name.to_owned(), expression: expression.to_owned() };
        self.match_conditions.push(condition);
        self
    }

    /// Sets what happens if an expression fails, or if the API server does not know the kind of the
    /// parameter. By default, the request is denied.
    pub fn failure_policy(mut self, failure_policy: FailurePolicy) -> Self {
        self.on_error = failure_policy;
        self
    }

    /// Adds a CEL expression over `object`, `oldObject`, `request`, `namespaceObject`,
    /// `authorizer`, and `params`. If it is not true, the request is denied with the message.
    pub fn validation(mut self, expression: impl Into<String>, message: impl Into<String>) -> Self {
        self.validations.push((expression.into(), message.into()));
        self
    }

    /// Returns the name of the policy in the cluster.
    pub fn full_name(&self, controller: &str) -> String {
        format!("ensemble-{controller}-{}", self.name)
    }

    /// Returns the policy.
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
                failure_policy: Some(self.on_error.name().to_owned()),
                match_conditions: (!self.match_conditions.is_empty())
                    .then(|| self.match_conditions.iter().map(Into::into).collect()),
                param_kind: self.parameter.as_ref().map(|parameter| parameter.kind.clone()),
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
    pub(crate) fn binding(&self, metadata: ObjectMeta) -> ValidatingAdmissionPolicyBinding {
        let param_ref = |parameter: &Parameter| ParamRef {
            name: Some(parameter.name.to_owned()),
            parameter_not_found_action: Some("Allow".to_owned()),
            ..ParamRef::default()
        };
        let spec = ValidatingAdmissionPolicyBindingSpec {
            policy_name: metadata.name.clone().unwrap_or_default(),
            param_ref: self.parameter.as_ref().map(param_ref),
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

impl From<&MatchCondition> for ApiMatchCondition {
    fn from(MatchCondition { name, expression }: &MatchCondition) -> Self {
        Self { name: name.clone(), expression: expression.clone() }
    }
}
