//! Secret that cert-manager writes.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use operator_runtime::certificates::{CaBundleTarget, Source};

use super::{
    ca_injection::{OURS, webhooks},
    secret::ForeignCertificates,
    support::TestEnv,
};

#[tokio::test]
async fn serves_and_never_writes_secret_of_cert_manager() {
    let env = TestEnv::new(|namespace| vec![CaBundleTarget::Validating(namespace.to_owned())]).await;
    let replica = env.replica(Source::CertManager).await;
    let cert_manager = |issued: &ForeignCertificates| {
        let [authority, _, chain, key] = issued.data();
        [authority, chain, key]
    };
    let first = ForeignCertificates::valid_for_days(90);
    env.create_secret(&cert_manager(&first)).await;
    let contents = env.until("the Secret to exist", |contents| contents.serving.is_some()).await;
    replica.until_served(&contents).await;

    let name = env.namespace.to_string();
    let configuration = webhooks("ValidatingWebhookConfiguration", &name);
    env.apply::<ValidatingWebhookConfiguration>(&name, &configuration).await;
    env.until_injected::<ValidatingWebhookConfiguration>(&name, &OURS, &contents.bundle).await;

    let second = ForeignCertificates::valid_for_days(90);
    env.patch_secret(&cert_manager(&second)).await;
    let renewed = env.until("the Secret to change", |now| *now != contents).await;
    replica.until_served(&renewed).await;
    env.until_injected::<ValidatingWebhookConfiguration>(&name, &OURS, &renewed.bundle).await;

    // Invalid contents do not replace the served certificate.
    env.patch_secret(&[("tls.crt", b"invalid".to_vec())]).await;
    env.patch_secret(&[("ca.crt", first.authority.pem().into_bytes())]).await;
    assert_eq!(replica.served_certificate(&renewed).await.unwrap(), renewed.serving.unwrap());
    replica.stop().await;
    assert_eq!(env.writes("secrets"), 0, "{:?}", env.requests());
    env.cluster.kubectl(&["delete", "validatingwebhookconfiguration", &name]).await.unwrap();
}
