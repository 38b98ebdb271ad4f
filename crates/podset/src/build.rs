//! The pod that a PodSet makes.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, Pod, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile,
    SecurityContext,
};
use kube::{ResourceExt, core::ObjectMeta};
use operator_core::{labels, owner::Owner, pod::PodView};

use crate::api::PodSet;

/// The label that carries the PodSet's name.
pub const APP_LABEL: &str = "app";
/// The label that tells the pods of a PodSet from others of the same `app`.
pub const VERSION_LABEL: &str = "version";
/// The value of [`VERSION_LABEL`].
pub const VERSION: &str = "v0.1";

/// A user that is not root, for the default container.
const NOBODY: i64 = 65532;

/// The label selector that finds a PodSet's pods.
pub(crate) fn selector(set: &PodSet) -> String {
    format!("{APP_LABEL}={},{VERSION_LABEL}={VERSION}", set.name_any())
}

/// Whether the pod carries the labels of the PodSet's pods.
pub(crate) fn has_labels(set: &PodSet, pod: &PodView) -> bool {
    let labels = pod.labels();
    labels.get(APP_LABEL) == set.metadata.name.as_deref() && labels.get(VERSION_LABEL) == Some(VERSION)
}

/// The name of the PodSet's pod with a number.
pub(crate) fn pod_name(set: &PodSet, number: usize) -> String {
    format!("{}-pod-{number}", set.name_any())
}

/// A pod of the PodSet. `image` is for the default container, if the PodSet has no template.
pub(crate) fn pod(set: &PodSet, owner: &Owner, name: String, image: &str) -> Pod {
    let template = set.spec.template.clone().unwrap_or_else(|| default_template(image));
    let mut metadata = metadata(set, template.metadata.unwrap_or_default(), name);
    owner.stamp(&mut metadata);
    Pod { metadata, spec: template.spec.map(restricted), status: None }
}

fn metadata(set: &PodSet, template: ObjectMeta, name: String) -> ObjectMeta {
    let instance = set.name_any();
    let mut wanted = labels::recommended("podset", &instance, "pod");
    wanted.extend(template.labels.unwrap_or_default());
    wanted.insert(APP_LABEL.to_owned(), instance);
    wanted.insert(VERSION_LABEL.to_owned(), VERSION.to_owned());
    ObjectMeta {
        name: Some(name),
        namespace: set.namespace(),
        labels: Some(wanted),
        annotations: template.annotations,
        finalizers: template.finalizers,
        ..ObjectMeta::default()
    }
}

fn default_template(image: &str) -> PodTemplateSpec {
    let container = Container {
        name: "fancy-alpine".to_owned(),
        image: Some(image.to_owned()),
        command: Some(vec!["sleep".to_owned(), "3600".to_owned()]),
        security_context: Some(SecurityContext { run_as_user: Some(NOBODY), ..SecurityContext::default() }),
        ..Container::default()
    };
    let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
    PodTemplateSpec { metadata: None, spec: Some(spec) }
}

/// Fills in what the restricted Pod Security Standard asks for, where the template says nothing.
fn restricted(mut spec: PodSpec) -> PodSpec {
    let pod: &mut PodSecurityContext = spec.security_context.get_or_insert_default();
    pod.run_as_non_root.get_or_insert(true);
    pod.seccomp_profile.get_or_insert_with(|| SeccompProfile {
        type_: "RuntimeDefault".to_owned(),
        localhost_profile: None,
    });
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        let context = container.security_context.get_or_insert_default();
        context.allow_privilege_escalation.get_or_insert(false);
        context
            .capabilities
            .get_or_insert_with(|| Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None });
    }
    spec
}

#[cfg(test)]
mod tests {
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

    fn built(spec: Value) -> Value {
        let set = set(spec);
        let owner = Owner::controller(&set, Some("shop")).unwrap();
        serde_json::to_value(pod(&set, &owner, pod_name(&set, 1), "an/image")).unwrap()
    }

    #[test]
    fn without_a_template_a_pod_sleeps_and_is_restricted() {
        insta::assert_yaml_snapshot!(built(json!({})));
    }

    #[test]
    fn a_template_keeps_what_it_says_and_gets_the_rest() {
        let pod = built(json!({"template": {
            "metadata": {"labels": {"app": "other", "team": "a"}, "annotations": {"note": "kept"}},
            "spec": {
                "securityContext": {"runAsNonRoot": false},
                "containers": [{"name": "c", "image": "i", "securityContext": {"allowPrivilegeEscalation": true}}],
            },
        }}));
        assert_eq!(pod["metadata"]["labels"]["app"], "web", "the selector's labels win");
        assert_eq!(pod["metadata"]["labels"]["team"], "a");
        assert_eq!(pod["metadata"]["annotations"]["note"], "kept");
        assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], false);
        let context = &pod["spec"]["containers"][0]["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], true);
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
    }
}
