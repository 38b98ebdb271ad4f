//! ensemblectl without an installation, with a healthy one, and with a faults one.

mod faults;
mod objects;
mod preconditions;
mod report;
mod run;

use cluster::wait::eventually;

use crate::support::{PATIENCE, QUICK, TestEnv, Webhooks};
use run::{ctl, ctl_json};

/// Uses one cluster from before the installation until it is faults: each state follows from the
/// previous one.
#[tokio::test]
async fn reports_missing_healthy_and_broken_installation() {
    let env = TestEnv::bare().await;
    preconditions::not_installed(&env).await;
    preconditions::with_wrong_credentials(&env).await;

    env.install_crds().await;
    env.grant_rights().await;
    let webhooks = Webhooks::new();
    let args = [&["--leader-elect=true"], QUICK.as_slice()].concat();
    let manager = env.start_with_webhooks("manager", webhooks, &args);
    manager.until_readyz(200, "ok").await;
    env.configure(webhooks).await;
    objects::deploy(&env).await;
    objects::create(&env).await;
    objects::wait(&env);
    objects::status_and_tree(&env);
    assert_healthy(&env).await;
    report::contains_files_and_no_secret(&env).await;

    faults::reports_missing_role_binding(&env).await;
    faults::reports_object_held_by_finalizer(&env).await;
    manager.kill();
    faults::reports_missing_leader_and_webhook_server(&env).await;
    faults::reports_missing_ca_bundle(&env).await;
    faults::reports_missing_webhook_configuration(&env).await;
    faults::reports_missing_crd(&env).await;
}

/// Asserts that all results of `check` are ok.
async fn assert_healthy(env: &TestEnv) {
    // On a busy machine, a Lease of 3 s can expire once.
    let output = eventually("all checks to be ok", PATIENCE, async || {
        let output = ctl(env, &["check"]);
        Ok(if output.code == 0 { Ok(output) } else { Err(output) })
    });
    let output = output.await.unwrap();
    for line in [
        "✓ API server",
        "✓ CRDs",
        "✓ Deployment",
        "1 of 1 replicas available, image example.com/ensemble-manager:1",
        "✓ leader of podset",
        "✓ permissions",
        "the ServiceAccount ensemble-system/ensemble-manager has all",
        "✓ webhooks",
        "✓ webhook tenants.tenant.ensemble",
        "✓ conversion of tenants.capsule.clastix.io",
        "✓ certificate",
        "✓ objects",
    ] {
        assert!(output.out.contains(line), "{line}: {output:?}");
    }
    assert!(!output.out.contains('\u{1b}'), "no colours where there is no terminal: {output:?}");
    assert!(ctl(env, &["check", "--color=always"]).out.contains("\u{1b}[32m✓"));
    let checks = ctl_json(env, &["check"]);
    assert_eq!(checks["checks"][0]["what"], "API server", "{checks}");
    assert_eq!(checks["checks"][0]["state"], "ok", "{checks}");
    assert!(checks["summary"]["ok"].as_u64().unwrap() > 10, "{checks}");
}
