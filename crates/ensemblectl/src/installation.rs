//! Where the manager runs, and with which flags: read from its Deployment, if there is one.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, EnvVar},
};
use kube::{Api, ResourceExt, api::ListParams};
use manager::{ACCOUNT, Flags, NAMESPACE, parse_deployed};
use operator_core::{Registration, error::status};
use operator_runtime::release::manager_selector;

use crate::{connect::Cluster, kinds};

/// A manager, or where one would be.
pub(crate) struct Installation {
    /// The namespace that it runs in.
    pub(crate) namespace: String,
    /// The ServiceAccount that it runs as.
    pub(crate) account: String,
    /// What it was asked to do; the defaults where there is no Deployment.
    pub(crate) flags: Flags,
    /// Why the flags of the Deployment could not be read.
    pub(crate) flags_unreadable: Option<String>,
    /// Its Deployment. A manager on a workstation has none.
    pub(crate) deployment: Option<Deployment>,
    /// Other namespaces in which a manager is deployed.
    pub(crate) others: Vec<String>,
}

impl Installation {
    /// Looks for it, in the whole cluster if that is allowed.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub(crate) async fn find(cluster: &Cluster) -> Result<Self> {
        let wanted = cluster.place.manager_namespace.as_deref();
        let deployments = deployments(cluster, wanted.unwrap_or(NAMESPACE)).await?;
        Self::among(deployments, wanted)
    }

    /// The installation in a namespace, or the first one that is there.
    pub(crate) fn among(deployments: Vec<Deployment>, wanted: Option<&str>) -> Result<Self> {
        let is_wanted =
            |one: &&Deployment| wanted.is_none_or(|wanted| one.namespace().as_deref() == Some(wanted));
        let deployment = deployments.iter().find(is_wanted).cloned();
        let namespace = deployment.as_ref().and_then(ResourceExt::namespace);
        let namespace = namespace.unwrap_or_else(|| wanted.unwrap_or(NAMESPACE).to_owned());
        let mut others: Vec<_> = deployments.iter().filter_map(ResourceExt::namespace).collect();
        others.retain(|other| *other != namespace);
        others.dedup();
        let pod = deployment.as_ref().and_then(|deployment| deployment.spec.as_ref()?.template.spec.as_ref());
        let account = pod.and_then(|pod| pod.service_account_name.clone());
        let (args, env) = pod
            .and_then(|pod| pod.containers.first())
            .map(|main| started(main, &namespace))
            .unwrap_or_default();
        let (flags, flags_unreadable) = match parse_deployed(&args, &env) {
            Ok(flags) => (flags, None),
            Err(error) => {
                let flags = parse_deployed(&[format!("--namespace={namespace}")], &BTreeMap::new());
                let why = error.to_string().lines().next().unwrap_or_default().to_owned();
                (flags.context("cannot read the manager's own defaults")?, Some(why))
            }
        };
        let account = account.unwrap_or_else(|| ACCOUNT.to_owned());
        Ok(Self { namespace, account, flags, flags_unreadable, deployment, others })
    }

    /// The controllers that it runs.
    pub(crate) fn controllers(&self) -> &[Registration] {
        &self.flags.controllers
    }

    /// The kinds of these controllers.
    pub(crate) fn kinds(&self) -> Vec<kinds::Kind> {
        kinds::of(self.controllers()).cloned().collect()
    }

    /// Whether it answers the API server.
    pub(crate) fn serves_webhooks(&self) -> bool {
        self.flags.webhook_bind_address.is_some()
    }

    /// Whether it asks the API server who may read its metrics.
    pub(crate) fn guards_metrics(&self) -> bool {
        self.flags.metrics_bind_address.is_some() && self.flags.metrics_secure
    }

    /// Whether any server of it shows a certificate.
    pub(crate) fn shows_certificate(&self) -> bool {
        self.serves_webhooks() || self.guards_metrics()
    }

    /// The namespace of its Leases, if it shares its controllers.
    pub(crate) fn lease_namespace(&self) -> Option<&str> {
        self.flags.sharing.as_ref().map(|sharing| sharing.namespace.as_str())
    }
}

