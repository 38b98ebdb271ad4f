//! The pages of `docs` that have commands to run, followed word for word.
//!
//! A block that opens with `console run` is typed into a shell at the root of the repository: lines that begin with
//! `$ ` are commands (a backslash at the end, or a here-document, takes in more lines), what stands beneath is all that
//! they print, with `...` for any text within a line and, alone, for any lines. Each command has to succeed, and in a
//! block that opens with `console run fails` to fail. A page begins with an environment that names no cluster, ends
//! what it starts, and uses `mktemp` for files.

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

/// The pages that use the manager's usual ports.
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
/// Enough for a cluster to start on a busy machine.
const LIMIT: Duration = Duration::from_mins(3);
/// Builds the programs of this workspace that pages run.
const BUILD: &str = "cargo build --quiet --package xtask --package manager --package ensemblectl";
/// Enough for that.
const BUILD_LIMIT: Duration = Duration::from_mins(20);

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// One after the other, for all use the same ports. This is one test and not several, which would keep other tests from
/// running while they waited for their turn.
#[tokio::test]
async fn the_pages_that_use_fixed_ports_are_true() {
    let _turn = turn().await;
    let mut wrong = Vec::new();
    for page in ON_FIXED_PORTS {
        wrong.extend(follow(page).await.err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn the_page_on_installing_is_true() {
    follow("operations/install").await.unwrap();
}

#[tokio::test]
async fn the_page_on_leader_election_is_true() {
    follow("operations/leader-election").await.unwrap();
}

#[test]
fn every_page_that_has_something_to_run_is_followed() {
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
                    ON_FIXED_PORTS.contains(&name.as_str()) || include_str!("docs.rs").contains(&call),
                    "{name}.md: put it in ON_FIXED_PORTS of docs.rs, or have a test there {call}"
                );
                followed += 1;
            }
        }
    }
    assert!(followed > 10, "docs has {followed} pages to follow");
}

#[test]
fn every_page_about_operations_stands_in_its_index() {
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
fn a_difference_is_told_with_all_that_is_needed_to_mend_the_page() {
    let step = Step { line: 7, command: "echo a".into(), expected: vec!["b".into()], fails: false };
    let answer = session::Answer { code: 0, output: "a\n".into() };
    let told = judge(&step, &answer).unwrap_err();
    assert_eq!(told, "--- expected, without an error\nb\n--- printed, with exit code 0\na\n");
    let failed = session::Answer { code: 1, output: "b\n".into() };
    assert!(judge(&step, &failed).is_err(), "a command that fails is no success, whatever it prints");
    let step = Step { fails: true, ..step };
    assert_eq!(judge(&step, &failed), Ok(()));
}

/// Follows a page from its beginning to its end, or to where it is not true.
async fn follow(name: &str) -> Result<(), String> {
    let text = fs::read_to_string(docs().join(format!("{name}.md"))).unwrap();
    let steps = page::steps(&text).map_err(|error| format!("{name}.md: {error}"))?;
    assert!(!steps.is_empty(), "{name}.md has no block that opens with ```console run");
    let helm = text.contains("$ helm ").then(|| go_tools::helm().unwrap());
    let mut session = Session::start(helm.as_slice());
    let built = session.run(BUILD, BUILD_LIMIT).await.unwrap();
    assert_eq!(built.code, 0, "{}", built.output);
    for step in steps {
        let begun = Instant::now();
        let answer = session.run(&step.command, LIMIT).await;
        eprintln!("{name}.md, line {}, took {:.1} s", step.line, begun.elapsed().as_secs_f64());
        let judged = answer.and_then(|answer| judge(&step, &answer));
        let Step { line, command, .. } = &step;
        judged.map_err(|told| format!("{name}.md, line {line} is not true\n$ {command}\n{told}"))?;
    }
    Ok(())
}

/// Waits until no other checkout follows such pages on this machine, and keeps others waiting for as long.
async fn turn() -> File {
    let file = File::create(std::env::temp_dir().join("ensemble-pages.lock")).unwrap();
    tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await.unwrap().unwrap()
}

/// Holds what a command did against its page.
fn judge(step: &Step, answer: &session::Answer) -> Result<(), String> {
    if (answer.code != 0) == step.fails && output::matches(&step.expected, &answer.output) {
        return Ok(());
    }
    let (with, expected) = (if step.fails { "with" } else { "without" }, step.expected.join("\n"));
    let session::Answer { code, output } = answer;
    Err(format!("--- expected, {with} an error\n{expected}\n--- printed, with exit code {code}\n{output}"))
}
