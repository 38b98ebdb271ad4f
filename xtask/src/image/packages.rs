//! What the manager is built from: every crate, as `cargo metadata` tells of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use cluster::program::cargo_in;
use semver::Version;
use serde::Deserialize;

use super::platform::Platform;
use crate::workspace;

/// The package whose program is in the image.
const PROGRAM: &str = "manager";

/// All crates that take part, the program's own among them, by name and version.
pub(super) struct Packages {
    pub(super) parts: Vec<Part>,
    /// Where cargo puts what it builds.
    pub(super) target_folder: PathBuf,
    /// The folders in which the sources of others' crates are: one for each registry, or where they are vendored.
    pub(super) sources: BTreeSet<PathBuf>,
}

/// A crate.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) version: Version,
    /// Where it is from, as cargo says it. Nothing for those of this workspace.
    pub(super) source: Option<String>,
    pub(super) license: Option<String>,
    pub(super) role: Role,
    /// Which crates it needs, by their place among the parts.
    pub(super) needs: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Role {
    /// What the image is made for.
    Program,
    /// Is in the program.
    Linked,
    /// Is run to build it: build scripts, procedural macros and what those need.
    Builds,
}

#[derive(Deserialize)]
pub(super) struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: Version,
    source: Option<String>,
    license: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
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

impl Package {
    fn is_macro(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "proc-macro"))
    }
}

impl Dependency {
    fn is(&self, wanted: fn(Option<&str>) -> bool) -> bool {
        self.dep_kinds.iter().any(|kind| wanted(kind.kind.as_deref()))
    }
}

/// The crates of the manager for a machine.
///
/// # Errors
/// When cargo cannot tell.
pub(super) fn packages(platform: Platform) -> Result<Packages> {
    let mut cargo = cargo_in(&workspace());
    cargo.args(["metadata", "--locked", "--format-version=1", "--filter-platform", &platform.target()]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo cannot tell what the manager depends on");
    let metadata = serde_json::from_slice(&output.stdout).context("cannot read what cargo tells")?;
    sorted(metadata).with_context(|| format!("cargo knows of no package {PROGRAM}"))
}

/// Nothing if the program is not among them.
pub(super) fn sorted(metadata: Metadata) -> Option<Packages> {
    let Metadata { mut packages, resolve, target_directory } = metadata;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&*node.id, &*node.deps)).collect();
    let program = packages.iter().find(|package| package.name == PROGRAM)?.id.clone();
    let macros: BTreeSet<_> =
        packages.iter().filter(|package| package.is_macro()).map(|package| package.id.clone()).collect();
    let all = reached(&nodes, &program, |on| on.is(|kind| kind != Some("dev")));
    let linked = reached(&nodes, &program, |on| on.is(|kind| kind.is_none()) && !macros.contains(&on.pkg));
    packages.retain(|package| all.contains(&*package.id));
    packages.sort_by(|one, other| {
        (&one.name, &one.version, &one.id).cmp(&(&other.name, &other.version, &other.id))
    });
    let others = packages.iter().filter(|package| package.source.is_some());
    let sources =
        others.filter_map(|package| package.manifest_path.ancestors().nth(2)).map(PathBuf::from).collect();
    let places: BTreeMap<_, _> =
        packages.iter().enumerate().map(|(place, package)| (package.id.clone(), place)).collect();
    let part = |package: Package| {
        let on = nodes.get(&*package.id).into_iter().flat_map(|on| on.iter());
        let needed: BTreeSet<_> = on
            .filter(|on| on.is(|kind| kind != Some("dev")))
            .filter_map(|on| places.get(&on.pkg).copied())
            .collect();
        let role = match &*package.id {
            id if id == program => Role::Program,
            id if linked.contains(id) => Role::Linked,
            _ => Role::Builds,
        };
        let Package { name, version, source, license, .. } = package;
        Part { name, version, source, license, role, needs: needed.into_iter().collect() }
    };
    Some(Packages {
        parts: packages.into_iter().map(part).collect(),
        target_folder: target_directory,
        sources,
    })
}

/// One package and all to which such dependencies lead.
fn reached<'a>(
    nodes: &BTreeMap<&'a str, &'a [Dependency]>,
    from: &'a str,
    counts: impl Fn(&Dependency) -> bool,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::from([from]);
    let mut ahead = vec![from];
    while let Some(id) = ahead.pop() {
        for on in nodes.get(id).into_iter().flat_map(|on| on.iter()).filter(|on| counts(on)) {
            if found.insert(&on.pkg) {
                ahead.push(&on.pkg);
            }
        }
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A manager that links b, which links a and derives; with a build script and tests.
    pub(in super::super) fn example() -> Packages {
        let package = |name: &str, kind: &str| {
            json!({
                "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "targets": [{ "kind": [kind] }],
                "manifest_path": format!("/home/somebody/registry/{name}-1.0.0/Cargo.toml"),
                "source": "registry+https://github.com/rust-lang/crates.io-index",
            })
        };
        let node = |id: &str, on: &[(&str, Option<&str>)]| {
            let deps: Vec<_> =
                on.iter().map(|(pkg, kind)| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] })).collect();
            json!({ "id": id, "deps": deps })
        };
        let mut packages: Vec<Value> = ["b", "manager", "a", "builds", "tests", "apart", "syntax"]
            .map(|name| package(name, "lib"))
            .into();
        packages.push(package("derives", "proc-macro"));
        let metadata = json!({
            "target_directory": "/target",
            "packages": packages,
            "resolve": { "nodes": [
                node("manager", &[("b", None), ("tests", Some("dev")), ("builds", Some("build"))]),
                node("b", &[("a", None), ("derives", None)]), node("derives", &[("syntax", None)]),
                node("tests", &[("apart", None)]),
            ] },
        });
        sorted(serde_json::from_value(metadata).unwrap()).unwrap()
    }

    #[test]
    fn the_folder_of_sources_is_the_one_that_all_crates_of_a_registry_are_in() {
        assert_eq!(example().sources, BTreeSet::from([PathBuf::from("/home/somebody/registry")]));
    }

    #[test]
    fn what_is_linked_is_told_from_what_builds_and_from_what_does_not_take_part() {
        let roles: Vec<_> =
            example().parts.into_iter().map(|part| (part.name, part.role, part.needs)).collect();
        let expected = [
            ("a", Role::Linked, vec![]),
            ("b", Role::Linked, vec![0, 3]),
            ("builds", Role::Builds, vec![]),
            ("derives", Role::Builds, vec![5]),
            ("manager", Role::Program, vec![1, 2]),
            ("syntax", Role::Builds, vec![]),
        ];
        assert_eq!(roles, expected.map(|(name, role, needs)| (name.to_owned(), role, needs)));
    }
}
