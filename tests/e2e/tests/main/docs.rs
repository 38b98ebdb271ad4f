//! The pages of `docs/operations` and `docs/tenants`, followed word for word.
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
    time::Duration,
};

use page::Step;
use session::Session;
use tokio::sync::Mutex;

/// The pages that have nothing to run.
const PROSE: &[&str] = &["README", "upgrade"];
/// Enough for a cluster to start on a busy machine.
const LIMIT: Duration = Duration::from_mins(3);
/// Enough for the commands of a page to be built.
const BUILD_LIMIT: Duration = Duration::from_mins(20);

fn folder() -> PathBuf {
    docs().join("operations")
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[tokio::test]
async fn the_page_on_admission_is_true() {
    follow("admission").await;
}

#[tokio::test]
async fn the_page_on_certificates_is_true() {
    follow("certificates").await;
}

#[tokio::test]
async fn the_page_on_installing_is_true() {
    follow("install").await;
}

#[tokio::test]
async fn the_page_on_leader_election_is_true() {
    follow("leader-election").await;
}

#[tokio::test]
async fn the_page_on_logs_and_traces_is_true() {
    follow("logs-and-traces").await;
}

#[tokio::test]
async fn the_page_on_metrics_is_true() {
    follow("metrics").await;
}

#[tokio::test]
async fn the_page_on_alerts_is_true() {
    follow("alerts").await;
}

#[tokio::test]
async fn the_page_on_removal_is_true() {
    follow("remove").await;
}

#[tokio::test]
async fn the_page_on_rights_is_true() {
    follow("rbac").await;
}

#[tokio::test]
async fn the_page_for_administrators_of_tenants_is_true() {
    follow("tenants/administrators").await;
}

#[test]
fn every_page_about_tenants_that_has_something_to_run_is_followed() {
    for file in fs::read_dir(docs().join("tenants")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let call = format!("follow(\"tenants/{name}\").await");
        let runs = fs::read_to_string(&path).unwrap().contains("```console run");
        assert!(
            !runs || include_str!("docs.rs").contains(&call),
            "{name}.md: a test in docs.rs has to {call}"
        );
    }
}

#[test]
fn every_page_is_followed_and_stands_in_the_index() {
    let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let pages: BTreeSet<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let index = fs::read_to_string(folder().join("README.md")).unwrap();
    for page in pages.iter().filter(|page| !PROSE.contains(&page.as_str())) {
        let call = format!("follow(\"{page}\").await");
        assert!(include_str!("docs.rs").contains(&call), "{page}.md: a test in docs.rs has to {call}");
        assert!(
            index.contains(&format!("({page}.md)")),
            "{page}.md: docs/operations/README.md has no link to it"
        );
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

/// Follows a page from its beginning to its end. Pages use fixed ports, so one is followed at a time, on the whole
/// machine.
async fn follow(name: &str) {
    static TURN: Mutex<()> = Mutex::const_new(());
    let _turn = TURN.lock().await;
    let turn = File::create(std::env::temp_dir().join("ensemble-pages.lock")).unwrap();
    let turn = tokio::task::spawn_blocking(move || turn.lock().map(|()| turn)).await.unwrap().unwrap();

    let folder = if name.contains('/') { docs() } else { folder() };
    let text = fs::read_to_string(folder.join(format!("{name}.md"))).unwrap();
    let steps = page::steps(&text).unwrap_or_else(|error| panic!("{name}.md: {error}"));
    assert!(!steps.is_empty(), "{name}.md has no block that opens with ```console run");
    let mut session = Session::start();
    session.run("cargo xtask --help", BUILD_LIMIT).await.unwrap();
    for step in steps {
        let answer = session.run(&step.command, LIMIT).await;
        let judged = answer.and_then(|answer| judge(&step, &answer));
        let Step { line, command, .. } = &step;
        judged.unwrap_or_else(|told| panic!("{name}.md, line {line} is not true\n$ {command}\n{told}"));
    }
    drop((session, turn));
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
