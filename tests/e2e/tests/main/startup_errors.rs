//! Startup errors: the manager exits at once with an error that contains the remedy.

use std::{net::TcpListener, time::Duration};

use crate::support::{ExitedManager, run_to_exit};

/// Kubeconfig of a server that does not exist.
const NOWHERE: &str = r"
apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: user}}]
clusters: [{name: nowhere, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: user, user: {token: none}}]
";

/// Runs the manager with this kubeconfig.
fn run_with(kubeconfig: &str, args: &[&str]) -> ExitedManager {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig).unwrap();
    run_to_exit(args, &[("KUBECONFIG", path.to_str().unwrap())])
}

fn assert_startup_error(ended: &ExitedManager, code: i32, texts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert!(ended.duration < Duration::from_secs(2), "{ended:?}");
    for text in texts {
        assert!(ended.stderr.contains(text), "output does not contain {text:?}: {}", ended.stderr);
    }
}

#[test]
fn rejects_malformed_kubeconfig() {
    let ended = run_with("clusters: [", &[]);
    assert_startup_error(&ended, 1, &["set KUBECONFIG to a valid kubeconfig", "unclosed bracket"]);
}

#[test]
fn rejects_unknown_context() {
    let ended = run_with(&NOWHERE.replace("current-context: nowhere", "current-context: somewhere"), &[]);
    assert_startup_error(&ended, 1, &["set KUBECONFIG to a valid kubeconfig", "context: somewhere"]);
}

#[test]
fn rejects_missing_kubeconfig_file() {
    let ended = run_to_exit(&[], &[("KUBECONFIG", "/nonexistent/kubeconfig")]);
    assert_startup_error(&ended, 1, &["set KUBECONFIG to a valid kubeconfig", "/nonexistent/kubeconfig"]);
}

#[test]
fn requires_kubeconfig_outside_a_cluster() {
    let ended = run_to_exit(&[], &[]);
    assert_startup_error(&ended, 1, &["set KUBECONFIG", "run in a Pod with a ServiceAccount"]);
}

#[test]
fn errors_have_no_stack_trace() {
    let env = [("KUBECONFIG", "/nonexistent/kubeconfig"), ("RUST_BACKTRACE", "1")];
    let ended = run_to_exit(&[], &env);
    assert_startup_error(&ended, 1, &["error: ", "/nonexistent/kubeconfig"]);
    let error = ended.stderr.lines().skip_while(|line| !line.starts_with("error: "));
    assert_eq!(error.count(), 1, "{ended:?}");
}

#[test]
fn rejects_probe_address_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = run_with(NOWHERE, &["--health-probe-bind-address", &address]);
    let text = format!(
        "cannot serve the probes on {address}; choose a free address with --health-probe-bind-address"
    );
    assert_startup_error(&ended, 1, &[&text, "in use"]);
}

#[test]
fn rejects_invalid_log_filter() {
    let ended = run_with(NOWHERE, &["--log-level", "=="]);
    assert_startup_error(&ended, 1, &["`==` is no log filter; use a level such as info"]);
}

#[test]
fn rejects_unknown_controller() {
    let ended = run_with(NOWHERE, &["--controllers=nothing"]);
    let known = "unknown controller `nothing`; use memcached, namespaceplus, podset, postgres, \
                 globaltenantresource, tenantresource, capsuleconfiguration, tenant, or * for all";
    assert_startup_error(&ended, 2, &[known]);
}
