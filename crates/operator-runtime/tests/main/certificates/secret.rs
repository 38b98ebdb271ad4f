//! The Secret: made once, shared, put right.

use std::{collections::BTreeSet, time::Duration};

use cluster::wait::eventually;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::stage::{Held, PATIENCE, Stage};

#[tokio::test]
async fn replicas_that_begin_at_the_same_instant_end_with_one_authority_that_all_serve() {
    let stage = Stage::new(|_| Vec::new()).await;
    let replicas = futures::future::join_all((0..4).map(|_| stage.managed())).await;
    for replica in &replicas {
        replica.until_present().await;
    }
    let held = stage.until("the Secret to be complete", |held| held.has_key).await;
    assert_eq!(held.authorities.len(), 1);
    for replica in &replicas {
        assert_eq!(replica.shown(&held).await.unwrap(), held.serving.clone().unwrap());
    }
    for replica in replicas {
        replica.end().await;
    }
    eventually("the audit log to tell of the create", PATIENCE, async || Ok(stage.writes("secrets") > 0))
        .await
        .unwrap();
    assert_eq!(stage.writes("secrets"), 1, "{:?}", stage.requests());
}

#[tokio::test]
async fn a_secret_that_is_deleted_or_filled_with_garbage_gets_back_what_is_served() {
    let stage = Stage::new(|_| Vec::new()).await;
    let replica = stage.managed().await;
    replica.until_present().await;
    let first = stage.until("the Secret to be complete", |held| held.has_key).await;
    let is_mended = |held: &Held| {
        held.has_key && held.serving == first.serving && held.authorities.contains(&first.authorities[0])
    };

    stage.delete_secret().await;
    let mended = stage.until("the Secret to come back", is_mended).await;
    assert_eq!(mended.authorities.len(), 2, "the key was lost, so a new authority is on its way");
    assert_ne!(mended.authorities[0], first.authorities[0]);

    for key in ["ca.crt", "ca.key", "tls.crt", "tls.key"] {
        stage.fill(&[(key, b"garbage".to_vec())]).await;
        let held = stage.until("garbage to be replaced", is_mended).await;
        assert_eq!(replica.shown(&held).await.unwrap(), first.serving.clone().unwrap(), "{key}");
    }
    replica.end().await;
}

#[tokio::test]
async fn the_secret_of_another_authority_is_taken_in_and_what_is_served_stays_trusted() {
    let stage = Stage::new(|_| Vec::new()).await;
    let replica = stage.managed().await;
    replica.until_present().await;
    let ours = stage.until("the Secret to be complete", |held| held.has_key).await;
    let theirs = Made::lasting(365);
    stage.fill(&theirs.data()).await;
    let held = stage.until("both authorities to be trusted", |held| held.authorities.len() == 2).await;
    assert_eq!(held.authorities, [theirs.authority.der().clone(), ours.authorities[0].clone()]);
    assert_eq!(replica.shown(&held).await.unwrap(), ours.serving.unwrap());
    replica.end().await;
}

#[tokio::test]
async fn an_expired_secret_is_a_new_beginning() {
    let stage = Stage::new(|_| Vec::new()).await;
    let expired = Made::lasting(-1);
    stage.create_secret(&expired.data()).await;
    let replica = stage.managed().await;
    let held = stage
        .until("a new authority", |held| held.has_key && !held.authorities.contains(expired.authority.der()))
        .await;
    assert_eq!(held.authorities.len(), 1);
    replica.until_shows(&held).await;
    replica.end().await;
}

#[tokio::test]
async fn a_replica_that_is_started_anew_writes_nothing() {
    let stage = Stage::new(|_| Vec::new()).await;
    let replica = stage.managed().await;
    replica.until_present().await;
    let held = stage.until("the Secret to be complete", |held| held.has_key).await;
    replica.end().await;
    let again = stage.managed().await;
    again.until_present().await;
    assert_eq!(again.shown(&held).await.unwrap(), held.serving.unwrap());
    again.end().await;
    assert_eq!(stage.writes("secrets"), 1, "{:?}", stage.requests());
}

#[tokio::test]
async fn the_rights_suffice() {
    let stage = Stage::new(|_| Vec::new()).await;
    let replica = stage.managed().await;
    replica.until_present().await;
    stage.delete_secret().await;
    stage.until("the Secret to come back", |held| held.has_key).await;
    stage.fill(&[("ca.crt", b"garbage".to_vec())]).await;
    stage.until("garbage to be replaced", |held| !held.authorities.is_empty()).await;
    replica.end().await;
    let used = eventually("all verbs to be in the audit log", PATIENCE, async || {
        let requests = stage.requests();
        assert!(requests.iter().all(|(_, _, code)| *code != 403), "{requests:?}");
        let verbs: BTreeSet<_> = requests.into_iter().map(|(verb, _, _)| verb).collect();
        Ok(if verbs.len() == 5 { Ok(verbs) } else { Err(verbs) })
    });
    let used = used.await.unwrap();
    assert_eq!(used, ["create", "get", "list", "update", "watch"].map(str::to_owned).into());
}

/// An authority and certificate that somebody else made.
pub(super) struct Made {
    pub(super) authority: CertifiedIssuer<'static, KeyPair>,
    pub(super) chain: String,
    key: String,
}

impl Made {
    /// Valid since ten days ago, for so many days from now.
    pub(super) fn lasting(days: i64) -> Self {
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
