//! Builds the items of a spec from the objects that it references. Pure.

use std::str::FromStr;

use capsule::{
    Tenant,
    api::{
        names::{CREATED_BY_LABEL, REPLICATIONS},
        v1beta2::{ReplicatedResources, SourceReference},
    },
};
use kube::core::GroupVersion;
use serde_json::{Map, Value, json};

use super::{GatherError, MAX_BYTES, MAX_ITEMS, Scope, Sources};
use crate::{
    generator::{Context, Generator},
    item::{Item, ItemKey, ObjectId, add_metadata, sanitize, sanitize_copy},
    reference::selector_keys,
    target::{Target, select},
};

/// Origin of copies.
pub(super) const COPY: &str = "replica";

/// Builds all items.
pub(super) fn build(
    resources: &[ReplicatedResources],
    scope: &Scope,
    sources: &Sources,
) -> Result<Vec<Item>, GatherError> {
    let mut items = Items::default();
    for (index, resource) in resources.iter().enumerate() {
        let generators = compile(index, resource)?;
        for target in select(&scope.targets, index, resource.namespace_selector.as_ref())? {
            let place = Place { index, resource, target };
            for object in place.copies(scope, sources)? {
                items.add(place.item(COPY.to_owned(), object)?)?;
            }
            for (number, raw) in resource.raw_items.iter().enumerate() {
                let object = target.tags().json(raw);
                let origin = format!("{index}/raw-{number}");
                items.add(place.item(origin, object.as_object().cloned().unwrap_or_default())?)?;
            }
            let context = if generators.is_empty() { None } else { Some(place.context(scope, sources)?) };
            for (number, generator) in generators.iter().enumerate() {
                let Some(context) = &context else { break };
                let rendered = generator.render(context).map_err(|source| GatherError::Generator {
                    path: generator_path(index, number),
                    source,
                })?;
                for (document, object) in rendered {
                    let origin = format!("{index}/generator-{number}-{document}");
                    items.add(place.item(origin, object.as_object().cloned().unwrap_or_default())?)?;
                }
            }
        }
    }
    Ok(items.items)
}

/// Returns the errors of all templates of a spec, each with its path.
pub(crate) fn template_errors(resources: &[ReplicatedResources]) -> Vec<String> {
    let errors = resources.iter().enumerate().flat_map(|(index, resource)| {
        let compiled = resource.generators.iter().enumerate();
        compiled.filter_map(move |(number, generator)| {
            let error = Generator::compile(&generator.template, generator.missing_key).err()?;
            Some(format!("{}: {error}", generator_path(index, number)))
        })
    });
    errors.collect()
}

fn generator_path(index: usize, number: usize) -> String {
    format!("spec.resources[{index}].generators[{number}].template")
}

fn compile(index: usize, resource: &ReplicatedResources) -> Result<Vec<Generator>, GatherError> {
    let compiled = resource.generators.iter().enumerate().map(|(number, generator)| {
        Generator::compile(&generator.template, generator.missing_key)
            .map_err(|source| GatherError::Generator { path: generator_path(index, number), source })
    });
    compiled.collect()
}

/// Items within the limits.
#[derive(Default)]
struct Items {
    items: Vec<Item>,
    bytes: usize,
}

impl Items {
    fn add(&mut self, item: Item) -> Result<(), GatherError> {
        self.bytes += serde_json::to_vec(&item.object).map_or(0, |text| text.len());
        self.items.push(item);
        if self.items.len() > MAX_ITEMS {
            return Err(GatherError::TooLarge(format!("{MAX_ITEMS} items")));
        }
        if self.bytes > MAX_BYTES {
            return Err(GatherError::TooLarge(format!("{MAX_BYTES} bytes of items")));
        }
        Ok(())
    }
}

/// One entry of `spec.resources` for one target.
struct Place<'p> {
    index: usize,
    resource: &'p ReplicatedResources,
    target: &'p Target,
}

