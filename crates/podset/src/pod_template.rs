//! The Pod that is created from the template of a PodSet.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, Pod, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile,
    SecurityContext,
};
use kube::{ResourceExt, core::ObjectMeta};
use operator_core::{labels, owner::Owner, pod::PodView};

use crate::{api::PodSet, compact_template::CompactTemplate};

/// Label with the name of the PodSet.
pub const APP_LABEL: &str = "app";
/// Label that distinguishes the Pods of a PodSet from other Pods with the same `app`.
pub const VERSION_LABEL: &str = "version";
/// Value of [`VERSION_LABEL`].
pub const VERSION: &str = "v0.1";

/// User ID of the default container. Not root.
const NOBODY: i64 = 65532;

/// Returns the label selector of the PodSet's Pods.
pub(crate) fn selector(set: &PodSet) -> String {
    format!("{APP_LABEL}={},{VERSION_LABEL}={VERSION}", set.name_any())
}

/// Returns whether the labels of the Pod match the PodSet's selector.
pub(crate) fn matches_selector(set: &PodSet, pod: &PodView) -> bool {
    let labels = pod.labels();
    labels.get(APP_LABEL) == set.metadata.name.as_deref() && labels.get(VERSION_LABEL) == Some(VERSION)
}

/// Returns the name of the PodSet's Pod with this number.
pub(crate) fn pod_name(set: &PodSet, number: usize) -> String {
    format!("{}-pod-{number}", set.name_any())
}

/// Returns the template of the PodSet, or the default one. `image` is the image of its container.
///
/// # Errors
/// Returns an error if the template cannot be decoded.
pub(crate) fn template(set: &PodSet, image: &str) -> serde_json::Result<PodTemplateSpec> {
    set.spec.template.as_ref().map_or_else(|| Ok(default_template(image)), CompactTemplate::decode)
}

/// Returns a Pod for the PodSet. The spec of the template is used unchanged, as in a ReplicaSet.
pub(crate) fn pod_from_template(
    set: &PodSet,
    owner: &Owner,
    name: String,
    template: &PodTemplateSpec,
) -> Pod {
    let mut metadata = metadata(set, template.metadata.clone().unwrap_or_default(), name);
    owner.set_on(&mut metadata);
    Pod { metadata, spec: template.spec.clone(), status: None }
}

fn metadata(set: &PodSet, template: ObjectMeta, name: String) -> ObjectMeta {
    let instance = set.name_any();
    let mut labels = labels::recommended("podset", &instance, "pod");
    labels.extend(template.labels.unwrap_or_default());
    labels.insert(APP_LABEL.to_owned(), instance);
    labels.insert(VERSION_LABEL.to_owned(), VERSION.to_owned());
    ObjectMeta {
        name: Some(name),
        namespace: set.namespace(),
        labels: Some(labels),
        annotations: template.annotations,
        finalizers: template.finalizers,
        ..ObjectMeta::default()
    }
}

