//! Contents of the archive.

use anyhow::{Context, Result};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        coordination::v1::Lease,
        core::v1::{Event, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams},
};
use manager::ca_bundle_targets;
use operator_core::{error::chain, labels::MANAGED_SELECTOR};
use operator_runtime::{certificates::CaBundleTarget, cleanup::manager_selector};
use serde::Serialize;
use serde_json::{Value, json};

use super::{File, redact};
use crate::{
    children::with_type,
    cluster::Cluster,
    installation::Installation,
    kinds::list,
    status::{Row, table_text},
};

/// Number of lines of each log, from its end.
const MAX_LOG_LINES: i64 = 5_000;

/// Files of the archive, and errors of what could not be read.
struct Collection {
    files: Vec<File>,
    errors: Vec<String>,
}

impl Collection {
    /// Adds a file of objects, or the error of reading them.
    fn add(&mut self, path: &str, objects: Result<Vec<Value>>) {
        let written = objects.and_then(|objects| documents(objects.into_iter().map(redact::object)));
        match written {
            Ok(text) => self.files.push(File::new(path, text)),
            Err(error) => self.errors.push(format!("{path}: {}", chain(error.as_ref()))),
        }
    }
}

/// Returns all files except the checks.
pub(super) async fn files(cluster: &Cluster, installation: &Installation) -> Vec<File> {
    let mut collection = Collection {
        files: vec![File::new("versions.txt", versions(cluster, installation))],
        errors: Vec::new(),
    };
    objects(cluster, installation, &mut collection).await;
    collection.add("crds.yaml", crds(cluster, installation).await);
    collection.add("webhooks.yaml", webhooks(cluster, installation).await);
    let deployment = installation.deployment.iter().map(serde_json::to_value).collect::<Result<_, _>>();
    collection.add("deployment.yaml", deployment.context("cannot write the Deployment"));
    if let Some(namespace) = installation.lease_namespace() {
        let leases = Api::<Lease>::namespaced(cluster.client.clone(), namespace);
        collection.add("leases.yaml", values(&leases, ListParams::default().labels(MANAGED_SELECTOR)).await);
    }
    collection.add("events.yaml", events(cluster, installation).await);
    pods(cluster, installation, &mut collection).await;
    let Collection { mut files, errors } = collection;
    if !errors.is_empty() {
        files.push(File::new("errors.txt", errors.join("\n") + "\n"));
    }
    files
}

fn versions(cluster: &Cluster, installation: &Installation) -> String {
    let controllers: Vec<_> = installation.controllers().iter().map(|controller| controller.name).collect();
    format!(
        "ensemblectl {}\nKubernetes {} ({})\ntime of the API server {}\nmanager namespace {}\ncontrollers {}\n",
        env!("CARGO_PKG_VERSION"),
        cluster.version.git_version,
        cluster.version.platform,
        cluster.now(),
        installation.namespace,
        controllers.join(", ")
    )
}

/// Adds the objects of each kind in a file, and a table of all objects.
async fn objects(cluster: &Cluster, installation: &Installation, collection: &mut Collection) {
    let mut rows = Vec::new();
    for kind in installation.kinds() {
        let path = format!("objects/{}.yaml", kind.definition.name_any());
        let listed = kind.list(&cluster.client, None).await;
        let listed = listed
            .with_context(|| format!("cannot list the {} objects", kind.name()))
            .map(Option::unwrap_or_default);
        rows.extend(listed.iter().flatten().map(|object| Row::of(&kind, object)));
        let resource = kind.resource();
        let typed = listed.and_then(|objects| {
            let typed: Vec<_> = objects.into_iter().map(|object| with_type(object, &resource)).collect();
            to_values(&typed)
        });
        collection.add(&path, typed);
    }
    let table = table_text(&rows, cluster.now());
    collection.files.push(File::new("status.txt", anstream::adapter::strip_str(&table).to_string()));
}

