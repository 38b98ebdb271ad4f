//! Faults of requests, as a plain client meets them.

use std::time::{Duration, Instant};

use faults::proxy::rules::{Fault, RequestRule, Which};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Error, ResourceExt,
    api::{DeleteParams, PostParams},
};
use tokio::time::timeout;

use crate::support::{PATIENCE, Stand};

/// Long enough for an answer that does not come.
const SOON: Duration = Duration::from_secs(2);

impl Stand {
    fn strike(&self, verb: &str, fault: Fault) {
        let (verb, resource) = (verb.to_owned(), "configmaps".to_owned());
        let which = Which::Writes { verb, resource };
        self.proxy.rules().strike(RequestRule { token: self.token, which, fault });
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
async fn without_a_fault_it_is_as_if_the_proxy_were_not_there() {
    let stand = Stand::new().await;
    let made = stand.create("a").await.unwrap();
    assert_eq!(stand.beside.get(&made.name_any()).await.unwrap(), made);
    assert_eq!(code(stand.create("a").await), 409);
    stand.through.delete(&made.name_any(), &DeleteParams::default()).await.unwrap();
    assert!(!stand.exists("a").await);
    let writes: Vec<_> = stand
        .proxy
        .rules()
        .writes(stand.token)
        .iter()
        .map(|write| (write.key.verb.clone(), write.code))
        .collect();
    let writes: Vec<_> = writes.iter().map(|(verb, code)| (verb.as_str(), *code)).collect();
    assert_eq!(writes, [("create", 201), ("create", 409), ("delete", 200)]);
    assert!(stand.proxy.rules().writes(stand.token)[2].deletes_blindly);
}

#[tokio::test]
async fn an_answer_of_the_proxy_is_a_refusal_and_nothing_is_done() {
    let stand = Stand::new().await;
    for refused in [403, 422, 429, 500, 503, 504] {
        stand.strike("create", Fault::Answer { code: refused, retry_after: Some(1) });
        assert_eq!(code(stand.create("a").await), refused);
        assert!(!stand.exists("a").await);
        stand.proxy.rules().heal(stand.token);
    }
    stand.create("a").await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_lost_leaves_what_was_done() {
    let stand = Stand::new().await;
    stand.strike("create", Fault::Lost);
    let lost = stand.create("a").await;
    assert!(!matches!(lost, Ok(_) | Err(Error::Api(_))), "{lost:?}");
    assert!(stand.exists("a").await);
    assert_eq!(stand.proxy.crash(), None);
}

#[tokio::test]
async fn a_crash_comes_before_the_write_or_after_it_and_nothing_follows_until_the_next_life() {
    let stand = Stand::new().await;
    for (end, fault, is_done) in [("a", Fault::CrashBefore, false), ("b", Fault::CrashAfter, true)] {
        stand.strike("create", fault);
        assert!(timeout(SOON, stand.create(end)).await.is_err(), "there is no answer");
        assert_eq!(stand.exists(end).await, is_done);
        assert_eq!(stand.proxy.crash(), Some(stand.token));
        stand.proxy.rules().heal(stand.token);
        assert!(timeout(SOON, stand.through.get_opt("other")).await.is_err(), "the dead ask for nothing");
        stand.proxy.begin_life();
        assert!(stand.through.get_opt("other").await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_conflict_is_one_because_somebody_else_was_quicker() {
    let stand = Stand::new().await;
    let made = stand.create("a").await.unwrap();
    stand.strike("update", Fault::Conflict);
    assert_eq!(code(stand.through.replace(&made.name_any(), &PostParams::default(), &made).await), 409);
    let there = stand.beside.get(&made.name_any()).await.unwrap();
    assert!(there.annotations().contains_key(faults::oracle::TOUCHED));
    stand.strike("create", Fault::Conflict);
    assert_eq!(code(stand.create("b").await), 409);
    assert!(stand.exists("b").await);
}

#[tokio::test]
async fn a_delay_is_a_delay_and_other_runs_have_none() {
    let stand = Stand::new().await;
    let wait = Duration::from_millis(700);
    let which = Which::Everything;
    stand.proxy.rules().strike(RequestRule { token: stand.token, which, fault: Fault::Delay(wait) });
    let began = Instant::now();
    stand.create("a").await.unwrap();
    assert!(began.elapsed() >= wait);
    let cut = timeout(PATIENCE, stand.through.get_opt("other")).await.unwrap().unwrap();
    assert!(cut.is_none());
}

#[tokio::test]
async fn nothing_gets_through_while_the_way_is_cut() {
    let stand = Stand::new().await;
    stand.proxy.cut(true);
    assert!(timeout(SOON, stand.create("a")).await.is_err());
    assert!(!stand.exists("a").await);
    stand.proxy.cut(false);
    stand.create("b").await.unwrap();
    assert!(!stand.exists("a").await, "what was under way is lost");
}
