//! Crates that the programs of the image are built from, according to `cargo metadata`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use cluster::program::{cargo_in, workspace};
use semver::Version;
use serde::Deserialize;

use super::platform::Platform;

/// A program of the image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Program {
    /// Its package.
    pub(super) package: &'static str,
    /// Its name, which is that of its file in the image.
    pub(super) name: &'static str,
}

/// The program that the image runs.
pub(super) const MANAGER: Program = Program { package: "manager", name: "ensemble-manager" };
/// The program that Pods of a PostgresCluster copy out of the image.
pub(super) const INSTANCE: Program = Program { package: "postgres-instance", name: "ensemble-instance" };
/// The program of the proxy, which has a Deployment of its own.
pub(super) const PROXY: Program = Program { package: "tenant-proxy", name: "ensemble-proxy" };

/// All crates of the build of one program, including its own.
pub(super) struct Packages {
    /// What is built from them.
    pub(super) program: Program,
    /// Crates, sorted by name and version.
    pub(super) crates: Vec<Crate>,
    /// Target folder of cargo.
    pub(super) target_folder: PathBuf,
    /// Folders with the sources of other crates: one for each registry, or the vendored folder.
    pub(super) sources: BTreeSet<PathBuf>,
}

/// Crate of the build.
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: Version,
    /// Source as cargo reports it. `None` for crates of this workspace.
    pub(super) source: Option<String>,
    pub(super) license: Option<String>,
    pub(super) role: Role,
    /// Indexes of its dependencies in [`Packages::crates`].
    pub(super) dependencies: Vec<usize>,
}

/// Role of a crate in the build.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Role {
    /// Program of the image.
    Program,
    /// Linked into the program.
    Linked,
    /// Used only during the build: build scripts, procedural macros, and their dependencies.
    Build,
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

/// Kind of a dependency: `None` for normal ones, `build`, or `dev`.
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
    fn is(&self, predicate: fn(Option<&str>) -> bool) -> bool {
        self.dep_kinds.iter().any(|kind| predicate(kind.kind.as_deref()))
    }
}

/// Returns the crates of each program for a platform.
///
/// # Errors
/// Returns an error if `cargo metadata` fails.
pub(super) fn packages(platform: Platform) -> Result<[Packages; 3]> {
    let mut cargo = cargo_in(&workspace());
    cargo.args(["metadata", "--locked", "--format-version=1", "--filter-platform", &platform.target()]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cannot determine the dependencies of the programs: cargo metadata failed"
    );
    let of = |program: Program| {
        let metadata =
            serde_json::from_slice(&output.stdout).context("cannot parse the output of cargo metadata")?;
        from_metadata(program, metadata)
            .with_context(|| format!("the workspace has no package {}", program.package))
    };
    Ok([of(MANAGER)?, of(INSTANCE)?, of(PROXY)?])
}

/// Returns the crates of the program, or `None` if the metadata does not contain it.
pub(super) fn from_metadata(of: Program, metadata: Metadata) -> Option<Packages> {
    let Metadata { mut packages, resolve, target_directory } = metadata;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&*node.id, &*node.deps)).collect();
    let program = packages.iter().find(|package| package.name == of.package)?.id.clone();
    let macros: BTreeSet<_> =
        packages.iter().filter(|package| package.is_macro()).map(|package| package.id.clone()).collect();
    let all = reachable(&nodes, &program, |on| on.is(|kind| kind != Some("dev")));
    let linked = reachable(&nodes, &program, |on| on.is(|kind| kind.is_none()) && !macros.contains(&on.pkg));
    packages.retain(|package| all.contains(&*package.id));
    packages.sort_by(|one, other| {
        (&one.name, &one.version, &one.id).cmp(&(&other.name, &other.version, &other.id))
    });
    let others = packages.iter().filter(|package| package.source.is_some());
    let sources =
        others.filter_map(|package| package.manifest_path.ancestors().nth(2)).map(PathBuf::from).collect();
    let indexes: BTreeMap<_, _> =
        packages.iter().enumerate().map(|(index, package)| (package.id.clone(), index)).collect();
    let to_crate = |package: Package| {
        let on = nodes.get(&*package.id).into_iter().flat_map(|on| on.iter());
        let dependencies: BTreeSet<_> = on
            .filter(|on| on.is(|kind| kind != Some("dev")))
            .filter_map(|on| indexes.get(&on.pkg).copied())
            .collect();
        let role = match &*package.id {
            id if id == program => Role::Program,
            id if linked.contains(id) => Role::Linked,
            _ => Role::Build,
        };
        let Package { name, version, source, license, .. } = package;
        Crate { name, version, source, license, role, dependencies: dependencies.into_iter().collect() }
    };
    Some(Packages {
        program: of,
        crates: packages.into_iter().map(to_crate).collect(),
        target_folder: target_directory,
        sources,
    })
}

/// Returns a package and all packages that are reachable by dependencies that match a predicate.
fn reachable<'a>(
    nodes: &BTreeMap<&'a str, &'a [Dependency]>,
    from: &'a str,
    predicate: impl Fn(&Dependency) -> bool,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::from([from]);
    let mut queue = vec![from];
    while let Some(id) = queue.pop() {
        for on in nodes.get(id).into_iter().flat_map(|on| on.iter()).filter(|on| predicate(on)) {
            if found.insert(&on.pkg) {
                queue.push(&on.pkg);
            }
        }
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a manager that links b, which links a and uses the macro `derives`, with a build
    /// script and tests.
    pub(in super::super) fn example() -> Packages {
        let package = |name: &str, kind: &str| {
            json!({
                "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "targets": [{ "kind": [kind] }],
                "manifest_path": format!("/home/user/registry/{name}-1.0.0/Cargo.toml"),
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
        from_metadata(MANAGER, serde_json::from_value(metadata).unwrap()).unwrap()
    }

    #[test]
    fn sources_are_folders_of_registries() {
        assert_eq!(example().sources, BTreeSet::from([PathBuf::from("/home/user/registry")]));
    }

    #[test]
    fn crates_have_roles_and_exclude_dev_dependencies() {
        let roles: Vec<_> =
            example().crates.into_iter().map(|one| (one.name, one.role, one.dependencies)).collect();
        let expected = [
            ("a", Role::Linked, vec![]),
            ("b", Role::Linked, vec![0, 3]),
            ("builds", Role::Build, vec![]),
            ("derives", Role::Build, vec![5]),
            ("manager", Role::Program, vec![1, 2]),
            ("syntax", Role::Build, vec![]),
        ];
        assert_eq!(roles, expected.map(|(name, role, dependencies)| (name.to_owned(), role, dependencies)));
    }
}