impl Place<'_> {
    /// Returns the copies for the namespace of the target. Copies of copies are left out, and so are
    /// the objects in that namespace itself.
    fn copies(&self, scope: &Scope, sources: &Sources) -> Result<Vec<Map<String, Value>>, GatherError> {
        let Some(namespace) = self.target.namespace_name() else { return Ok(Vec::new()) };
        let mut copies = Vec::new();
        for (number, source) in self.resource.namespaced_items.iter().enumerate() {
            let reference = scope.copied(self.index, number, source, self.target)?;
            let keys = selector_keys(source, &self.target.tags());
            let found = sources.get(&reference).map(|objects| objects.as_slice()).unwrap_or_default();
            let found = found.iter().filter(|object| is_source(object, namespace));
            copies.extend(found.filter_map(Value::as_object).cloned().map(|mut copy| {
                sanitize_copy(&mut copy, &keys);
                copy
            }));
        }
        Ok(copies)
    }

    /// Returns the values for the generators.
    fn context(&self, scope: &Scope, sources: &Sources) -> Result<Context, GatherError> {
        let mut values = Map::new();
        let entries = self.resource.context.iter().flat_map(|context| &context.resources);
        for (number, entry) in entries.enumerate() {
            let source = SourceReference::from(entry);
            let reference = scope.context(self.index, number, &source, self.target)?;
            let objects = sources.get(&reference).map(|objects| objects.to_vec()).unwrap_or_default();
            let name = entry.index.clone().filter(|name| !name.is_empty());
            values.insert(name.unwrap_or_else(|| number.to_string()), objects.into());
        }
        if let Some(tenant) = &self.target.tenant {
            values.insert("tenant".to_owned(), tenant_values(tenant));
        }
        if let Some(namespace) = &self.target.namespace {
            values.insert("namespace".to_owned(), without_managed_fields(json!(namespace.as_ref())));
        }
        Ok(Context::new(&Value::Object(values)))
    }

    /// Returns an item with the additional metadata. For a target with a namespace, the object is
    /// always in that namespace.
    fn item(&self, origin: String, mut object: Map<String, Value>) -> Result<Item, GatherError> {
        sanitize(&mut object);
        let tags = self.target.tags();
        if let Some(metadata) = &self.resource.additional_metadata {
            add_metadata(&mut object, "labels", &tags.map(&metadata.labels));
            add_metadata(&mut object, "annotations", &tags.map(&metadata.annotations));
        }
        let invalid = |message: &str| GatherError::Invalid {
            path: format!("spec.resources[{}] ({origin})", self.index),
            message: message.to_owned(),
        };
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let metadata = object.get("metadata").and_then(Value::as_object);
        let meta = |field: &str| {
            metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
        };
        let version = GroupVersion::from_str(text("apiVersion"))
            .map_err(|_| invalid("apiVersion is invalid; write it as v1 or as group/version"))?;
        let (kind, name) = (text("kind"), meta("name"));
        if !is_path_segment(&version.version) || kind.is_empty() {
            return Err(invalid("apiVersion or kind is missing or invalid"));
        }
        if !version.group.is_empty() && !is_path_segment(&version.group) {
            return Err(invalid("the group in apiVersion is invalid"));
        }
        if name.is_empty() || name.contains(['/', '%', '?']) {
            return Err(invalid("metadata.name is missing or invalid; generateName is not supported"));
        }
        let namespace = self.target.namespace_name().unwrap_or_else(|| meta("namespace"));
        if namespace.contains(['/', '%', '?', '.']) {
            return Err(invalid("metadata.namespace is invalid"));
        }
        let id = ObjectId {
            group: version.group.clone(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let tenant = self.target.tenant_name().to_owned();
        Ok(Item { key: ItemKey { object: id, tenant, origin, version: version.version }, object })
    }
}

/// Returns whether a group or version is one segment of the path of a request.
fn is_path_segment(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    !text.is_empty() && text.bytes().all(is_allowed)
}

fn is_source(object: &Value, target_namespace: &str) -> bool {
    let metadata = object.get("metadata");
    let namespace = metadata.and_then(|metadata| metadata.get("namespace")).and_then(Value::as_str);
    let labels = metadata.and_then(|metadata| metadata.get("labels"));
    let creator = labels.and_then(|labels| labels.get(CREATED_BY_LABEL)).and_then(Value::as_str);
    namespace != Some(target_namespace) && creator != Some(REPLICATIONS)
}

/// Returns the whole Tenant, and `rbac` with the ClusterRoles of each of its subjects.
fn tenant_values(tenant: &Tenant) -> Value {
    let mut values = without_managed_fields(json!(tenant));
    if let Some(fields) = values.as_object_mut() {
        fields.insert("rbac".to_owned(), rbac(tenant));
    }
    values
}

fn rbac(tenant: &Tenant) -> Value {
    let mut roles = std::collections::BTreeMap::<(String, String), std::collections::BTreeSet<String>>::new();
    for owner in tenant.status.iter().flat_map(|status| &status.owners) {
        let kind = json!(owner.kind).as_str().unwrap_or_default().to_owned();
        roles.entry((kind, owner.name.clone())).or_default().extend(owner.cluster_roles.iter().cloned());
    }
    for binding in &tenant.spec.additional_role_bindings {
        for subject in &binding.subjects {
            let key = (subject.kind.clone(), subject.name.clone());
            roles.entry(key).or_default().insert(binding.cluster_role_name.clone());
        }
    }
    let entry = |((kind, name), roles): (&(String, String), &std::collections::BTreeSet<String>)| {
        // Capsule's templates use the names of Go's fields.
        json!({ "Kind": kind, "Name": name, "Roles": roles, "kind": kind, "name": name, "roles": roles })
    };
    roles.iter().map(entry).collect()
}

fn without_managed_fields(mut value: Value) -> Value {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    value
}

#[cfg(test)]
mod tests;
