//! Watch faults, as seen by a client.

use std::{collections::HashMap, time::Duration};

use faults::proxy::{
    Control,
    rules::{FrameFault, FrameRule, Stale},
};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Error, ResourceExt,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{PATIENCE, ProxyFixture};

/// Timeout for events that must not arrive.
const SHORT_TIMEOUT: Duration = Duration::from_millis(1_500);

type Events = std::pin::Pin<Box<dyn Stream<Item = Result<WatchEvent<ConfigMap>, Error>> + Send>>;

impl ProxyFixture {
    async fn watch(&self) -> Events {
        let version =
            self.beside.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        Box::pin(self.through.watch(&WatchParams::default(), &version).await.unwrap())
    }

    /// Starts a watch with the current state.
    async fn list(&self) -> Events {
        let params = WatchParams::default().initial_events();
        Box::pin(self.through.watch(&params, "").await.unwrap())
    }

    fn inject_frame_fault(&self, nth: Option<usize>, fault: FrameFault) {
        let resource = Some("configmaps".to_owned());
        self.proxy.rules().add_frame_fault(FrameRule {
            token: self.token,
            resource,
            event: None,
            nth,
            fault,
        });
    }

    async fn make(&self, end: &str) {
        self.beside.create(&PostParams::default(), &self.object(end, "new")).await.unwrap();
    }

    async fn change(&self, end: &str) {
        let name = format!("{}-{end}", self.token);
        let mut object = self.beside.get(&name).await.unwrap();
        object.data = self.object(end, "changed").data;
        self.beside.replace(&name, &PostParams::default(), &object).await.unwrap();
    }
}

/// Returns the next event: `+a` if a was added, `~a` if it was modified, `-a` if it was deleted, or
/// the code of an error.
async fn next(events: &mut Events) -> String {
    let is_others = |event: &Option<Result<WatchEvent<ConfigMap>, Error>>| matches!(event, Some(Ok(WatchEvent::Added(object))) if object.name_any().starts_with("kube-root-ca"));
    let mut event = timeout(PATIENCE, events.next()).await.unwrap();
    while is_others(&event) {
        event = timeout(PATIENCE, events.next()).await.unwrap();
    }
    let end = |object: &ConfigMap| object.name_any().rsplit('-').next().unwrap().to_owned();
    match event {
        Some(Ok(WatchEvent::Added(object))) => format!("+{}", end(&object)),
        Some(Ok(WatchEvent::Modified(object))) => format!("~{}", end(&object)),
        Some(Ok(WatchEvent::Deleted(object))) => format!("-{}", end(&object)),
        Some(Ok(WatchEvent::Error(status))) => status.code.to_string(),
        Some(Ok(WatchEvent::Bookmark(_))) => "bookmark".to_owned(),
        other => format!("{:?}", other.map(|result| result.map(|_| ()).map_err(|error| error.to_string()))),
    }
}

async fn assert_silent(events: &mut Events) {
    assert!(timeout(SHORT_TIMEOUT, events.next()).await.is_err(), "no event is expected");
}

#[tokio::test]
async fn duplicates_delays_and_repeats_frames() {
    let fixture = ProxyFixture::new().await;
    let mut events = fixture.watch().await;
    fixture.inject_frame_fault(Some(1), FrameFault::Duplicate);
    fixture.make("a").await;
    assert_eq!([next(&mut events).await, next(&mut events).await], ["+a", "+a"]);

    fixture.inject_frame_fault(None, FrameFault::Late(SHORT_TIMEOUT * 2));
    fixture.make("b").await;
    assert_silent(&mut events).await;
    assert_eq!(next(&mut events).await, "+b");
    fixture.proxy.rules().clear_faults(fixture.token);

    fixture.inject_frame_fault(None, FrameFault::Again(Duration::from_millis(100)));
    fixture.change("b").await;
    let seen = [next(&mut events).await, next(&mut events).await, next(&mut events).await];
    assert_eq!(seen, ["~b", "+b", "~b"]);
}

