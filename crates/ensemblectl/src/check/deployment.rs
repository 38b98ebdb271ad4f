//! Check of the manager's Deployment.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use operator_runtime::cleanup::manager_selector;

use super::Finding;
use crate::installation::Installation;

const WHAT: &str = "Deployment";

/// Checks the Deployment, its flags, and Deployments in other namespaces. Sends no requests.
pub(super) fn findings(installation: &Installation) -> Vec<Finding> {
    let namespace = &installation.namespace;
    let mut findings = vec![match &installation.deployment {
        Some(deployment) => availability(WHAT, deployment, &manager_selector(), "nothing is reconciled"),
        None => Finding::ok(
            WHAT,
            format!("none in {namespace}: the manager runs outside of the cluster or not at all"),
        ),
    }];
    if let Some(error) = &installation.flags_error {
        let message = format!("the flags cannot be parsed, and the defaults are used instead: {error}");
        findings.push(Finding::warning(WHAT, message, "use the ensemblectl of the installed version"));
    }
    findings.extend(second_installation(namespace, &installation.other_namespaces));
    findings
}

/// Reports managers in other namespaces.
fn second_installation(namespace: &str, others: &[String]) -> Option<Finding> {
    let message = || {
        format!(
            "managers are deployed in {namespace} and in {}: they share ClusterRoles, CRDs, and webhooks, and \
             overwrite each other's changes",
            others.join(", ")
        )
    };
    let advice = "remove all but one; select the one to check with --manager-namespace";
    (!others.is_empty()).then(|| Finding::error("second installation", message(), advice))
}

/// Returns whether the replicas of a Deployment are available. `selector` selects its Pods, and `without` says what
/// it means to have none.
pub(super) fn availability(
    what: &'static str,
    deployment: &Deployment,
    selector: &str,
    without: &str,
) -> Finding {
    let name = format!("{}/{}", deployment.namespace().unwrap_or_default(), deployment.name_any());
    let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas).unwrap_or_default();
    let message =
        format!("{name} has {available} of {desired} replicas available, image {}", image(deployment));
    let advice = format!(
        "run `kubectl --namespace {} get pods --selector {selector}`",
        deployment.namespace().unwrap_or_default(),
    );
    match (available, desired) {
        (_, 0) => Finding::error(what, format!("{name} is scaled to 0: {without}"), "scale it to 1 or more"),
        (0, _) => Finding::error(what, message, advice),
        (available, desired) if available < desired => Finding::warning(what, message, advice),
        _ => Finding::ok(what, message),
    }
}

fn image(deployment: &Deployment) -> &str {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let main = pod.and_then(|pod| pod.containers.first());
    main.and_then(|main| main.image.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::finding::State;

    #[test]
    fn warns_about_missing_replicas_and_fails_without_any() {
        let state = |desired: i32, available: i32| {
            let deployment = json!({
                "metadata": { "name": "m", "namespace": "a" },
                "spec": { "replicas": desired, "selector": {}, "template": {} },
                "status": { "availableReplicas": available },
            });
            availability(WHAT, &serde_json::from_value(deployment).unwrap(), "a=b", "nothing").state
        };
        assert_eq!(
            [state(2, 2), state(2, 1), state(2, 0), state(0, 0)],
            [State::Ok, State::Warning, State::Error, State::Error]
        );
    }

    #[test]
    fn reports_second_installation() {
        assert_eq!(second_installation("a", &[]), None);
        assert!(second_installation("a", &["b".to_owned()]).unwrap().message.contains("in a and in b"));
    }
}
