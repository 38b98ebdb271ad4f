//! The kinds of Ensemble and their names, from the CustomResourceDefinitions of the manager.

use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
};
use manager::CONTROLLERS;
use operator_core::{
    Registration,
    error::status,
    manifests::webhooks::{self, ClientConfig},
};

use crate::{
    cluster::Cluster,
    errors::{NoSuchObject, NotInstalled},
};

/// Page size of lists.
const PAGE_SIZE: u32 = 500;

/// Kind of Ensemble.
#[derive(Clone)]
pub(crate) struct Kind {
    /// Controller that defines the kind.
    pub(crate) controller: Registration,
    /// CustomResourceDefinition of this version of the program.
    pub(crate) definition: CustomResourceDefinition,
}

/// Returns all kinds. The CustomResourceDefinitions are large and therefore built once.
pub(crate) fn all() -> &'static [Kind] {
    static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| {
        // The address of the conversion webhook is not used.
        let client_config = ClientConfig::Service { namespace: manager::NAMESPACE.to_owned() };
        let of = |controller: &'static Registration| {
            let definitions = webhooks::definitions(controller, &client_config);
            definitions.into_iter().map(|definition| Kind { controller: *controller, definition })
        };
        CONTROLLERS.iter().flat_map(of).collect()
    });
    &ALL
}

/// Returns the kinds of some controllers.
pub(crate) fn of(controllers: &[Registration]) -> impl Iterator<Item = &'static Kind> {
    all().iter().filter(|kind| controllers.iter().any(|controller| controller.name == kind.controller.name))
}

/// Returns the kind with this name, as kubectl accepts it: singular, plural, short, or qualified.
pub(crate) fn find(name: &str) -> Result<Kind> {
    let known = || all().iter().map(|kind| kind.plural_and_short_names().join(", ")).collect::<Vec<_>>();
    let found = all().iter().find(|kind| kind.matches_name(name)).cloned();
    found.with_context(|| format!("`{name}` is not a kind of Ensemble; use one of {}", known().join("; ")))
}

/// Parses `KIND NAME` or `KIND/NAME`.
pub(crate) fn find_object(kind: &str, name: Option<&str>) -> Result<(Kind, String)> {
    match (kind.split_once('/'), name) {
        (None, Some(name)) => Ok((find(kind)?, name.to_owned())),
        (Some((kind, name)), None) if !name.is_empty() => Ok((find(kind)?, name.to_owned())),
        (None, None) => bail!("the name of the object is missing; use {kind} NAME"),
        _ => bail!("invalid object name; use KIND NAME or KIND/NAME"),
    }
}

impl Kind {
    /// Returns the `kind` of manifests.
    pub(crate) fn name(&self) -> &str {
        &self.definition.spec.names.kind
    }

