//! Request faults, as seen by a client.

use std::time::{Duration, Instant};

use faults::proxy::rules::{Fault, RequestRule, Which};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Error, ResourceExt,
    api::{DeleteParams, PostParams},
};
use tokio::time::timeout;

use crate::support::{PATIENCE, ProxyFixture};

/// Timeout for responses that must not arrive.
const SHORT_TIMEOUT: Duration = Duration::from_secs(2);

impl ProxyFixture {
    fn inject_request_fault(&self, verb: &str, fault: Fault) {
        let (verb, resource) = (verb.to_owned(), "configmaps".to_owned());
        let which = Which::Writes { verb, resource };
        self.proxy.rules().add_request_fault(RequestRule { token: self.token, which, fault });
    }

    async fn create(&self, end: &str) -> Result<ConfigMap, Error> {
        self.through.create(&PostParams::default(), &self.object(end, "new")).await
    }

    async fn exists(&self, end: &str) -> bool {
        self.beside.get_opt(&format!("{}-{end}", self.token)).await.unwrap().is_some()
    }
}

fn code(answer: Result<ConfigMap, Error>) -> u16 {
    match answer {
        Err(Error::Api(status)) => status.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn proxy_without_faults_is_transparent() {
    let fixture = ProxyFixture::new().await;
    let made = fixture.create("a").await.unwrap();
    assert_eq!(fixture.beside.get(&made.name_any()).await.unwrap(), made);
    assert_eq!(code(fixture.create("a").await), 409);
    fixture.through.delete(&made.name_any(), &DeleteParams::default()).await.unwrap();
    assert!(!fixture.exists("a").await);
    let writes: Vec<_> = fixture
        .proxy
        .rules()
        .writes(fixture.token)
        .iter()
        .map(|write| (write.key.verb.clone(), write.code))
        .collect();
    let writes: Vec<_> = writes.iter().map(|(verb, code)| (verb.as_str(), *code)).collect();
    assert_eq!(writes, [("create", 201), ("create", 409), ("delete", 200)]);
    assert!(fixture.proxy.rules().writes(fixture.token)[2].lacks_uid);
}

#[tokio::test]
async fn response_of_proxy_leaves_request_unexecuted() {
    let fixture = ProxyFixture::new().await;
    for refused in [403, 422, 429, 500, 503, 504] {
        fixture.inject_request_fault("create", Fault::Answer { code: refused, retry_after: Some(1) });
        assert_eq!(code(fixture.create("a").await), refused);
        assert!(!fixture.exists("a").await);
        fixture.proxy.rules().clear_faults(fixture.token);
    }
    fixture.create("a").await.unwrap();
}

#[tokio::test]
async fn lost_response_leaves_request_executed() {
    let fixture = ProxyFixture::new().await;
    fixture.inject_request_fault("create", Fault::Lost);
    let lost = fixture.create("a").await;
    assert!(!matches!(lost, Ok(_) | Err(Error::Api(_))), "{lost:?}");
    assert!(fixture.exists("a").await);
    assert_eq!(fixture.proxy.crash(), None);
}

#[tokio::test]
async fn crash_blocks_requests_until_restart() {
    let fixture = ProxyFixture::new().await;
    for (end, fault, is_done) in [("a", Fault::CrashBefore, false), ("b", Fault::CrashAfter, true)] {
        fixture.inject_request_fault("create", fault);
        assert!(timeout(SHORT_TIMEOUT, fixture.create(end)).await.is_err(), "there is no response");
        assert_eq!(fixture.exists(end).await, is_done);
        assert_eq!(fixture.proxy.crash(), Some(fixture.token));
        fixture.proxy.rules().clear_faults(fixture.token);
        assert!(
            timeout(SHORT_TIMEOUT, fixture.through.get_opt("other")).await.is_err(),
            "a crashed manager sends nothing"
        );
        fixture.proxy.begin_life();
        assert!(fixture.through.get_opt("other").await.unwrap().is_none());
    }
}

#[tokio::test]
async fn conflict_is_caused_by_third_party_update() {
    let fixture = ProxyFixture::new().await;
    let made = fixture.create("a").await.unwrap();
    fixture.inject_request_fault("update", Fault::Conflict);
    assert_eq!(code(fixture.through.replace(&made.name_any(), &PostParams::default(), &made).await), 409);
    let there = fixture.beside.get(&made.name_any()).await.unwrap();
    assert!(there.annotations().contains_key(faults::oracle::TOUCHED_ANNOTATION));
    fixture.inject_request_fault("create", Fault::Conflict);
    assert_eq!(code(fixture.create("b").await), 409);
    assert!(fixture.exists("b").await);
}

#[tokio::test]
async fn delay_affects_only_its_run() {
    let fixture = ProxyFixture::new().await;
    let wait = Duration::from_millis(700);
    let which = Which::Everything;
    fixture.proxy.rules().add_request_fault(RequestRule {
        token: fixture.token,
        which,
        fault: Fault::Delay(wait),
    });
    let began = Instant::now();
    fixture.create("a").await.unwrap();
    assert!(began.elapsed() >= wait);
    let cut = timeout(PATIENCE, fixture.through.get_opt("other")).await.unwrap().unwrap();
    assert!(cut.is_none());
}

#[tokio::test]
async fn partition_blocks_all_requests() {
    let fixture = ProxyFixture::new().await;
    fixture.proxy.cut(true);
    assert!(timeout(SHORT_TIMEOUT, fixture.create("a")).await.is_err());
    assert!(!fixture.exists("a").await);
    fixture.proxy.cut(false);
    fixture.create("b").await.unwrap();
    assert!(!fixture.exists("a").await, "the pending request is lost");
}
