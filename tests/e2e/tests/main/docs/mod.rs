//! Runs the commands of the pages in `docs` and compares their output.
//!
//! A block with the info string `console run` runs in a shell at the root of the repository. Lines
//! that start with `$ ` are commands; a backslash or a here-document continues them. The lines
//! below are the complete output: `...` matches any text within a line or, alone on a line, any
//! lines. Each command must succeed, or fail in a block with `console run fails`. A page starts
//! without a cluster, stops what it starts, and uses `mktemp` for files.

mod output;
mod page;
mod session;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use page::Step;
use session::Session;

/// Pages that use the manager's default ports.
const ON_FIXED_PORTS: &[&str] = &[
    "start",
    "operations/admission",
    "operations/alerts",
    "operations/certificates",
    "operations/logs-and-traces",
    "operations/metrics",
    "operations/rbac",
    "operations/remove",
    "tenants/administrators",
];
/// Time limit of a command. Enough to start a cluster on a busy machine.
const LIMIT: Duration = Duration::from_mins(3);
/// Builds the programs of this workspace that pages run.
const BUILD: &str = "cargo build --quiet --package xtask --package manager --package ensemblectl";
/// Time limit of the build.
const BUILD_LIMIT: Duration = Duration::from_mins(20);

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Runs the pages one after the other because they use the same ports. A single test does not block
/// the threads of other tests.
#[tokio::test]
async fn pages_with_fixed_ports_match() {
    let _turn = lock().await;
    let mut wrong = Vec::new();
    for page in ON_FIXED_PORTS {
        wrong.extend(follow(page).await.err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn install_page_matches() {
    follow("operations/install").await.unwrap();
}

#[tokio::test]
async fn leader_election_page_matches() {
    follow("operations/leader-election").await.unwrap();
}

#[test]
fn every_page_with_commands_is_tested() {
    let mut folders = vec![docs()];
    let mut followed = 0;
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md")
                && fs::read_to_string(&path).unwrap().contains("```console run")
            {
                let name = path.strip_prefix(docs()).unwrap().with_extension("").display().to_string();
                let call = format!("follow(\"{name}\").await");
                assert!(
                    ON_FIXED_PORTS.contains(&name.as_str()) || include_str!("mod.rs").contains(&call),
                    "{name}.md: put it in ON_FIXED_PORTS of docs/mod.rs, or have a test there {call}"
                );
                followed += 1;
            }
        }
    }
    assert!(followed > 10, "docs has only {followed} pages with commands");
}

#[test]
fn index_lists_every_operations_page() {
    let folder = docs().join("operations");
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let pages: BTreeSet<_> = files
        .filter(|path| {
            path.extension().is_some_and(|extension| extension == "md") && !path.ends_with("README.md")
        })
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(!pages.is_empty());
    for page in pages {
        assert!(index.contains(&format!("({page})")), "{page}: docs/operations/README.md has no link to it");
    }
}

#[test]
fn mismatch_shows_expected_and_actual_output() {
    let step = Step { line: 7, command: "echo a".into(), expected: vec!["b".into()], fails: false };
    let answer = session::CommandResult { code: 0, output: "a\n".into() };
    let mismatch = compare(&step, &answer).unwrap_err();
    assert_eq!(mismatch, "--- expected, without an error\nb\n--- printed, with exit code 0\na\n");
    let failed = session::CommandResult { code: 1, output: "b\n".into() };
    assert!(compare(&step, &failed).is_err(), "a failed command must not match");
    let step = Step { fails: true, ..step };
    assert_eq!(compare(&step, &failed), Ok(()));
}

/// Runs a page up to its end or its first mismatch.
async fn follow(name: &str) -> Result<(), String> {
    let text = fs::read_to_string(docs().join(format!("{name}.md"))).unwrap();
    let steps = page::steps(&text).map_err(|error| format!("{name}.md: {error}"))?;
    assert!(!steps.is_empty(), "{name}.md has no block that opens with ```console run");
    let helm = text.contains("$ helm ").then(|| go_tools::HELM.locate().unwrap());
    let mut session = Session::start(helm.as_slice());
    let built = session.run(BUILD, BUILD_LIMIT).await.unwrap();
    assert_eq!(built.code, 0, "{}", built.output);
    for step in steps {
        let begun = Instant::now();
        let answer = session.run(&step.command, LIMIT).await;
        eprintln!("{name}.md, line {}, took {:.1} s", step.line, begun.elapsed().as_secs_f64());
        let compared = answer.and_then(|answer| compare(&step, &answer));
        let Step { line, command, .. } = &step;
        compared
            .map_err(|mismatch| format!("{name}.md, line {line} does not match\n$ {command}\n{mismatch}"))?;
    }
    Ok(())
}

/// Acquires a lock, so that only one checkout on this machine runs these pages.
async fn lock() -> File {
    let file = File::create(std::env::temp_dir().join("ensemble-pages.lock")).unwrap();
    tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await.unwrap().unwrap()
}

/// Compares the result of a command with its page.
fn compare(step: &Step, answer: &session::CommandResult) -> Result<(), String> {
    if (answer.code != 0) == step.fails && output::matches(&step.expected, &answer.output) {
        return Ok(());
    }
    let (with, expected) = (if step.fails { "with" } else { "without" }, step.expected.join("\n"));
    let session::CommandResult { code, output } = answer;
    Err(format!("--- expected, {with} an error\n{expected}\n--- printed, with exit code {code}\n{output}"))
}
