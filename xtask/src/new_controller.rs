//! `cargo xtask new-controller`: a controller to begin with.
//!
//! ```text
//! names      what was asked for, checked
//! templates  the files of a controller
//! edits      the lines that make it known to the workspace
//! ```
//!
//! All texts are made before the first is written, so that a refusal leaves the workspace as it was.

mod edits;
mod names;
mod templates;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use names::Names;

use cluster::program::cargo_in;

/// What the new controller is to look after.
#[derive(Args)]
pub(crate) struct NewController {
    /// The API group: a domain name of yours, `app.example.com` for example
    #[arg(long)]
    group: String,
    /// The API version
    #[arg(long, default_value = "v1alpha1")]
    version: String,
    /// The kind of the objects, `Greeting` for example; in lower case it is the name of the crate
    #[arg(long)]
    kind: String,
    /// The plural in lower case, if English has an exception
    #[arg(long)]
    plural: Option<String>,
    /// What people may type instead of the plural, `gr` for example
    #[arg(long)]
    short_name: Option<String>,
    /// The workspace to write to
    #[arg(long, hide = true)]
    workspace: Option<PathBuf>,
}

/// A file as it is going to be.
struct File {
    /// Within the workspace.
    path: String,
    text: String,
}

impl NewController {
    /// Writes the controller, makes it known to the manager, and generates what follows from its code.
    pub(crate) fn run(self) -> Result<()> {
        let workspace = self.workspace.clone().unwrap_or_else(crate::workspace);
        let names = self.names(&workspace)?;
        let new = templates::files(&names)?;
        let changed = edits::files(&names, |path| read(&workspace, path))?;
        for File { path, .. } in &new {
            ensure!(!workspace.join(path).exists(), "{path} exists; remove it, or choose another kind");
        }
        for file in new.iter().chain(&changed) {
            write(&workspace, file)?;
        }
        generate(&workspace, &names)?;
        tell(&names, &new, &changed);
        Ok(())
    }

    fn names(&self, workspace: &Path) -> Result<Names> {
        let names = Names::checked(
            &self.group,
            &self.version,
            &self.kind,
            self.plural.as_deref(),
            self.short_name.as_deref(),
        )?;
        if templates::uses(&names.kind) {
            bail!("the code of a controller uses the word {} already; choose another kind", names.kind);
        }
        if names.is_locked(&read(workspace, "Cargo.lock")?) {
            bail!("there is a crate called {} already; choose another kind", names.name);
        }
        let definition = names.definition();
        ensure!(
            !workspace.join(&definition).exists(),
            "{definition} exists; choose another plural with --plural"
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
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Formats the crate and generates the manifests. The generators are built anew: the program that runs does not
/// know the controller yet.
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
        "the controller is written, but `cargo {args}` failed; run it again when it can work"
    );
    Ok(())
}

fn tell(names: &Names, new: &[File], changed: &[File]) {
    println!("\n{} is a controller now. Written:", names.kind);
    for File { path, .. } in new {
        println!("  {path}");
    }
    println!("A line added to each of:");
    for File { path, .. } in changed {
        println!("  {path}");
    }
    println!(
        "Generated: {}, deploy/rbac/{}.yaml, and what follows in deploy/ and docs/reference/",
        names.definition(),
        names.name
    );
    println!("\nNext:");
    println!("  cargo test -p {}  # its tests, on a real API server", names.name);
    println!("  cargo xtask demo  # see it at work on samples/{}.yaml", names.name);
    println!("docs/write-a-controller.md says what each file is for, and how to go on.");
}
