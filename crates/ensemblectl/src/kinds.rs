//! Our kinds, and the words by which people name them: those that kubectl takes, from the definitions in the code.

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
    admission::configuration::{self, ClientConfig},
    error::status,
};

use crate::{
    connect::Cluster,
    explain::{NoSuchObject, NotInstalled},
};

/// How many objects are asked for at once.
const PAGE: u32 = 500;

/// One of our kinds.
#[derive(Clone)]
pub(crate) struct Kind {
    /// The controller that comes with it.
    pub(crate) controller: Registration,
    /// Its definition, as this version of the program has it.
    pub(crate) definition: CustomResourceDefinition,
}

/// All kinds that there are. The definitions are made once: they are large.
pub(crate) fn all() -> &'static [Kind] {
    static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| {
        // Where the conversions are reached is of no interest here.
        let reach = ClientConfig::Service { namespace: manager::NAMESPACE.to_owned() };
        let of = |controller: &'static Registration| {
            let definitions = configuration::definitions(controller, &reach);
            definitions.into_iter().map(|definition| Kind { controller: *controller, definition })
        };
        CONTROLLERS.iter().flat_map(of).collect()
    });
    &ALL
}

/// The kinds of some controllers.
pub(crate) fn of(controllers: &[Registration]) -> impl Iterator<Item = &'static Kind> {
    all().iter().filter(|kind| controllers.iter().any(|controller| controller.name == kind.controller.name))
}

/// The kind that a word means.
pub(crate) fn find(word: &str) -> Result<Kind> {
    let known = || all().iter().map(|kind| kind.words().join(", ")).collect::<Vec<_>>().join("; ");
    let found = all().iter().find(|kind| kind.is_called(word)).cloned();
    found.with_context(|| format!("`{word}` is none of our kinds; known are {}", known()))
}

/// The kind and name in `KIND NAME` or `KIND/NAME`.
pub(crate) fn find_object(kind: &str, name: Option<&str>) -> Result<(Kind, String)> {
    match (kind.split_once('/'), name) {
        (None, Some(name)) => Ok((find(kind)?, name.to_owned())),
        (Some((kind, name)), None) if !name.is_empty() => Ok((find(kind)?, name.to_owned())),
        (None, None) => bail!("say which object: {kind} NAME"),
        _ => bail!("say which object as KIND NAME or KIND/NAME"),
    }
}

impl Kind {
    /// The name in manifests.
    pub(crate) fn name(&self) -> &str {
        &self.definition.spec.names.kind
    }