#[tokio::test]
async fn hidden_changes_appear_in_the_next_list() {
    let fixture = ProxyFixture::new().await;
    let mut events = fixture.watch().await;
    fixture.inject_frame_fault(Some(1), FrameFault::Hide(Duration::from_millis(200)));
    fixture.make("a").await;
    fixture.change("a").await;
    assert_eq!(next(&mut events).await, "410");
    assert_eq!(next(&mut fixture.list().await).await, "+a");
}

#[tokio::test]
async fn watch_expires_in_stream_and_at_connect() {
    let fixture = ProxyFixture::new().await;
    let mut events = fixture.watch().await;
    fixture.proxy.send_control(Control::Expire(Some("pods".to_owned())));
    fixture.make("a").await;
    assert_eq!(next(&mut events).await, "+a", "the watch is not affected");
    fixture.proxy.send_control(Control::Expire(Some("configmaps".to_owned())));
    assert_eq!(next(&mut events).await, "410");

    let mut events = fixture.watch().await;
    fixture.proxy.rules().expired.push("configmaps".to_owned());
    fixture.proxy.send_control(Control::End("configmaps".to_owned()));
    assert_eq!(next(&mut events).await, "None");
    let refused = fixture.through.watch(&WatchParams::default(), "1").await;
    assert!(matches!(refused.err(), Some(Error::Api(status)) if status.code == 410));
}

#[tokio::test]
async fn continue_token_of_list_expires() {
    let fixture = ProxyFixture::new().await;
    fixture.make("a").await;
    fixture.proxy.rules().paged = true;
    let params = WatchParams::default().initial_events();
    let refused = fixture.through.watch(&params, "").await.err();
    assert!(matches!(refused, Some(Error::Api(status)) if status.code == 422));
    let page = fixture.through.list(&ListParams::default().limit(1)).await.unwrap();
    let rest = ListParams::default().limit(1).continue_token(&page.metadata.continue_.unwrap());
    let refused = fixture.through.list(&rest).await.err();
    assert!(matches!(refused, Some(Error::Api(status)) if status.code == 410));
    assert!(fixture.through.list(&ListParams::default()).await.unwrap().metadata.continue_.is_none());
}

#[tokio::test]
async fn silent_watch_stays_open_and_new_watch_receives_events() {
    let fixture = ProxyFixture::new().await;
    let mut events = fixture.watch().await;
    let mut fresh = fixture.watch().await;
    fixture.proxy.send_control(Control::Silence(None));
    fixture.make("a").await;
    assert_silent(&mut events).await;
    assert_silent(&mut fresh).await;
    assert_eq!(next(&mut fixture.list().await).await, "+a");
}

#[tokio::test]
async fn frame_crashes_the_manager() {
    let fixture = ProxyFixture::new().await;
    let mut events = fixture.watch().await;
    fixture.inject_frame_fault(Some(1), FrameFault::Crash);
    fixture.make("a").await;
    assert_silent(&mut events).await;
    assert_eq!(fixture.proxy.crash(), Some(fixture.token));
}

#[tokio::test]
async fn list_returns_outdated_state_and_then_expires() {
    let fixture = ProxyFixture::new().await;
    fixture.make("new").await;
    let mut old = serde_json::to_value(fixture.object("old", "past")).unwrap();
    old["metadata"]["namespace"] = json!(fixture.namespace.name());
    let objects = HashMap::from([("configmaps".to_owned(), vec![old])]);
    fixture.proxy.rules().stale = Some(Stale { token: fixture.token, objects });
    let mut events = fixture.list().await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "bookmark") {
        seen.push(next(&mut events).await);
    }
    seen.retain(|frame| frame.ends_with("old") || frame.ends_with("new"));
    assert_eq!(seen, ["+old"]);
    fixture.proxy.rules().stale = None;
    fixture.proxy.send_control(Control::Expire(None));
    assert_eq!(next(&mut events).await, "410");
}
