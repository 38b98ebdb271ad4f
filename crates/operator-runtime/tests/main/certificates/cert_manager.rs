//! A Secret that cert-manager keeps.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use operator_runtime::certificates::{CaBundleTarget, Source};

use super::{
    ca_injection::{OURS, webhooks},
    secret::Made,
    stage::Stage,
};

#[tokio::test]
async fn what_cert_manager_writes_is_served_and_trusted_and_never_written() {
    let stage = Stage::new(|namespace| vec![CaBundleTarget::Validating(namespace.to_owned())]).await;
    let replica = stage.replica(Source::CertManager).await;
    let cert_manager = |made: &Made| {
        let [authority, _, chain, key] = made.data();
        [authority, chain, key]
    };
    let first = Made::lasting(90);
    stage.create_secret(&cert_manager(&first)).await;
    let held = stage.until("the Secret to be there", |held| held.serving.is_some()).await;
    replica.until_shows(&held).await;

    let name = stage.namespace.to_string();
    let configuration = webhooks("ValidatingWebhookConfiguration", &name);
    stage.apply::<ValidatingWebhookConfiguration>(&name, &configuration).await;
    stage.until_trusted::<ValidatingWebhookConfiguration>(&name, &OURS, &held.bundle).await;

    let second = Made::lasting(90);
    stage.fill(&cert_manager(&second)).await;
    let renewed = stage.until("the Secret to change", |now| *now != held).await;
    replica.until_shows(&renewed).await;
    stage.until_trusted::<ValidatingWebhookConfiguration>(&name, &OURS, &renewed.bundle).await;

    // What cannot be served leaves what is.
    stage.fill(&[("tls.crt", b"garbage".to_vec())]).await;
    stage.fill(&[("ca.crt", first.authority.pem().into_bytes())]).await;
    assert_eq!(replica.shown(&renewed).await.unwrap(), renewed.serving.unwrap());
    replica.end().await;
    assert_eq!(stage.writes("secrets"), 0, "{:?}", stage.requests());
    stage.cluster.kubectl(&["delete", "validatingwebhookconfiguration", &name]).await.unwrap();
}