    /// Whether its objects live in namespaces.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.definition.spec.scope == "Namespaced"
    }

    /// Whether a controller writes its status, so that an object without one has not been looked at.
    pub(crate) fn is_tended(&self) -> bool {
        let status = format!("{}/status", self.definition.name_any());
        CONTROLLERS.iter().flat_map(|controller| (controller.rules)()).any(|rule| rule.resource() == status)
    }

    /// Words that kubectl takes for it.
    fn words(&self) -> Vec<&str> {
        let names = &self.definition.spec.names;
        let short = names.short_names.iter().flatten();
        [names.plural.as_str()].into_iter().chain(short.map(String::as_str)).collect()
    }

    fn is_called(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let (head, group) =
            word.split_once('.').map_or((word.as_str(), None), |(head, rest)| (head, Some(rest)));
        let own = self.definition.spec.group.as_str();
        let is_group = group.is_none_or(|group| {
            let versioned =
                |version: &CustomResourceDefinitionVersion| group == format!("{}.{own}", version.name);
            group == own || self.definition.spec.versions.iter().any(versioned)
        });
        is_group && (self.words().contains(&head) || self.name().to_lowercase() == head)
    }

    /// The version that is stored.
    pub(crate) fn resource(&self) -> ApiResource {
        let spec = &self.definition.spec;
        let stored = spec.versions.iter().find(|version| version.storage);
        self.resource_in(stored.map_or("", |version| &version.name))
    }

    /// The same kind in one of its versions.
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

    /// Its objects in a namespace; everywhere if it has none or none is given.
    pub(crate) fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) if self.is_namespaced() => {
                Api::namespaced_with(client.clone(), namespace, &self.resource())
            }
            _ => Api::all_with(client.clone(), &self.resource()),
        }
    }

    /// All of its objects; nothing if the API server does not know it.
    pub(crate) async fn list(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> kube::Result<Option<Vec<DynamicObject>>> {
        match list(&self.api(client, namespace), &ListParams::default()).await {
            Ok(objects) => Ok(Some(objects)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An object of the namespace that was asked for.
    ///
    /// # Errors
    /// When there is none, which the error says apart, and when the kind is not installed.
    pub(crate) async fn get(&self, cluster: &Cluster, name: &str) -> Result<DynamicObject> {
        let namespace = cluster.namespace();
        let what = self.describe(namespace, name);
        match self.api(&cluster.client, Some(namespace)).get_opt(name).await {
            Ok(Some(object)) => return Ok(object),
            Err(error) if !is_absent(&error) => {
                return Err(error).with_context(|| format!("cannot read the {what}"));
            }
            Ok(None) | Err(_) => {}
        }
        // Without the definition no object is found, either.
        list_all(cluster, std::slice::from_ref(self), Some(namespace)).await?;
        let place = if self.is_namespaced() { format!(" --namespace {namespace}") } else { String::new() };
        let list = format!("ensemblectl status {}{place}", self.definition.spec.names.plural);
        Err(NoSuchObject { what, list }.into())
    }

    /// An object in words: `PodSet shop/web`.
    pub(crate) fn describe(&self, namespace: &str, name: &str) -> String {
        if self.is_namespaced() {
            format!("{} {namespace}/{name}", self.name())
        } else {
            format!("{} {name}", self.name())
        }
    }
}

/// Whether the API server knows no such object, or no such kind: then it says so in plain text, without a reason.
pub(crate) fn is_absent(error: &kube::Error) -> bool {
    status(error).is_some_and(|status| status.code == 404)
}

/// Lists page by page: an API server need not send everything in one answer.
pub(crate) async fn list<K>(api: &Api<K>, params: &ListParams) -> kube::Result<Vec<K>>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let mut params = ListParams { limit: Some(PAGE), ..params.clone() };
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

/// The objects of several kinds, each with its kind.
///
/// # Errors
/// When one of the kinds cannot be listed, and when the API server knows none of them.
pub(crate) async fn list_all(
    cluster: &Cluster,
    kinds: &[Kind],
    namespace: Option<&str>,
) -> Result<Vec<(Kind, DynamicObject)>> {
    let (mut all, mut is_known) = (Vec::new(), false);
    for kind in kinds {
        let listed = kind.list(&cluster.client, namespace).await;
        let listed = listed.with_context(|| format!("cannot list the {} objects", kind.name()))?;
        is_known |= listed.is_some();
        all.extend(listed.into_iter().flatten().map(|object| (kind.clone(), object)));
    }
    if !is_known {
        let names: Vec<_> = kinds.iter().map(Kind::name).collect();
        return Err(NotInstalled { url: cluster.url.clone(), kinds: names.join(", ") }.into());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_goes_by_all_the_names_that_kubectl_takes() {
        for (word, kind) in [
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
            assert_eq!(find(word).unwrap().name(), kind, "{word}");
        }
        for word in ["pod", "podsets.capsule.clastix.io", "podsets.v9.app.example.com", ""] {
            let error = find(word).err().unwrap().to_string();
            assert!(error.contains("namespacepluses, nsp"), "{error}");
        }
    }

    #[test]
    fn an_object_is_named_in_one_word_or_two() {
        let named = |kind, name| find_object(kind, name).map(|(kind, name)| (kind.name().to_owned(), name));
        assert_eq!(named("podset", Some("web")).unwrap(), ("PodSet".to_owned(), "web".to_owned()));
        assert_eq!(named("podset/web", None).unwrap(), ("PodSet".to_owned(), "web".to_owned()));
        for (kind, name) in [("podset", None), ("podset/web", Some("web")), ("podset/", None)] {
            assert!(named(kind, name).is_err(), "{kind} {name:?}");
        }
    }

    #[test]
    fn kinds_that_nobody_looks_after_are_told_apart() {
        let tended: Vec<_> = all().iter().map(|kind| (kind.name().to_owned(), kind.is_tended())).collect();
        assert!(tended.contains(&("Tenant".to_owned(), true)), "{tended:?}");
        assert!(tended.contains(&("TenantOwner".to_owned(), true)), "{tended:?}");
        assert!(tended.contains(&("RuleStatus".to_owned(), false)), "{tended:?}");
    }
}
