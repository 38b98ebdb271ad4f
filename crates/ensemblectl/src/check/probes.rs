//! Whether the webhooks answer. The API server is asked to pretend: a dry run of a create that a webhook must judge, and
//! a list in a version that has to be converted. Nothing is stored.

use anyhow::Context;
use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhookConfiguration,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, PostParams},
};
use operator_core::{
    admission::{CREATE, FailurePolicy, TargetRule, Webhook, configuration},
    error::{chain, status},
};
use serde_json::json;

use super::Finding;
use crate::{
    connect::Cluster,
    explain::is_rbac,
    installation::Installation,
    kinds::{Kind, is_absent},
};

const ADVICE: &str = "the API server must reach the manager on port 9443, by the Service ensemble-webhook or the URL of \
     the configuration: docs/operations/admission.md";

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The webhook has judged, one way or the other.
    Judged,
    /// The API server could not ask it.
    Unreachable,
    /// The person who asks may not do that.
    NotAllowed,
    /// It says nothing about the webhook.
    Other,
}

pub(super) async fn findings(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    if !installation.serves_webhooks() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for kind in installation.kinds() {
        if let Some(webhook) = judge_of(&kind) {
            let webhook = webhook.full_name(kind.controller.name);
            if is_configured(cluster, &kind, &webhook).await {
                findings.push(create(cluster, &kind, &webhook).await);
            }
        }
        if let Some(version) = converted(&kind.definition) {
            findings.extend(convert(cluster, &kind, version).await);
        }
    }
    findings
}

/// The webhook without whose word no object of the kind is created, if there is one.
fn judge_of(kind: &Kind) -> Option<Webhook> {
    let names = &kind.definition.spec.names;
    let is_ours = |target: &TargetRule| {
        target.operations.contains(CREATE)
            && target.subresource.is_none()
            && (&target.group, &target.resource) == (&kind.definition.spec.group, &names.plural)
    };
    let webhooks = (kind.controller.webhooks)();
    webhooks.into_iter().find(|webhook| {
        webhook.failure_policy == FailurePolicy::Fail
            && webhook.object_selector == LabelSelector::default()
            && webhook.targets.iter().any(is_ours)
    })
}

/// Whether the API server knows whom to ask. Where it does not, which has been told, it lets pass whatever it would ask
/// about, and that is no answer. Where that cannot be found out, asking tells more.
async fn is_configured(cluster: &Cluster, kind: &Kind, webhook: &str) -> bool {
    let configurations = Api::<ValidatingWebhookConfiguration>::all(cluster.client.clone());
    let found = configurations.get_opt(&configuration::name(kind.controller.name)).await;
    found.map_or(true, |found| names(found.as_ref(), webhook))
}

fn names(configuration: Option<&ValidatingWebhookConfiguration>, webhook: &str) -> bool {
    let webhooks = configuration.iter().flat_map(|found| found.webhooks.iter().flatten());
    webhooks.into_iter().any(|found| found.name == webhook)
}

/// A served version that is not the stored one, where a webhook converts.
fn converted(definition: &CustomResourceDefinition) -> Option<&str> {
    let is_asked = definition.spec.conversion.as_ref().is_some_and(|conversion| conversion.webhook.is_some());
    let other = definition.spec.versions.iter().find(|version| version.served && !version.storage);
    other.filter(|_| is_asked).map(|version| version.name.as_str())
}

/// Pretends to create an object.
async fn create(cluster: &Cluster, kind: &Kind, webhook: &str) -> Finding {
    let what = format!("webhook {webhook}");
    let resource = kind.resource();
    let object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": { "generateName": "ensemblectl-asks-" }, "spec": {},
    });
    let Ok(object) = serde_json::from_value::<DynamicObject>(object) else {
        return Finding::ok(&what, "not asked");
    };
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let api = kind.api(&cluster.client, kind.is_namespaced().then(|| cluster.namespace()));
    let answer = api.create(&params, &object).await;
    let read = answer.as_ref().err().map_or(Answer::Judged, |error| read(error, webhook));
    match (read, answer) {
        (Answer::Judged, _) => {
            Finding::ok(&what, format!("answers (asked by a dry run of a {})", kind.name()))
        }
        (Answer::Unreachable, Err(error)) => {
            Finding::error(&what, format!("does not answer: {}", chain(&error)), ADVICE)
        }
        (Answer::NotAllowed, Err(error)) => {
            let message = format!(
                "was not asked, for you may not create a {}, not even in a dry run: {}",
                kind.name(),
                chain(&error)
            );
            Finding::warning(&what, message, "ask somebody who may, or look at the manager's readiness probe")
        }
        (_, answer) => {
            let told =
                answer.map(drop).with_context(|| format!("cannot pretend to create a {}", kind.name()));
            told.map_or_else(|error| Finding::unknown(&what, &error), |()| Finding::ok(&what, "answers"))
        }
    }
}

