//! The namespace and flags of the manager, from its Deployment if it has one.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, EnvVar},
};
use kube::{Api, ResourceExt, api::ListParams};
use manager::{ACCOUNT, Flags, NAMESPACE, parse_args_and_env};
use operator_core::{Registration, error::status};
use operator_runtime::cleanup::manager_selector;

use crate::{cluster::Cluster, kinds};

/// Installation of the manager, or the defaults of a future one.
pub(crate) struct Installation {
    /// Namespace of the manager.
    pub(crate) namespace: String,
    /// Name of the manager's ServiceAccount.
    pub(crate) service_account: String,
    /// Flags of the manager. The defaults without a Deployment.
    pub(crate) flags: Flags,
    /// Error of parsing the flags of the Deployment.
    pub(crate) flags_error: Option<String>,
    /// Deployment of the manager. A manager on a workstation has none.
    pub(crate) deployment: Option<Deployment>,
    /// Other namespaces with a Deployment of the manager.
    pub(crate) other_namespaces: Vec<String>,
}

impl Installation {
    /// Finds the installation in the namespace of `--manager-namespace`, or in any namespace.
    ///
    /// # Errors
    /// Returns an error if the Deployments cannot be listed.
    pub(crate) async fn find(cluster: &Cluster) -> Result<Self> {
        let namespace = cluster.config.manager_namespace.as_deref();
        let deployments = list_deployments(cluster, namespace.unwrap_or(NAMESPACE)).await?;
        Self::select(deployments, namespace)
    }

    /// Returns the installation in a namespace, or the first one.
    pub(crate) fn select(deployments: Vec<Deployment>, requested: Option<&str>) -> Result<Self> {
        let is_selected = |deployment: &&Deployment| {
            requested.is_none_or(|requested| deployment.namespace().as_deref() == Some(requested))
        };
        let deployment = deployments.iter().find(is_selected).cloned();
        let namespace = deployment.as_ref().and_then(ResourceExt::namespace);
        let namespace = namespace.unwrap_or_else(|| requested.unwrap_or(NAMESPACE).to_owned());
        let mut other_namespaces: Vec<_> = deployments.iter().filter_map(ResourceExt::namespace).collect();
        other_namespaces.retain(|other| *other != namespace);
        other_namespaces.dedup();
        let pod = deployment.as_ref().and_then(|deployment| deployment.spec.as_ref()?.template.spec.as_ref());
        let service_account = pod.and_then(|pod| pod.service_account_name.clone());
        let (args, env) = pod
            .and_then(|pod| pod.containers.first())
            .map(|main| arguments_and_env(main, &namespace))
            .unwrap_or_default();
        let (flags, flags_error) = match parse_args_and_env(&args, &env) {
            Ok(flags) => (flags, None),
            Err(error) => {
                let flags = parse_args_and_env(&[format!("--namespace={namespace}")], &BTreeMap::new());
                let message = error.to_string().lines().next().unwrap_or_default().to_owned();
                (flags.context("cannot parse the default flags of the manager")?, Some(message))
            }
        };
        let service_account = service_account.unwrap_or_else(|| ACCOUNT.to_owned());
        Ok(Self { namespace, service_account, flags, flags_error, deployment, other_namespaces })
    }

    /// Returns the controllers that the manager runs.
    pub(crate) fn controllers(&self) -> &[Registration] {
        &self.flags.controllers
    }

    /// Returns the kinds of these controllers.
    pub(crate) fn kinds(&self) -> Vec<kinds::Kind> {
        kinds::of(self.controllers()).cloned().collect()
    }

    /// Returns whether the manager serves webhooks.
    pub(crate) fn serves_webhooks(&self) -> bool {
        self.flags.webhook_bind_address.is_some()
    }

    /// Returns whether the manager serves metrics over TLS with authorization.
    pub(crate) fn has_secure_metrics(&self) -> bool {
        self.flags.metrics_bind_address.is_some() && self.flags.metrics_secure
    }

    /// Returns whether the manager has an HTTPS server.
    pub(crate) fn needs_certificate(&self) -> bool {
        self.serves_webhooks() || self.has_secure_metrics()
    }

    /// Returns the namespace of the Leases. `None` without leader election.
    pub(crate) fn lease_namespace(&self) -> Option<&str> {
        self.flags.leader_election.as_ref().map(|election| election.namespace.as_str())
    }
}

/// Lists the Deployments of managers in the cluster.
///
/// Without permission for that, lists those of the namespace, or none.
async fn list_deployments(cluster: &Cluster, namespace: &str) -> Result<Vec<Deployment>> {
    let params = ListParams::default().labels(&manager_selector());
    let everywhere = Api::<Deployment>::all(cluster.client.clone());
    match kinds::list(&everywhere, &params).await {
        Err(error) if is_forbidden(&error) => {}
        listed => return listed.context("cannot list the Deployments of the cluster"),
    }
    let namespaced = Api::<Deployment>::namespaced(cluster.client.clone(), namespace);
    match kinds::list(&namespaced, &params).await {
        Err(error) if is_forbidden(&error) => Ok(Vec::new()),
        listed => listed.with_context(|| format!("cannot list the Deployments of namespace {namespace}")),
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    status(error).is_some_and(kube::core::Status::is_forbidden)
}

/// Returns the arguments and environment variables of a container.
///
/// Variables from ConfigMaps and Secrets are omitted.
fn arguments_and_env(container: &Container, namespace: &str) -> (Vec<String>, BTreeMap<String, String>) {
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
    // The first element of a command is the program.
    let args = container.command.iter().flatten().skip(1).chain(container.args.iter().flatten());
    (args.map(expand).collect(), env)
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
    fn uses_defaults_without_a_deployment() {
        let found = Installation::select(Vec::new(), None).unwrap();
        assert_eq!((&*found.namespace, &*found.service_account), (NAMESPACE, ACCOUNT));
        assert!(names(&found).len() > 3);
        assert_eq!(Installation::select(Vec::new(), Some("here")).unwrap().namespace, "here");
    }

    #[test]
    fn reads_flags_from_arguments_and_environment() {
        let env = json!([
            { "name": "POD_NAMESPACE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } },
            { "name": "ENSEMBLE_CONTROLLERS", "value": "podset" },
        ]);
        let args = ["--leader-elect-resource-namespace=$(POD_NAMESPACE)-leases"];
        let both = vec![
            deployment("a", json!({ "name": "manager", "args": args, "env": env })),
            deployment("b", json!({ "name": "manager" })),
        ];
        let found = Installation::select(both.clone(), None).unwrap();
        assert_eq!(
            (&*found.namespace, &*found.service_account, names(&found)),
            ("a", "someone", vec!["podset"])
        );
        assert_eq!(
            (found.lease_namespace(), found.other_namespaces.clone()),
            (Some("a-leases"), vec!["b".to_owned()])
        );
        let found = Installation::select(both, Some("b")).unwrap();
        assert_eq!((&*found.namespace, found.other_namespaces), ("b", vec!["a".to_owned()]));
    }

    #[test]
    fn unknown_flags_fall_back_to_the_defaults() {
        let newer = vec![deployment("a", json!({ "name": "manager", "args": ["--from-the-future"] }))];
        let found = Installation::select(newer, None).unwrap();
        assert!(found.flags_error.unwrap().contains("--from-the-future"));
        assert_eq!(found.flags.namespace, "a");
    }
}
