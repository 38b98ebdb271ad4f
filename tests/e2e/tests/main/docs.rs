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
use tokio::sync::{Mutex, MutexGuard};

/// The pages that use no fixed port: they are followed beside others.
const PORTLESS: &[&str] = &["operations/install", "operations/leader-election"];
/// Enough for a cluster to start on a busy machine.
const LIMIT: Duration = Duration::from_mins(3);
/// Builds the programs of this workspace that pages run.
const BUILD: &str = "cargo build --quiet --package xtask --package manager --package ensemblectl";
/// Enough for that.
const BUILD_LIMIT: Duration = Duration::from_mins(20);

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[tokio::test]
async fn the_page_on_the_first_hour_is_true_and_all_samples_are_ready_in_under_60_s() {
    follow("start").await;
}

#[tokio::test]
async fn the_page_on_admission_is_true() {
    follow("operations/admission").await;
}

#[tokio::test]
async fn the_page_on_certificates_is_true() {
    follow("operations/certificates").await;
}

#[tokio::test]
async fn the_page_on_installing_is_true() {
    follow("operations/install").await;
}

#[tokio::test]
async fn the_page_on_leader_election_is_true() {
    follow("operations/leader-election").await;
}

#[tokio::test]
async fn the_page_on_logs_and_traces_is_true() {
    follow("operations/logs-and-traces").await;
}

#[tokio::test]
async fn the_page_on_metrics_is_true() {
    follow("operations/metrics").await;
}

#[tokio::test]
async fn the_page_on_alerts_is_true() {
    follow("operations/alerts").await;
}

#[tokio::test]
async fn the_page_on_removal_is_true() {
    follow("operations/remove").await;
}

#[tokio::test]
async fn the_page_on_rights_is_true() {
    follow("operations/rbac").await;
}

#[tokio::test]
async fn the_page_for_administrators_of_tenants_is_true() {
    follow("tenants/administrators").await;
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
                    include_str!("docs.rs").contains(&call),
                    "{name}.md: a test in docs.rs has to {call}"
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

/// Follows a page from its beginning to its end.
async fn follow(name: &str) {
    let turn = if PORTLESS.contains(&name) { None } else { Some(turn().await) };
    let text = fs::read_to_string(docs().join(format!("{name}.md"))).unwrap();
    let steps = page::steps(&text).unwrap_or_else(|error| panic!("{name}.md: {error}"));
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
        judged.unwrap_or_else(|told| panic!("{name}.md, line {line} is not true\n$ {command}\n{told}"));
    }
    drop((session, turn));
}

/// Waits until no other page that uses fixed ports is followed on this machine, and keeps others waiting for as long.
async fn turn() -> (MutexGuard<'static, ()>, File) {
    static TURN: Mutex<()> = Mutex::const_new(());
    let here = TURN.lock().await;
    let file = File::create(std::env::temp_dir().join("ensemble-pages.lock")).unwrap();
    (here, tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await.unwrap().unwrap())
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