/// The Deployments of managers. Who may not list those of the cluster gets those of the namespace, if any.
async fn deployments(cluster: &Cluster, namespace: &str) -> Result<Vec<Deployment>> {
    let params = ListParams::default().labels(&manager_selector());
    let everywhere = Api::<Deployment>::all(cluster.client.clone());
    match kinds::list(&everywhere, &params).await {
        Err(error) if is_forbidden(&error) => {}
        listed => return listed.context("cannot list the Deployments of the cluster"),
    }
    let there = Api::<Deployment>::namespaced(cluster.client.clone(), namespace);
    match kinds::list(&there, &params).await {
        Err(error) if is_forbidden(&error) => Ok(Vec::new()),
        listed => listed.with_context(|| format!("cannot list the Deployments of namespace {namespace}")),
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    status(error).is_some_and(kube::core::Status::is_forbidden)
}

/// The arguments and the environment that a container is started with, as far as they can be known beforehand.
fn started(container: &Container, namespace: &str) -> (Vec<String>, BTreeMap<String, String>) {
    let value = |variable: &EnvVar| match &variable.value_from {
        None => Some(variable.value.clone().unwrap_or_default()),
        Some(source) => {
            let field = source.field_ref.as_ref()?;
            (field.field_path == "metadata.namespace").then(|| namespace.to_owned())
        }
    };
    let env: BTreeMap<_, _> = container
        .env
        .iter()
        .flatten()
        .filter_map(|variable| Some((variable.name.clone(), value(variable)?)))
        .collect();
    let expand = |arg: &String| {
        env.iter().fold(arg.clone(), |arg, (name, value)| arg.replace(&format!("$({name})"), value))
    };
    // The first word of a command is the program.
    let words = container.command.iter().flatten().skip(1).chain(container.args.iter().flatten());
    (words.map(expand).collect(), env)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(namespace: &str, container: Value) -> Deployment {
        let pod = json!({ "serviceAccountName": "someone", "containers": [container] });
        let template = json!({ "spec": pod });
        let spec = json!({ "selector": {}, "template": template });
        serde_json::from_value(json!({ "metadata": { "name": "m", "namespace": namespace }, "spec": spec }))
            .unwrap()
    }

    fn names(installation: &Installation) -> Vec<&str> {
        installation.controllers().iter().map(|controller| controller.name).collect()
    }

    #[test]
    fn without_a_deployment_the_defaults_hold() {
        let found = Installation::among(Vec::new(), None).unwrap();
        assert_eq!((&*found.namespace, &*found.account), (NAMESPACE, ACCOUNT));
        assert!(names(&found).len() > 3);
        assert_eq!(Installation::among(Vec::new(), Some("here")).unwrap().namespace, "here");
    }

    #[test]
    fn flags_are_those_that_the_deployment_gives() {
        let env = json!([
            { "name": "POD_NAMESPACE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } },
            { "name": "ENSEMBLE_CONTROLLERS", "value": "podset" },
        ]);
        let args = ["--lease-namespace=$(POD_NAMESPACE)-leases"];
        let both = vec![
            deployment("a", json!({ "name": "manager", "args": args, "env": env })),
            deployment("b", json!({ "name": "manager" })),
        ];
        let found = Installation::among(both.clone(), None).unwrap();
        assert_eq!((&*found.namespace, &*found.account, names(&found)), ("a", "someone", vec!["podset"]));
        assert_eq!((found.lease_namespace(), found.others.clone()), (Some("a-leases"), vec!["b".to_owned()]));
        let found = Installation::among(both, Some("b")).unwrap();
        assert_eq!((&*found.namespace, found.others), ("b", vec!["a".to_owned()]));
    }

    #[test]
    fn flags_of_another_version_are_no_reason_to_give_up() {
        let strange = vec![deployment("a", json!({ "name": "manager", "args": ["--from-the-future"] }))];
        let found = Installation::among(strange, None).unwrap();
        assert!(found.flags_unreadable.unwrap().contains("--from-the-future"));
        assert_eq!(found.flags.namespace, "a");
    }
}
