//! Creates a controller in a copy of this workspace, and runs its checks and tests.
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

/// Copy of the workspace below the target folder.
struct WorkspaceCopy {
    root: PathBuf,
    target: PathBuf,
}

impl WorkspaceCopy {
    /// Copies the files that git tracks or would track.
    ///
    /// Keeps their modification times, so that cargo reuses earlier builds of the copy.
    fn new() -> Self {
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
        // Cargo distinguishes a crate of the copy from the original by its version only.
        let (manifest, version) =
            (root.join("Cargo.toml"), format!("version = \"{}\"", env!("CARGO_PKG_VERSION")));
        let text = fs::read_to_string(&manifest).unwrap();
        assert_eq!(text.matches(&format!("\n{version}\n")).count(), 1, "the manifest has one version");
        // Dependencies on crates of the workspace require this version, too.
        fs::write(manifest, text.replace(&version, "version = \"0.0.0-copy\"")).unwrap();
        Self { root, target }
    }

    /// Returns a command that runs a program in the copy.
    ///
    /// It shares the build folder of this test, which contains the dependencies. Its programs are
    /// in a separate folder. cargo compiles and checks with clippy's driver, so that it compiles once.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.root)
            .env_clear()
            .envs(inherited_env())
            .env("CARGO_BUILD_BUILD_DIR", &self.target)
            .env("CARGO_TARGET_DIR", self.target.join("new-controller"))
            .env("RUSTC_WORKSPACE_WRAPPER", clippy_driver())
            // As `cargo clippy -- --deny warnings` passes its arguments.
            .env("CLIPPY_ARGS", "--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
        command
    }

    /// Returns the command `cargo xtask new-controller` for a kind.
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

/// Returns the environment without cargo's variables for this package, which would make build
/// scripts run again.
fn inherited_env() -> impl Iterator<Item = (OsString, OsString)> {
    let is_of_package = |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
    env::vars_os().filter(move |(name, _)| !is_of_package(&name.to_string_lossy()))
}

fn clippy_driver() -> PathBuf {
    let sysroot = run(Command::new("rustc").arg("--print=sysroot"));
    Path::new(sysroot.trim()).join("bin").join("clippy-driver")
}

fn modified(path: &Path) -> std::time::SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// Runs a command that must succeed, and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} failed\n{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn new_controller_passes_clippy_and_its_tests() {
    let copy = WorkspaceCopy::new();
    let output = run(&mut copy.new_controller("Greeting"));
    assert!(output.contains("cargo test -p greeting"), "{output}");

    copy.cargo("fmt --package greeting --package manager --check");
    // With xtask, the dependencies have the same features as in the whole workspace.
    let packages = "--package greeting --package manager --package xtask --lib --test main";
    let output = copy.cargo(&format!("test {packages}"));
    for test in [
        "status::tests::",
        "message::the_sample_works",
        "ownership::config_map_of",
        "validation::",
        "no_op::",
    ] {
        assert!(output.contains(&format!("test {test}")), "{test} did not run\n{output}");
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
    let stderr = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && stderr.contains("a crate named greeting already exists"), "{stderr}");
}
