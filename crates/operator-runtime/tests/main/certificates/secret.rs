//! Creation and repair of the Secret.

use std::{collections::BTreeSet, time::Duration};

use cluster::wait::eventually;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::support::{SecretContents, TIMEOUT, TestEnv};

#[tokio::test]
async fn concurrent_replicas_agree_on_one_authority() {
    let env = TestEnv::new(|_| Vec::new()).await;
    let replicas = futures::future::join_all((0..4).map(|_| env.managed_replica())).await;
    for replica in &replicas {
        replica.until_certificate_present().await;
    }
    let contents = env.until("the Secret to be complete", |contents| contents.has_key).await;
    assert_eq!(contents.authorities.len(), 1);
    for replica in &replicas {
        assert_eq!(replica.served_certificate(&contents).await.unwrap(), contents.serving.clone().unwrap());
    }
    for replica in replicas {
        replica.stop().await;
    }
    eventually("the audit log to contain the create", TIMEOUT, async || Ok(env.writes("secrets") > 0))
        .await
        .unwrap();
    assert_eq!(env.writes("secrets"), 1, "{:?}", env.requests());
}

#[tokio::test]
async fn restores_deleted_or_invalid_secret() {
    let env = TestEnv::new(|_| Vec::new()).await;
    let replica = env.managed_replica().await;
    replica.until_certificate_present().await;
    let first = env.until("the Secret to be complete", |contents| contents.has_key).await;
    let is_restored = |contents: &SecretContents| {
        contents.has_key
            && contents.serving == first.serving
            && contents.authorities.contains(&first.authorities[0])
    };

    env.delete_secret().await;
    let restored = env.until("the Secret to come back", is_restored).await;
    assert_eq!(restored.authorities.len(), 2, "the key was lost, so a new authority is created");
    assert_ne!(restored.authorities[0], first.authorities[0]);

    for key in ["ca.crt", "ca.key", "tls.crt", "tls.key"] {
        env.patch_secret(&[(key, b"invalid".to_vec())]).await;
        let contents = env.until("the invalid key to be replaced", is_restored).await;
        assert_eq!(
            replica.served_certificate(&contents).await.unwrap(),
            first.serving.clone().unwrap(),
            "{key}"
        );
    }
    replica.stop().await;
}

#[tokio::test]
async fn adopts_secret_of_another_authority_and_keeps_served_certificate_trusted() {
    let env = TestEnv::new(|_| Vec::new()).await;
    let replica = env.managed_replica().await;
    replica.until_certificate_present().await;
    let ours = env.until("the Secret to be complete", |contents| contents.has_key).await;
    let theirs = ForeignCertificates::valid_for_days(365);
    env.patch_secret(&theirs.data()).await;
    let contents =
        env.until("both authorities to be trusted", |contents| contents.authorities.len() == 2).await;
    assert_eq!(contents.authorities, [theirs.authority.der().clone(), ours.authorities[0].clone()]);
    assert_eq!(replica.served_certificate(&contents).await.unwrap(), ours.serving.unwrap());
    replica.stop().await;
}

#[tokio::test]
async fn replaces_expired_secret() {
    let env = TestEnv::new(|_| Vec::new()).await;
    let expired = ForeignCertificates::valid_for_days(-1);
    env.create_secret(&expired.data()).await;
    let replica = env.managed_replica().await;
    let contents = env
        .until("a new authority", |contents| {
            contents.has_key && !contents.authorities.contains(expired.authority.der())
        })
        .await;
    assert_eq!(contents.authorities.len(), 1);
    replica.until_served(&contents).await;
    replica.stop().await;
}

#[tokio::test]
async fn restarted_replica_writes_nothing() {
    let env = TestEnv::new(|_| Vec::new()).await;
    let replica = env.managed_replica().await;
    replica.until_certificate_present().await;
    let contents = env.until("the Secret to be complete", |contents| contents.has_key).await;
    replica.stop().await;
    let again = env.managed_replica().await;
    again.until_certificate_present().await;
    assert_eq!(again.served_certificate(&contents).await.unwrap(), contents.serving.unwrap());
    again.stop().await;
    assert_eq!(env.writes("secrets"), 1, "{:?}", env.requests());
}

#[tokio::test]
async fn rbac_rules_are_sufficient() {
    let env = TestEnv::new(|_| Vec::new()).await;
    let replica = env.managed_replica().await;
    replica.until_certificate_present().await;
    env.delete_secret().await;
    env.until("the Secret to come back", |contents| contents.has_key).await;
    env.patch_secret(&[("ca.crt", b"invalid".to_vec())]).await;
    env.until("the invalid key to be replaced", |contents| !contents.authorities.is_empty()).await;
    replica.stop().await;
    let used = eventually("all verbs to be in the audit log", TIMEOUT, async || {
        let requests = env.requests();
        assert!(requests.iter().all(|(_, _, code)| *code != 403), "{requests:?}");
        let verbs: BTreeSet<_> = requests.into_iter().map(|(verb, _, _)| verb).collect();
        Ok(if verbs.len() == 5 { Ok(verbs) } else { Err(verbs) })
    });
    let used = used.await.unwrap();
    assert_eq!(used, ["create", "get", "list", "update", "watch"].map(str::to_owned).into());
}

/// Authority and certificate that another process issued.
pub(super) struct ForeignCertificates {
    pub(super) authority: CertifiedIssuer<'static, KeyPair>,
    pub(super) chain: String,
    key: String,
}

impl ForeignCertificates {
    /// Issues certificates that are valid from ten days ago until `days` from now.
    pub(super) fn valid_for_days(days: i64) -> Self {
        let validity = |params: &mut CertificateParams| {
            let now = rcgen::date_time_ymd(1970, 1, 1)
                + std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let day = Duration::from_hours(24);
            params.not_before = now - day * 10;
            let length = day * u32::try_from(days.abs()).unwrap();
            params.not_after = if days < 0 { now - length } else { now + length };
        };
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        validity(&mut params);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        validity(&mut params);
        for service in ["ensemble-webhook", "ensemble-metrics"] {
            params.subject_alt_names.push(rcgen::SanType::DnsName(service.try_into().unwrap()));
        }
        let chain = params.signed_by(&key, &*authority).unwrap().pem();
        Self { authority, chain, key: key.serialize_pem() }
    }

    pub(super) fn data(&self) -> [(&'static str, Vec<u8>); 4] {
        [
            ("ca.crt", self.authority.pem().into_bytes()),
            ("ca.key", self.authority.key().serialize_pem().into_bytes()),
            ("tls.crt", self.chain.clone().into_bytes()),
            ("tls.key", self.key.clone().into_bytes()),
        ]
    }
}
