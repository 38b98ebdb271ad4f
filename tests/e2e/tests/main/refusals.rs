//! What makes running impossible ends the manager at once, with a sentence that says what to do.

use std::{net::TcpListener, time::Duration};

use crate::support::{Ended, run_to_end};

/// A kubeconfig of a server that is not there.
const NOWHERE: &str = r"
apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
clusters: [{name: nowhere, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: nobody, user: {token: none}}]
";

/// Runs the manager with that kubeconfig.
fn run_with(kubeconfig: &str, args: &[&str]) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig).unwrap();
    run_to_end(args, &[("KUBECONFIG", path.to_str().unwrap())])
}

fn assert_refused(ended: &Ended, code: i32, sentences: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert!(ended.took < Duration::from_secs(2), "{ended:?}");
    for sentence in sentences {
        assert!(ended.said.contains(sentence), "{sentence:?} is not in {}", ended.said);
    }
}

#[test]
fn a_kubeconfig_that_does_not_parse() {
    let ended = run_with("clusters: [", &[]);
    assert_refused(&ended, 1, &["set KUBECONFIG to a valid kubeconfig", "unclosed bracket"]);
}

#[test]
fn a_kubeconfig_whose_context_does_not_exist() {
    let ended = run_with(&NOWHERE.replace("current-context: nowhere", "current-context: somewhere"), &[]);
    assert_refused(&ended, 1, &["set KUBECONFIG to a valid kubeconfig", "context: somewhere"]);
}

#[test]
fn a_kubeconfig_that_is_not_there() {
    let ended = run_to_end(&[], &[("KUBECONFIG", "/nonexistent/kubeconfig")]);
    assert_refused(&ended, 1, &["set KUBECONFIG to a valid kubeconfig", "/nonexistent/kubeconfig"]);
}

#[test]
fn no_kubeconfig_at_all() {
    let ended = run_to_end(&[], &[]);
    assert_refused(&ended, 1, &["set KUBECONFIG", "run in a pod with a ServiceAccount"]);
}

#[test]
fn an_error_has_no_stack_trace() {
    let env = [("KUBECONFIG", "/nonexistent/kubeconfig"), ("RUST_BACKTRACE", "1")];
    let ended = run_to_end(&[], &env);
    assert_refused(&ended, 1, &["error: ", "/nonexistent/kubeconfig"]);
    let error = ended.said.lines().skip_while(|line| !line.starts_with("error: "));
    assert_eq!(error.count(), 1, "{ended:?}");
}

#[test]
fn probes_on_a_port_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = run_with(NOWHERE, &["--health-probe-bind-address", &address]);
    let sentence = format!(
        "cannot serve the probes on {address}; choose a free address with --health-probe-bind-address"
    );
    assert_refused(&ended, 1, &[&sentence, "in use"]);
}

#[test]
fn a_log_filter_that_makes_no_sense() {
    let ended = run_with(NOWHERE, &["--log-level", "=="]);
    assert_refused(&ended, 1, &["`==` is no log filter; use a level such as info"]);
}

#[test]
fn a_controller_that_does_not_exist() {
    let ended = run_with(NOWHERE, &["--controllers=nothing"]);
    let known = "there is no controller `nothing`; known are memcached, namespaceplus, podset, \
                 capsuleconfiguration, tenant, and * for all";
    assert_refused(&ended, 2, &[known]);
}
