//! A new controller works as it is written, in a copy of this workspace.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

/// A copy of the workspace, below the target folder.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Copies what git knows or would know. The times of the files are kept, so that cargo finds what it has built
    /// of them the last time.
    fn make() -> Self {
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let target = Path::new(XTASK).ancestors().nth(2).unwrap().to_owned();
        let root = target.join("new-controller").join("workspace");
        if root.exists() {
            fs::remove_dir_all(&root).unwrap();
        }
        let mut git = Command::new("git");
        git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(original);
        for path in run(&mut git).lines().filter(|path| original.join(path).is_file()) {
            let (from, to) = (original.join(path), root.join(path));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&from, &to).unwrap();
            File::options().write(true).open(&to).unwrap().set_modified(modified(&from)).unwrap();
        }
        // Cargo tells a crate of the copy from the one that it was copied from by its version only.
        let (manifest, ours) =
            (root.join("Cargo.toml"), format!("version = \"{}\"\n", env!("CARGO_PKG_VERSION")));
        let text = fs::read_to_string(&manifest).unwrap();
        assert_eq!(text.matches(&ours).count(), 1, "the version of all crates");
        fs::write(manifest, text.replace(&ours, "version = \"0.0.0-copy\"\n")).unwrap();
        Self { root, target }
    }

    /// A program to run in the copy. It builds into the very folder that this test was built into, where the
    /// dependencies are, but puts programs into one of its own.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.root)
            .env_clear()
            .envs(outside())
            .env("CARGO_BUILD_BUILD_DIR", &self.target)
            .env("CARGO_TARGET_DIR", self.target.join("new-controller"));
        command
    }

    /// `cargo xtask new-controller` for a kind.
    fn new_controller(&self, kind: &str) -> Command {
        let mut command = self.command(XTASK);
        command.args(["new-controller", "--group", "app.example.com", "--kind", kind, "--workspace"]);
        command.arg(&self.root);
        command
    }

    fn cargo(&self, args: &str) -> String {
        run(self.command(env!("CARGO")).args(args.split(' ')))
    }
}

/// The environment without what cargo tells of this package: build scripts that ask for it would run anew.
fn outside() -> impl Iterator<Item = (OsString, OsString)> {
    let is_ours = |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
    env::vars_os().filter(move |(name, _)| !is_ours(&name.to_string_lossy()))
}

fn modified(path: &Path) -> std::time::SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// Runs a command that has to succeed and returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (printed, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} failed\n{printed}\n{told}");
    printed.into_owned()
}

#[test]
fn a_new_controller_has_no_warnings_is_known_to_the_manager_and_passes_its_tests() {
    let copy = Copy::make();
    let told = run(&mut copy.new_controller("Greeting"));
    assert!(told.contains("cargo test -p greeting"), "{told}");

    copy.cargo("fmt --package greeting --package manager --check");
    // With the manager, the dependencies have the features that they have for the whole workspace.
    let packages = "--package greeting --package manager";
    copy.cargo(&format!("clippy --quiet {packages} --all-targets --no-deps -- --deny warnings"));
    let told = copy.cargo(&format!("test {packages} --lib --test main"));
    for test in
        ["status::tests::", "message::the_sample_works", "strangers::a_config_map", "bad_input::", "quiet::"]
    {
        assert!(told.contains(&format!("test {test}")), "{test} did not run\n{told}");
    }

    copy.cargo("run --quiet --package xtask -- gen-crds --check");
    copy.cargo("run --quiet --package xtask -- gen-rbac --check");
    copy.cargo("run --quiet --package xtask -- gen-docs --check");
    for generated in [
        "deploy/crds/greetings.app.example.com.yaml",
        "deploy/rbac/greeting.yaml",
        "docs/reference/kinds/greeting.md",
    ] {
        assert!(copy.root.join(generated).exists(), "{generated} is missing");
    }

    let again = copy.new_controller("Greeting").output().unwrap();
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && told.contains("there is a crate called greeting already"), "{told}");
}
