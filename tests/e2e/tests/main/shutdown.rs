//! Shutdown of the manager and its last log lines. Shutdown during work is tested in `crashes`.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use cluster::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{program, reserve_port, tutorial};

#[tokio::test]
async fn every_log_line_is_json() {
    let env = tutorial().await;
    let account = env.account("json").await;
    env.grant_controller_rights(&account, "podset").await;
    let args = ["--controllers=podset", "--log-format=json"];
    let manager = env.start_with_probes("json", &account, &args);
    manager.until_readyz(200, "ok").await;
    let log = manager.stop().await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages.first(), Some(&"the manager starts"));
    assert_eq!(messages.last(), Some(&"the manager has stopped"));
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string()));
}

#[tokio::test]
async fn log_in_a_file_has_no_colours() {
    let env = tutorial().await;
    let account = env.account("plain").await;
    let manager = env.start("plain", &account, &["--controllers=podset"]);
    manager.until_logged("not allowed").await;
    let log = manager.stop().await;
    assert!(!log.contains('\u{1b}'), "{log}");
}

#[tokio::test]
async fn exits_when_log_reader_is_gone() {
    let mut child = Command::new(program())
        .args(["--health-probe-bind-address", &format!("127.0.0.1:{}", reserve_port())])
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
        eventually("the manager to exit", Duration::from_secs(5), async || Ok(child.try_wait()?)).await;
    if ended.is_err() {
        child.kill().unwrap();
    }
    assert_eq!(ended.unwrap().code(), Some(0));
}