/// Returns the template of a PodSet without one. It meets the restricted Pod Security Standard.
fn default_template(image: &str) -> PodTemplateSpec {
    let capabilities = Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None };
    let container = Container {
        name: "fancy-alpine".to_owned(),
        image: Some(image.to_owned()),
        command: Some(vec!["sleep".to_owned(), "3600".to_owned()]),
        security_context: Some(SecurityContext {
            run_as_user: Some(NOBODY),
            allow_privilege_escalation: Some(false),
            capabilities: Some(capabilities),
            ..SecurityContext::default()
        }),
        ..Container::default()
    };
    let seccomp = SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None };
    let context = PodSecurityContext {
        run_as_non_root: Some(true),
        seccomp_profile: Some(seccomp),
        ..PodSecurityContext::default()
    };
    let spec = PodSpec { containers: vec![container], security_context: Some(context), ..PodSpec::default() };
    PodTemplateSpec { metadata: None, spec: Some(spec) }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, option, prelude::*};
    use serde_json::{Value, json};

    use super::*;

    fn set(spec: Value) -> PodSet {
        serde_json::from_value(json!({
            "apiVersion": "app.example.com/v1alpha1", "kind": "PodSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
            "spec": spec,
        }))
        .unwrap()
    }

    fn pod(spec: Value) -> Value {
        let set = set(spec);
        let owner = Owner::controller(&set, Some("shop")).unwrap();
        let template = template(&set, "an/image").unwrap();
        serde_json::to_value(pod_from_template(&set, &owner, pod_name(&set, 1), &template)).unwrap()
    }

    #[test]
    fn default_template_sleeps_and_is_restricted() {
        insta::assert_yaml_snapshot!(pod(json!({})));
    }

    #[test]
    fn selector_labels_override_template_labels() {
        let pod = pod(json!({"template": {
            "metadata": {
                "name": "ignored", "generateName": "ignored-", "namespace": "ignored",
                "labels": {"app": "other", "team": "a"},
                "annotations": {"note": "kept"},
                "finalizers": ["example.com/kept"],
            },
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }}));
        assert_eq!(pod["metadata"]["name"], "web-pod-1");
        assert_eq!(pod["metadata"].get("generateName"), None);
        assert_eq!(pod["metadata"]["namespace"], "shop");
        assert_eq!(pod["metadata"]["labels"]["app"], "web");
        assert_eq!(pod["metadata"]["labels"]["version"], "v0.1");
        assert_eq!(pod["metadata"]["labels"]["team"], "a");
        assert_eq!(pod["metadata"]["annotations"], json!({"note": "kept"}));
        assert_eq!(pod["metadata"]["finalizers"], json!(["example.com/kept"]));
    }

    fn security_context() -> impl Strategy<Value = Option<SecurityContext>> {
        option::of(
            (any::<Option<bool>>(), any::<Option<bool>>(), any::<Option<i64>>(), any::<bool>()).prop_map(
                |(privileged, allow_privilege_escalation, run_as_user, has_capabilities)| SecurityContext {
                    privileged,
                    allow_privilege_escalation,
                    run_as_user,
                    capabilities: has_capabilities
                        .then(|| Capabilities { add: Some(vec!["NET_ADMIN".to_owned()]), drop: None }),
                    ..SecurityContext::default()
                },
            ),
        )
    }

    fn container() -> impl Strategy<Value = Container> {
        ("[a-z]{1,8}", option::of("[a-z/:]{1,12}"), security_context()).prop_map(
            |(name, image, security_context)| Container {
                name,
                image,
                security_context,
                ..Container::default()
            },
        )
    }

    prop_compose! {
        fn pod_spec()(
            containers in vec(container(), 0..4),
            init_containers in option::of(vec(container(), 0..3)),
            run_as_non_root in any::<Option<Option<bool>>>(),
            restart_policy in option::of(Just("Always".to_owned())),
            service_account_name in option::of("[a-z]{1,8}"),
            automount_service_account_token in any::<Option<bool>>(),
            host_network in any::<Option<bool>>(),
            termination_grace_period_seconds in any::<Option<i64>>(),
        ) -> PodSpec {
            let security_context = run_as_non_root
                .map(|run_as_non_root| PodSecurityContext { run_as_non_root, ..PodSecurityContext::default() });
            PodSpec {
                containers, init_containers, security_context, restart_policy, service_account_name,
                automount_service_account_token, host_network, termination_grace_period_seconds,
                ..PodSpec::default()
            }
        }
    }

    proptest! {
        #[test]
        fn pod_spec_equals_template_spec(spec in option::of(pod_spec())) {
            let mut set = set(json!({}));
            let written = PodTemplateSpec { metadata: None, spec: spec.clone() };
            set.spec.template = Some(CompactTemplate::new(&written).unwrap());
            let owner = Owner::controller(&set, Some("shop")).unwrap();
            let template = template(&set, "an/image").unwrap();
            prop_assert_eq!(pod_from_template(&set, &owner, pod_name(&set, 1), &template).spec, spec);
            let read = serde_json::from_value::<PodSet>(serde_json::to_value(&set).unwrap()).unwrap();
            prop_assert_eq!(read, set, "the template is written as the API server reads it");
        }
    }
}