/// What an answer says about a webhook.
fn read(error: &kube::Error, webhook: &str) -> Answer {
    let Some(status) = status(error) else { return Answer::Other };
    if status.message.contains("denied the request") && status.message.contains(webhook) {
        return Answer::Judged;
    }
    if status.message.contains("failed calling webhook") || status.message.contains("conversion webhook") {
        return Answer::Unreachable;
    }
    if is_rbac(status) { Answer::NotAllowed } else { Answer::Other }
}

/// Has one object converted. Nothing if there is none, or the kind is not there: that has been told.
///
/// It is read by its name, which the API server does from its store. A list may come from its memory, converted long ago.
async fn convert(cluster: &Cluster, kind: &Kind, version: &str) -> Option<Finding> {
    let what = format!("conversion of {}", kind.definition.name_any());
    let stored = kind.api(&cluster.client, None).list(&ListParams::default().limit(1)).await;
    let told = match stored {
        Ok(list) => {
            let one = list.items.into_iter().next()?;
            let (name, resource) = (one.name_any(), kind.resource_in(version));
            let api: Api<DynamicObject> = match one.namespace() {
                Some(namespace) => Api::namespaced_with(cluster.client.clone(), &namespace, &resource),
                None => Api::all_with(cluster.client.clone(), &resource),
            };
            api.get(&name).await.map(|_| name)
        }
        Err(error) => Err(error),
    };
    match told {
        Ok(name) => Some(Finding::ok(&what, format!("answers (asked for {name} in {version})"))),
        Err(error) if is_absent(&error) => None,
        Err(error) if read(&error, "") == Answer::Unreachable => {
            Some(Finding::error(&what, format!("does not answer: {}", chain(&error)), ADVICE))
        }
        Err(error) => {
            let cannot = || format!("cannot read a {} in {version}", kind.name());
            let told = Err::<(), _>(error).with_context(cannot);
            Some(Finding::unknown(&what, &told.err()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::kinds::find;

    fn read_of(code: u16, reason: &str, message: &str) -> Answer {
        let status = Status { code, reason: reason.into(), message: message.into(), ..Status::default() };
        read(&kube::Error::Api(Box::new(status)), "tenants.tenant.ensemble")
    }

    #[test]
    fn a_refusal_by_the_webhook_is_an_answer_and_silence_is_none() {
        let denied = "admission webhook \"tenants.tenant.ensemble\" denied the request: no";
        assert_eq!(read_of(403, "Forbidden", denied), Answer::Judged);
        let silent =
            "Internal error occurred: failed calling webhook \"tenants.tenant.ensemble\": connection refused";
        assert_eq!(read_of(500, "InternalError", silent), Answer::Unreachable);
        let unconverted =
            "conversion webhook for capsule.clastix.io/v1beta2, Kind=Tenant failed: connection refused";
        assert_eq!(read_of(500, "InternalError", unconverted), Answer::Unreachable);
        assert_eq!(
            read_of(403, "Forbidden", "tenants is forbidden: User \"eve\" cannot create"),
            Answer::NotAllowed
        );
        assert_eq!(read_of(422, "Invalid", "spec.x: Required value"), Answer::Other);
        assert_eq!(
            read_of(403, "Forbidden", "admission webhook \"of-others\" denied the request"),
            Answer::Other
        );
    }

    #[test]
    fn tenants_are_what_can_be_asked_about() {
        let tenant = find("tenant").unwrap();
        assert_eq!(judge_of(&tenant).unwrap().full_name("tenant"), "tenants.tenant.ensemble");
        assert_eq!(converted(&tenant.definition), Some("v1beta1"));
        let podset = find("podset").unwrap();
        assert!(judge_of(&podset).is_none() && converted(&podset.definition).is_none());
    }
}