/// Returns the CustomResourceDefinitions without their schemas.
async fn crds(cluster: &Cluster, installation: &Installation) -> Result<Vec<Value>> {
    let api = Api::<CustomResourceDefinition>::all(cluster.client.clone());
    let mut all = Vec::new();
    for kind in installation.kinds() {
        let name = kind.definition.name_any();
        let found = api
            .get_opt(&name)
            .await
            .with_context(|| format!("cannot read the CustomResourceDefinition {name}"))?;
        all.extend(found.map(|found| {
            let versions: Vec<_> = found.spec.versions.iter().map(|version| json!({ "name": version.name, "served": version.served, "storage": version.storage })).collect();
            json!({ "metadata": found.metadata, "spec": { "versions": versions, "conversion": found.spec.conversion }, "status": found.status })
        }));
    }
    Ok(all)
}

/// Returns the webhook configurations with the names of our controllers.
async fn webhooks(cluster: &Cluster, installation: &Installation) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for target in ca_bundle_targets(installation.controllers()) {
        let found = match &target {
            CaBundleTarget::Validating(name) => {
                let api = Api::<ValidatingWebhookConfiguration>::all(cluster.client.clone());
                api.get_opt(name)
                    .await
                    .with_context(|| format!("cannot read the webhook configuration {name}"))?
                    .map(serde_json::to_value)
            }
            CaBundleTarget::Mutating(name) => {
                let api = Api::<MutatingWebhookConfiguration>::all(cluster.client.clone());
                api.get_opt(name)
                    .await
                    .with_context(|| format!("cannot read the webhook configuration {name}"))?
                    .map(serde_json::to_value)
            }
            CaBundleTarget::Conversion(_) => None,
        };
        all.extend(found.transpose()?);
    }
    Ok(all)
}

/// Returns the Events about our objects, and those in the manager's namespace.
async fn events(cluster: &Cluster, installation: &Installation) -> Result<Vec<Value>> {
    let groups: Vec<_> = installation.kinds().into_iter().map(|kind| kind.definition.spec.group).collect();
    let api = Api::<Event>::all(cluster.client.clone());
    let events = list(&api, &ListParams::default()).await.context("cannot list the Events of the cluster")?;
    let is_ours = |event: &Event| {
        let group = event.involved_object.api_version.as_deref().and_then(|version| version.split_once('/'));
        group.is_some_and(|(group, _)| groups.iter().any(|own| own == group))
            || event.namespace().as_ref() == Some(&installation.namespace)
    };
    events.iter().filter(|event| is_ours(event)).map(|event| Ok(serde_json::to_value(event)?)).collect()
}

/// Adds the Pods of the manager and their logs.
async fn pods(cluster: &Cluster, installation: &Installation, collection: &mut Collection) {
    let api = Api::<Pod>::namespaced(cluster.client.clone(), &installation.namespace);
    let params = ListParams::default().labels(&manager_selector());
    let pods = list(&api, &params).await.context("cannot list the Pods of the manager");
    for pod in pods.iter().flatten() {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        for container in containers {
            let (pod, container) = (pod.name_any(), container.name.clone());
            for previous in [false, true] {
                let params = LogParams {
                    container: Some(container.clone()),
                    previous,
                    tail_lines: Some(MAX_LOG_LINES),
                    timestamps: true,
                    ..LogParams::default()
                };
                let path = format!("logs/{pod}.{container}{}.log", if previous { ".previous" } else { "" });
                match api.logs(&pod, &params).await {
                    Ok(log) => collection.files.push(File::new(&path, log)),
                    // Most containers have not been restarted, and have no previous log.
                    Err(_) if previous => {}
                    Err(error) => collection.errors.push(format!("{path}: {}", chain(&error))),
                }
            }
        }
    }
    collection.add("pods.yaml", pods.and_then(|pods| to_values(&pods)));
}

async fn values<K>(api: &Api<K>, params: ListParams) -> Result<Vec<Value>>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Serialize,
{
    let what = api.resource_url().to_owned();
    to_values(&list(api, &params).await.with_context(|| format!("cannot list {what}"))?)
}

fn to_values<K: Serialize>(objects: &[K]) -> Result<Vec<Value>> {
    objects.iter().map(|object| Ok(serde_json::to_value(object)?)).collect()
}

/// Formats objects as the documents of one YAML file.
fn documents(objects: impl Iterator<Item = Value>) -> Result<String> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&object).context("cannot write an object as YAML")?);
    }
    Ok(text)
}