    /// Returns whether the kind is namespaced.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.definition.spec.scope == "Namespaced"
    }

    /// Returns whether a controller writes the status of the kind.
    pub(crate) fn has_controller(&self) -> bool {
        let status = format!("{}/status", self.definition.name_any());
        CONTROLLERS.iter().flat_map(|controller| (controller.rules)()).any(|rule| rule.resource() == status)
    }

    fn plural_and_short_names(&self) -> Vec<&str> {
        let names = &self.definition.spec.names;
        let short = names.short_names.iter().flatten();
        [names.plural.as_str()].into_iter().chain(short.map(String::as_str)).collect()
    }

    fn matches_name(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let (head, group) =
            name.split_once('.').map_or((name.as_str(), None), |(head, rest)| (head, Some(rest)));
        let own = self.definition.spec.group.as_str();
        let is_group = group.is_none_or(|group| {
            let versioned =
                |version: &CustomResourceDefinitionVersion| group == format!("{}.{own}", version.name);
            group == own || self.definition.spec.versions.iter().any(versioned)
        });
        is_group && (self.plural_and_short_names().contains(&head) || self.name().to_lowercase() == head)
    }

    /// Returns the kind in its storage version.
    pub(crate) fn resource(&self) -> ApiResource {
        let spec = &self.definition.spec;
        let stored = spec.versions.iter().find(|version| version.storage);
        self.resource_in(stored.map_or("", |version| &version.name))
    }

    /// Returns the kind in one of its versions.
    pub(crate) fn resource_in(&self, version: &str) -> ApiResource {
        let spec = &self.definition.spec;
        ApiResource {
            group: spec.group.clone(),
            version: version.to_owned(),
            api_version: format!("{}/{version}", spec.group),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        }
    }

    /// Returns the API of the kind in a namespace.
    ///
    /// Returns the API of all namespaces if the kind is cluster-scoped or `namespace` is `None`.
    pub(crate) fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) if self.is_namespaced() => {
                Api::namespaced_with(client.clone(), namespace, &self.resource())
            }
            _ => Api::all_with(client.clone(), &self.resource()),
        }
    }

    /// Lists the objects of the kind. Returns `None` if the API server does not serve it.
    pub(crate) async fn list(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> kube::Result<Option<Vec<DynamicObject>>> {
        match list(&self.api(client, namespace), &ListParams::default()).await {
            Ok(objects) => Ok(Some(objects)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gets an object from the namespace of the flags.
    ///
    /// # Errors
    /// Returns [`NoSuchObject`] if the object does not exist, and [`NotInstalled`] if the API server
    /// does not serve the kind.
    pub(crate) async fn get(&self, cluster: &Cluster, name: &str) -> Result<DynamicObject> {
        let namespace = cluster.namespace();
        let what = self.describe(namespace, name);
        match self.api(&cluster.client, Some(namespace)).get_opt(name).await {
            Ok(Some(object)) => return Ok(object),
            Err(error) if !is_not_found(&error) => {
                return Err(error).with_context(|| format!("cannot read the {what}"));
            }
            Ok(None) | Err(_) => {}
        }
        // The response is the same if the kind is not served. The list distinguishes the two.
        list_all(cluster, std::slice::from_ref(self), Some(namespace)).await?;
        let flag = if self.is_namespaced() { format!(" --namespace {namespace}") } else { String::new() };
        let list = format!("ensemblectl status {}{flag}", self.definition.spec.names.plural);
        Err(NoSuchObject { what, list }.into())
    }

    /// Returns the kind and key of an object, for example `PodSet shop/web`.
    pub(crate) fn describe(&self, namespace: &str, name: &str) -> String {
        if self.is_namespaced() {
            format!("{} {namespace}/{name}", self.name())
        } else {
            format!("{} {name}", self.name())
        }
    }
}

/// Returns whether the object does not exist or the API server does not serve its kind.
///
/// For a kind that is not served, the response has no reason, only the status code.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    status(error).is_some_and(|status| status.code == 404)
}

/// Lists objects page by page.
pub(crate) async fn list<K>(api: &Api<K>, params: &ListParams) -> kube::Result<Vec<K>>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let mut params = ListParams { limit: Some(PAGE_SIZE), ..params.clone() };
    let mut all = Vec::new();
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}

/// Lists the objects of several kinds, each with its kind.
///
/// # Errors
/// Returns an error if a kind cannot be listed, and [`NotInstalled`] if the API server serves none.
pub(crate) async fn list_all(
    cluster: &Cluster,
    kinds: &[Kind],
    namespace: Option<&str>,
) -> Result<Vec<(Kind, DynamicObject)>> {
    let (mut all, mut is_served) = (Vec::new(), false);
    for kind in kinds {
        let listed = kind.list(&cluster.client, namespace).await;
        let listed = listed.with_context(|| format!("cannot list the {} objects", kind.name()))?;
        is_served |= listed.is_some();
        all.extend(listed.into_iter().flatten().map(|object| (kind.clone(), object)));
    }
    if !is_served {
        let names: Vec<_> = kinds.iter().map(Kind::name).collect();
        return Err(NotInstalled { url: cluster.url.clone(), kinds: names.join(", ") }.into());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_kinds_by_all_names_that_kubectl_accepts() {
        for (name, kind) in [
            ("podset", "PodSet"),
            ("PodSets", "PodSet"),
            ("podsets.app.example.com", "PodSet"),
            ("podsets.v1alpha1.app.example.com", "PodSet"),
            ("nsp", "NamespacePlus"),
            ("NamespacePlus", "NamespacePlus"),
            ("namespacepluses", "NamespacePlus"),
            ("tnt", "Tenant"),
            ("tenants.v1beta1.capsule.clastix.io", "Tenant"),
        ] {
            assert_eq!(find(name).unwrap().name(), kind, "{name}");
        }
        for name in ["pod", "podsets.capsule.clastix.io", "podsets.v9.app.example.com", ""] {
            let error = find(name).err().unwrap().to_string();
            assert!(error.contains("namespacepluses, nsp"), "{error}");
        }
    }

    #[test]
    fn parses_objects_as_one_or_two_arguments() {
        let parse = |kind, name| find_object(kind, name).map(|(kind, name)| (kind.name().to_owned(), name));
        assert_eq!(parse("podset", Some("web")).unwrap(), ("PodSet".to_owned(), "web".to_owned()));
        assert_eq!(parse("podset/web", None).unwrap(), ("PodSet".to_owned(), "web".to_owned()));
        for (kind, name) in [("podset", None), ("podset/web", Some("web")), ("podset/", None)] {
            assert!(parse(kind, name).is_err(), "{kind} {name:?}");
        }
    }

    #[test]
    fn distinguishes_kinds_with_and_without_controller() {
        let kinds: Vec<_> =
            all().iter().map(|kind| (kind.name().to_owned(), kind.has_controller())).collect();
        assert!(kinds.contains(&("Tenant".to_owned(), true)), "{kinds:?}");
        assert!(kinds.contains(&("TenantOwner".to_owned(), true)), "{kinds:?}");
        assert!(kinds.contains(&("RuleStatus".to_owned(), false)), "{kinds:?}");
    }
}
