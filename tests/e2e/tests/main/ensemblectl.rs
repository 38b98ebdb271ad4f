//! The tool for those who run the manager: what it says where nothing is, where all is well, and when something breaks.

mod broken;
mod objects;
mod report;
mod run;
mod unreached;

use cluster::wait::eventually;

use crate::support::{PATIENCE, QUICK, Stage, Webhooks};
use run::{ctl, ctl_json};

/// One cluster, from before the installation until it falls apart, since each state comes after the other.
#[tokio::test]
async fn an_installation_is_seen_before_it_is_there_while_it_works_and_when_it_breaks() {
    let stage = Stage::bare().await;
    unreached::where_it_is_not_installed(&stage).await;
    unreached::with_wrong_credentials(&stage).await;

    stage.define().await;
    stage.permit().await;
    let webhooks = Webhooks::new();
    let args = [&["--leader-elect=true"], QUICK.as_slice()].concat();
    let manager = stage.start_with_webhooks("manager", webhooks, &args);
    manager.until_readyz(200, "ok").await;
    stage.configure(webhooks).await;
    objects::deploy(&stage).await;
    objects::create(&stage).await;
    objects::are_waited_for(&stage);
    objects::are_shown(&stage);
    is_fine(&stage).await;
    report::holds_what_helps_and_no_secret(&stage).await;

    broken::a_role_binding_is_missing(&stage).await;
    broken::an_object_cannot_go(&stage).await;
    manager.kill();
    broken::nobody_leads_and_nobody_answers(&stage).await;
    broken::the_api_server_does_not_know_whom_to_trust(&stage).await;
    broken::nobody_is_asked(&stage).await;
    broken::a_definition_is_gone(&stage).await;
}

/// All of `check` is in order.
async fn is_fine(stage: &Stage) {
    // On a busy machine a Lease of 3 s can be late for once.
    let said = eventually("all to be fine", PATIENCE, async || {
        let said = ctl(stage, &["check"]);
        Ok(if said.code == 0 { Ok(said) } else { Err(said) })
    });
    let said = said.await.unwrap();
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
        assert!(said.out.contains(line), "{line}: {said:?}");
    }
    assert!(!said.out.contains('\u{1b}'), "no colours where there is no terminal: {said:?}");
    assert!(ctl(stage, &["check", "--color=always"]).out.contains("\u{1b}[32m✓"));
    let checks = ctl_json(stage, &["check"]);
    assert_eq!(checks["checks"][0]["what"], "API server", "{checks}");
    assert_eq!(checks["checks"][0]["state"], "ok", "{checks}");
    assert!(checks["summary"]["ok"].as_u64().unwrap() > 10, "{checks}");
}
