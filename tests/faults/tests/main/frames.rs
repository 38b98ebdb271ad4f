//! Faults of watches, as a plain client meets them.

use std::{collections::HashMap, time::Duration};

use faults::proxy::{
    Control,
    rules::{FrameRule, Stale, Twist},
};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Error, ResourceExt,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{PATIENCE, Stand};

/// Long enough for news that do not come.
const SOON: Duration = Duration::from_millis(1_500);

type Events = std::pin::Pin<Box<dyn Stream<Item = Result<WatchEvent<ConfigMap>, Error>> + Send>>;

impl Stand {
    async fn watch(&self) -> Events {
        let version =
            self.beside.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        Box::pin(self.through.watch(&WatchParams::default(), &version).await.unwrap())
    }

    /// A watch that begins with what is there.
    async fn list(&self) -> Events {
        let params = WatchParams::default().initial_events();
        Box::pin(self.through.watch(&params, "").await.unwrap())
    }

    fn twist(&self, nth: Option<usize>, twist: Twist) {
        let resource = Some("configmaps".to_owned());
        self.proxy.rules().twist(FrameRule { token: self.token, resource, event: None, nth, twist });
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

/// What comes next, in a word: `+a` if a is new, `~a` if it has changed, `-a` if it is gone, or the code of an error.
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
    assert!(timeout(SOON, events.next()).await.is_err(), "nothing should come");
}

#[tokio::test]
async fn a_frame_comes_twice_or_late_or_with_the_one_before_it() {
    let stand = Stand::new().await;
    let mut events = stand.watch().await;
    stand.twist(Some(1), Twist::Twice);
    stand.make("a").await;
    assert_eq!([next(&mut events).await, next(&mut events).await], ["+a", "+a"]);

    stand.twist(None, Twist::Late(SOON * 2));
    stand.make("b").await;
    assert_silent(&mut events).await;
    assert_eq!(next(&mut events).await, "+b");
    stand.proxy.rules().heal(stand.token);

    stand.twist(None, Twist::Again(Duration::from_millis(100)));
    stand.change("b").await;
    let seen = [next(&mut events).await, next(&mut events).await, next(&mut events).await];
    assert_eq!(seen, ["~b", "+b", "~b"]);
}

#[tokio::test]
async fn what_is_hidden_is_found_in_the_next_list() {
    let stand = Stand::new().await;
    let mut events = stand.watch().await;
    stand.twist(Some(1), Twist::Hide(Duration::from_millis(200)));
    stand.make("a").await;
    stand.change("a").await;
    assert_eq!(next(&mut events).await, "410");
    assert_eq!(next(&mut stand.list().await).await, "+a");
}

#[tokio::test]
async fn a_watch_expires_in_the_stream_and_at_connect() {
    let stand = Stand::new().await;
    let mut events = stand.watch().await;
    stand.proxy.tell(Control::Expire(Some("pods".to_owned())));
    stand.make("a").await;
    assert_eq!(next(&mut events).await, "+a", "it was not meant");
    stand.proxy.tell(Control::Expire(Some("configmaps".to_owned())));
    assert_eq!(next(&mut events).await, "410");

    let mut events = stand.watch().await;
    stand.proxy.rules().expired.push("configmaps".to_owned());
    stand.proxy.tell(Control::End("configmaps".to_owned()));
    assert_eq!(next(&mut events).await, "None");
    let refused = stand.through.watch(&WatchParams::default(), "1").await;
    assert!(matches!(refused.err(), Some(Error::Api(status)) if status.code == 410));
}

#[tokio::test]
async fn a_list_has_a_rest_that_has_expired() {
    let stand = Stand::new().await;
    stand.make("a").await;
    stand.proxy.rules().paged = true;
    let params = WatchParams::default().initial_events();
    let refused = stand.through.watch(&params, "").await.err();
    assert!(matches!(refused, Some(Error::Api(status)) if status.code == 422));
    let page = stand.through.list(&ListParams::default().limit(1)).await.unwrap();
    let rest = ListParams::default().limit(1).continue_token(&page.metadata.continue_.unwrap());
    let refused = stand.through.list(&rest).await.err();
    assert!(matches!(refused, Some(Error::Api(status)) if status.code == 410));
    assert!(stand.through.list(&ListParams::default()).await.unwrap().metadata.continue_.is_none());
}

#[tokio::test]
async fn a_silent_watch_stays_open_and_a_new_one_speaks() {
    let stand = Stand::new().await;
    let mut events = stand.watch().await;
    let mut fresh = stand.watch().await;
    stand.proxy.tell(Control::Silence(None));
    stand.make("a").await;
    assert_silent(&mut events).await;
    assert_silent(&mut fresh).await;
    assert_eq!(next(&mut stand.list().await).await, "+a");
}

#[tokio::test]
async fn a_manager_dies_of_a_frame() {
    let stand = Stand::new().await;
    let mut events = stand.watch().await;
    stand.twist(Some(1), Twist::Crash);
    stand.make("a").await;
    assert_silent(&mut events).await;
    assert_eq!(stand.proxy.crash(), Some(stand.token));
}

#[tokio::test]
async fn a_list_shows_the_past_and_then_expires_into_the_present() {
    let stand = Stand::new().await;
    stand.make("new").await;
    let mut old = serde_json::to_value(stand.object("old", "past")).unwrap();
    old["metadata"]["namespace"] = json!(stand.namespace.name());
    let objects = HashMap::from([("configmaps".to_owned(), vec![old])]);
    stand.proxy.rules().stale = Some(Stale { token: stand.token, objects });
    let mut events = stand.list().await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "bookmark") {
        seen.push(next(&mut events).await);
    }
    seen.retain(|told| told.ends_with("old") || told.ends_with("new"));
    assert_eq!(seen, ["+old"]);
    stand.proxy.rules().stale = None;
    stand.proxy.tell(Control::Expire(None));
    assert_eq!(next(&mut events).await, "410");
}
