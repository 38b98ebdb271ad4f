//! Programs that tests run, and the tests, share the build of their dependencies.

use std::collections::BTreeSet;

use cluster::program::{cargo_in, workspace};

/// Packages that tests build with cargo.
const BUILT: [&str; 4] = ["xtask", "manager", "ensemblectl", "postgres-instance"];

/// Returns the dependencies that cargo selects, with their features.
fn selected(args: &[&str]) -> BTreeSet<String> {
    let mut cargo = cargo_in(&workspace());
    cargo.args(["tree", "--offline", "--prefix=none", "--format={p} with {f}"]).args(args);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// Otherwise `cargo xtask test` builds most dependencies twice.
#[test]
fn programs_have_no_dependency_with_other_features_than_the_tests() {
    let tests = selected(&["--workspace", "--edges=normal,build,dev"]);
    for package in BUILT {
        let program = selected(&["--package=xtask", &format!("--package={package}"), "--edges=normal,build"]);
        let only: Vec<_> = program.difference(&tests).collect();
        assert!(only.is_empty(), "add the features that are missing to xtask/Cargo.toml: {only:#?}");
    }
}
