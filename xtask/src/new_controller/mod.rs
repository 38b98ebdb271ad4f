//! `cargo xtask new-controller`: creates a controller.
//!
//! ```text
//! names         validates the names
//! templates     files of the controller
//! registration  lines that register it in the workspace
//! ```
//!
//! All texts are prepared before the first file is written, so that an error leaves the workspace
//! unchanged.

mod names;
mod registration;
mod templates;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use names::Names;

use cluster::program::{self, cargo_in};

/// Kind that the controller reconciles.
#[derive(Args)]
pub(crate) struct NewController {
    /// API group: a domain name of yours, such as `app.example.com`
    #[arg(long)]
    group: String,
    /// API version
    #[arg(long, default_value = "v1alpha1")]
    version: String,
    /// Kind of the objects, such as `Greeting`; in lower case, it is the name of the crate
    #[arg(long)]
    kind: String,
    /// Plural in lower case, if it is irregular
    #[arg(long)]
    plural: Option<String>,
    /// Short name for kubectl, such as `gr`
    #[arg(long)]
    short_name: Option<String>,
    /// Workspace to write to
    #[arg(long, hide = true)]
    workspace: Option<PathBuf>,
}

/// File to write.
struct File {
    /// Path relative to the workspace.
    path: String,
    text: String,
}

impl NewController {
    /// Writes the controller, registers it in the manager, and generates its manifests and pages.
    pub(crate) fn run(self) -> Result<()> {
        let workspace = self.workspace.clone().unwrap_or_else(program::workspace);
        let names = self.names(&workspace)?;
        let new = templates::files(&names)?;
        let changed = registration::files(&names, |path| read(&workspace, path))?;
        for File { path, .. } in &new {
            ensure!(
                !workspace.join(path).exists(),
                "{path} already exists; remove it, or choose another kind"
            );
        }
        for file in new.iter().chain(&changed) {
            write(&workspace, file)?;
        }
        generate(&workspace, &names)?;
        report(&names, &new, &changed);
        Ok(())
    }

    fn names(&self, workspace: &Path) -> Result<Names> {
        let names = Names::new(
            &self.group,
            &self.version,
            &self.kind,
            self.plural.as_deref(),
            self.short_name.as_deref(),
        )?;
        if templates::uses(&names.kind) {
            bail!(
                "cannot use the kind {}: the code of a controller already uses this identifier; choose another kind",
                names.kind
            );
        }
        if names.is_locked(&read(workspace, "Cargo.lock")?) {
            bail!("a crate named {} already exists; choose another kind", names.name);
        }
        let definition = names.definition();
        ensure!(
            !workspace.join(&definition).exists(),
            "{definition} already exists; choose another plural with --plural"
        );
        Ok(names)
    }
}

fn read(workspace: &Path, path: &str) -> Result<String> {
    fs::read_to_string(workspace.join(path))
        .with_context(|| format!("cannot read {path} in {}", workspace.display()))
}

fn write(workspace: &Path, File { path, text }: &File) -> Result<()> {
    let path = workspace.join(path);
    let folder = path.parent().unwrap_or(workspace);
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Formats the crate, and generates its manifests and pages.
///
/// Runs the generators through cargo, because this program was built without the controller.
fn generate(workspace: &Path, names: &Names) -> Result<()> {
    cargo(workspace, &["fmt", "--package", &names.name])?;
    for command in ["gen-crds", "gen-rbac", "gen-deploy", "gen-docs"] {
        println!("cargo xtask {command}");
        cargo(workspace, &["run", "--quiet", "--package", "xtask", "--", command])?;
    }
    Ok(())
}

fn cargo(workspace: &Path, args: &[&str]) -> Result<()> {
    let status = cargo_in(workspace).args(args).status().context("cannot run cargo")?;
    let args = args.join(" ");
    ensure!(
        status.success(),
        "the controller was written, but `cargo {args}` failed; fix the cause, and run it again"
    );
    Ok(())
}

/// Prints the written files and the next steps.
fn report(names: &Names, new: &[File], changed: &[File]) {
    println!("\nCreated the controller of {}. New files:", names.kind);
    for File { path, .. } in new {
        println!("  {path}");
    }
    println!("Changed files, one line each:");
    for File { path, .. } in changed {
        println!("  {path}");
    }
    println!(
        "Generated: {}, deploy/rbac/{}.yaml, and the files in deploy/ and docs/reference/ that depend on it",
        names.definition(),
        names.name
    );
    println!("\nNext:");
    println!("  cargo test -p {}  # run its tests on a real API server", names.name);
    println!("  cargo xtask demo  # run it on samples/{}.yaml", names.name);
    println!("docs/write-a-controller.md describes the files and the next steps.");
}
