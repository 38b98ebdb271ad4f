//! The bill of materials: every crate that is linked into the manager, in CycloneDX.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use cluster::program::cargo_in;
use serde::Deserialize;
use serde_json::{Value, json};

use super::build::target;
use crate::workspace;

/// The package whose program is in the image.
const PROGRAM: &str = "manager";

/// What `cargo metadata` tells, as far as it is read.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

/// Nothing for what is linked, `build` or `dev` for the rest.
#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

/// The bill, as JSON.
///
/// # Errors
/// When cargo cannot tell what the program depends on.
pub(super) fn write() -> Result<String> {
    let mut cargo = cargo_in(&workspace());
    cargo.args(["metadata", "--locked", "--format-version=1", "--filter-platform", &target()]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo cannot tell what the manager depends on");
    let metadata = serde_json::from_slice(&output.stdout).context("cannot read what cargo tells")?;
    let bill = bill(&metadata).context("cargo knows of no package `manager`")?;
    serde_json::to_string_pretty(&bill).context("cannot write the bill of materials")
}

fn bill(metadata: &Metadata) -> Option<Value> {
    let program = metadata.packages.iter().find(|package| package.name == PROGRAM)?;
    let linked = linked(metadata, &program.id);
    let mut parts: Vec<_> =
        metadata.packages.iter().filter(|package| linked.contains(&*package.id)).collect();
    parts.sort_by_key(|package| (&package.name, &package.version));
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component("application", program) },
        "components": parts.iter().map(|package| component("library", package)).collect::<Vec<_>>(),
    }))
}

/// The packages that are linked into one, without itself. Procedural macros are among them: cargo does not tell them apart here.
fn linked<'a>(metadata: &'a Metadata, from: &'a str) -> BTreeSet<&'a str> {
    let nodes: BTreeMap<_, _> = metadata.resolve.nodes.iter().map(|node| (&*node.id, &node.deps)).collect();
    let mut found = BTreeSet::new();
    let mut ahead = vec![from];
    while let Some(id) = ahead.pop() {
        for dependency in nodes.get(id).into_iter().flat_map(|dependencies| dependencies.iter()) {
            let is_linked = dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
            if is_linked && found.insert(&*dependency.pkg) {
                ahead.push(&dependency.pkg);
            }
        }
    }
    found
}

fn component(kind: &str, package: &Package) -> Value {
    let Package { name, version, license, .. } = package;
    let address = format!("pkg:cargo/{name}@{version}");
    // The older way of saying "or" is a stroke.
    let licenses: Vec<_> =
        license.iter().map(|license| json!({ "expression": license.replace('/', " OR ") })).collect();
    json!({
        "type": kind, "name": name, "version": version, "bom-ref": address, "purl": address, "licenses": licenses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_lists_what_is_linked_and_nothing_else() {
        let package =
            |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let node = |id: &str, on: &[(&str, Option<&str>)]| {
            let deps: Vec<_> =
                on.iter().map(|(pkg, kind)| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] })).collect();
            json!({ "id": id, "deps": deps })
        };
        let metadata = json!({
            "packages": [package("b"), package("manager"), package("a"), package("builds"), package("tests"), package("apart")],
            "resolve": { "nodes": [
                node("manager", &[("b", None), ("tests", Some("dev")), ("builds", Some("build"))]),
                node("b", &[("a", None)]), node("a", &[]), node("tests", &[("apart", None)]),
            ] },
        });
        let bill = bill(&serde_json::from_value(metadata).unwrap()).unwrap();
        let names: Vec<_> = bill["components"].as_array().unwrap().iter().map(|part| &part["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["metadata"]["component"]["name"], "manager");
    }
}
