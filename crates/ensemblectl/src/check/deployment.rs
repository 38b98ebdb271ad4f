//! The Deployment of the manager, if there is one.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use operator_runtime::release::manager_selector;

use super::Finding;
use crate::installation::Installation;

const WHAT: &str = "Deployment";

/// What was found about the Deployment, its flags, and Deployments elsewhere. Asks nothing: it is known already.
pub(super) fn findings(installation: &Installation) -> Vec<Finding> {
    let namespace = &installation.namespace;
    let mut findings = vec![match &installation.deployment {
        Some(deployment) => judge(deployment),
        None => Finding::ok(WHAT, format!("none in {namespace}: the manager runs elsewhere, or none does")),
    }];
    if let Some(why) = &installation.flags_unreadable {
        let message = format!("its flags are not those of this version, and taken for the defaults: {why}");
        findings.push(Finding::warning(
            WHAT,
            message,
            "use the ensemblectl of the version that is installed",
        ));
    }
    findings.extend(second(namespace, &installation.others));
    findings
}

/// Another manager in the cluster.
pub(super) fn second(namespace: &str, others: &[String]) -> Option<Finding> {
    let message = || {
        format!(
            "a manager is deployed in {namespace} and in {} as well: they share cluster roles, \
        definitions and webhooks, and fight over objects",
            others.join(", ")
        )
    };
    let advice = "remove all but one; --manager-namespace chooses which one is looked at";
    (!others.is_empty()).then(|| Finding::error("second installation", message(), advice))
}

fn judge(deployment: &Deployment) -> Finding {
    let name = format!("{}/{}", deployment.namespace().unwrap_or_default(), deployment.name_any());
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas).unwrap_or_default();
    let message =
        format!("{name} has {available} of {wanted} replicas available, image {}", image(deployment));
    let look = format!(
        "kubectl --namespace {} get pods --selector {}",
        deployment.namespace().unwrap_or_default(),
        manager_selector()
    );
    match (available, wanted) {
        (_, 0) => Finding::error(
            WHAT,
            format!("{name} is scaled to none: nothing is reconciled"),
            "scale it to 1 or more",
        ),
        (0, _) => Finding::error(WHAT, message, look),
        (available, wanted) if available < wanted => Finding::warning(WHAT, message, look),
        _ => Finding::ok(WHAT, message),
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
    fn some_replicas_are_worth_a_look_and_none_is_wrong() {
        let state = |wanted: i32, available: i32| {
            let deployment = json!({
                "metadata": { "name": "m", "namespace": "a" },
                "spec": { "replicas": wanted, "selector": {}, "template": {} },
                "status": { "availableReplicas": available },
            });
            judge(&serde_json::from_value(deployment).unwrap()).state
        };
        assert_eq!(
            [state(2, 2), state(2, 1), state(2, 0), state(0, 0)],
            [State::Ok, State::Warning, State::Error, State::Error]
        );
    }

    #[test]
    fn a_second_manager_is_named() {
        assert_eq!(second("a", &[]), None);
        assert!(second("a", &["b".to_owned()]).unwrap().message.contains("in a and in b"));
    }
}
