//! How the manager ends, and what it leaves in its log. Being asked to end in the midst of work is among the crashes.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use cluster::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{free_port, program, tutorial};

#[tokio::test]
async fn json_lines_are_json_to_the_last() {
    let stage = tutorial().await;
    let account = stage.account("json").await;
    stage.permit_account(&account, "podset").await;
    let args = ["--controllers=podset", "--log-format=json"];
    let manager = stage.start_with_probes("json", &account, &args);
    manager.until_readyz(200, "ok").await;
    let log = manager.ask_to_end().await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages.first(), Some(&"the manager starts"));
    assert_eq!(messages.last(), Some(&"the manager has stopped"));
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string()));
}

#[tokio::test]
async fn a_log_in_a_file_is_plain_text() {
    let stage = tutorial().await;
    let account = stage.account("plain").await;
    let manager = stage.start("plain", &account, &["--controllers=podset"]);
    manager.until_logged("not allowed").await;
    let log = manager.ask_to_end().await;
    assert!(!log.contains('\u{1b}'), "{log}");
}

#[tokio::test]
async fn it_ends_well_though_nobody_reads_its_log_any_more() {
    let mut child = Command::new(program())
        .args(["--health-probe-bind-address", &format!("127.0.0.1:{}", free_port())])
        .env("ENSEMBLE_WEBHOOK_BIND_ADDRESS", "0")
        .env("ENSEMBLE_METRICS_BIND_ADDRESS", "0")
        .env("KUBECONFIG", tutorial().await.kubeconfig())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("the manager starts"), "{first}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended =
        eventually("the manager to end", Duration::from_secs(5), async || Ok(child.try_wait()?)).await;
    if ended.is_err() {
        child.kill().unwrap();
    }
    assert_eq!(ended.unwrap().code(), Some(0));
}
