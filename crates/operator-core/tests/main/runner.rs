//! What the runner promises around each reconcile.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use cluster::{TestNamespace, wait::eventually};
use harness::Harness;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::DynamicObject,
    discovery::ApiResource,
};
use operator_core::{
    Controller, Environment,
    metrics::{Metrics, ReconcileResult},
    register,
};
use serde_json::json;

use crate::{
    support::PATIENCE,
    widget::{ALWAYS, Behave, FINALIZER, Widget, WidgetController, WidgetSpec, visits},
};

struct World {
    harness: Arc<Harness>,
    namespace: TestNamespace,
    client: Client,
}

impl World {
    async fn new() -> Self {
        let harness = harness::controller::<WidgetController>().await.unwrap();
        let namespace = harness.cluster.namespace("runner").await.unwrap();
        let client = harness.cluster.client().await.unwrap();
        Self { harness, namespace, client }
    }

    fn widgets(&self) -> Api<Widget> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn create(&self, name: &str, behave: Behave) -> Widget {
        let widget = Widget::new(name, WidgetSpec { behave, number: None });
        self.widgets().create(&PostParams::default(), &widget).await.unwrap()
    }

    async fn until_count(&self, name: &str, count: i64) {
        eventually(&format!("{name} to count to {count}"), PATIENCE, async || {
            let status = self.widgets().get(name).await?.status;
            Ok(if status.as_ref().is_some_and(|status| status.count == count) { Ok(()) } else { Err(status) })
        })
        .await
        .unwrap();
    }

    async fn until_visited(&self, widget: &Widget, times: usize) {
        eventually(&format!("{times} visits"), PATIENCE, async || {
            let seen = visits(widget);
            Ok(if seen >= times { Ok(()) } else { Err(seen) })
        })
        .await
        .unwrap();
    }

    async fn events(&self, about: &str) -> Vec<Event> {
        let events = Api::<Event>::namespaced(self.client.clone(), &self.namespace);
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events
            .into_iter()
            .filter(|event| event.regarding.as_ref().is_some_and(|it| it.name.as_deref() == Some(about)))
            .collect()
    }
}

#[tokio::test]
async fn one_object_that_panics_fails_or_hangs_does_not_hold_up_another() {
    let world = World::new().await;
    let panics = world.create("panics", Behave::Panic).await;
    let fails = world.create("fails", Behave::Fail).await;
    let hangs = world.create("hangs", Behave::Hang).await;
    for widget in [&panics, &fails, &hangs] {
        world.until_visited(widget, 1).await;
    }
    world.create("well", Behave::Well).await;
    world.until_count("well", 1).await;
    world.until_visited(&panics, 2).await;
    world.until_visited(&fails, 2).await;
    world.widgets().delete("hangs", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn one_cause_is_one_event_however_often_it_is_tried() {
    let world = World::new().await;
    let fails = world.create("fails", Behave::Fail).await;
    world.until_visited(&fails, 3).await;
    let events = world.events("fails").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].note.as_deref(), Some("it was asked to fail"));
    assert_eq!(events[0].reason.as_deref(), Some("RequestInfo"));
    assert!(events[0].series.is_none(), "it was published once");
}

#[tokio::test]
async fn what_failed_for_good_waits_for_its_spec_to_change() {
    let world = World::new().await;
    let widget = world.create("stubborn", Behave::FailForGood).await;
    world.until_visited(&widget, 1).await;
    let other = world.create("fails", Behave::Fail).await;
    world.until_visited(&other, 3).await;
    assert_eq!(visits(&widget), 1, "the other was tried three times meanwhile");
    let better = Patch::Merge(json!({"spec": {"behave": "Well"}}));
    world.widgets().patch("stubborn", &PatchParams::default(), &better).await.unwrap();
    world.until_count("stubborn", 1).await;
}

#[tokio::test]
async fn status_writes_are_gathered_and_the_last_word_is_written() {
    let world = World::new().await;
    let widget = world.create("counts", Behave::CountFast).await;
    world.until_count("counts", 5).await;
    // The log may have the last of them after the API server has shown it.
    let times = eventually("five status writes in the log", PATIENCE, async || {
        let requests = world.harness.requests_in(&world.namespace)?;
        let writes = requests.filter(|entry| entry.subresource == "status").entries;
        let times: Vec<_> = writes.iter().map(|entry| entry.time).collect();
        Ok(if times.len() == 5 { Ok(times) } else { Err(times) })
    })
    .await
    .unwrap();
    for pair in times.windows(2) {
        let between = pair[0].duration_until(pair[1]).as_millis();
        assert!(between >= 90, "two status writes within {between} ms");
    }
    assert!(visits(&widget) >= 5);
}

#[tokio::test]
async fn a_status_that_somebody_changed_is_repaired_and_own_writes_cause_no_reconcile() {
    let world = World::new().await;
    let names: Vec<_> = (0..20).map(|number| format!("well-{number}")).collect();
    let mut widgets = Vec::new();
    for name in &names {
        widgets.push(world.create(name, Behave::Well).await);
    }
    for name in &names {
        world.until_count(name, 1).await;
    }
    // It is reconciled after all that the others caused.
    world.create("last", Behave::Well).await;
    world.until_count("last", 1).await;
    let made: Vec<_> = widgets.iter().map(visits).collect();
    assert_eq!(made, vec![1; names.len()], "neither the status nor the finalizer causes another");

    for (name, status) in [("well-0", json!({ "count": 7 })), ("well-1", json!(null))] {
        let lie = Patch::Merge(json!({ "status": status }));
        world.widgets().patch_status(name, &PatchParams::default(), &lie).await.unwrap();
        world.until_count(name, 1).await;
    }
    world.create("very-last", Behave::Well).await;
    world.until_count("very-last", 1).await;
    let repairs = visits(&widgets[0]) - 1;
    assert!(repairs <= 2, "one that may have to put the write off, and one that writes: {repairs}");
    let requests = world.harness.requests_in(&world.namespace).unwrap();
    let writes = requests.filter(|entry| entry.subresource == "status" && entry.name == "well-0");
    assert_eq!(writes.entries.len(), 2);
}

#[tokio::test]
async fn the_finalizer_is_there_before_the_first_reconcile_and_goes_with_the_clean_up() {
    let world = World::new().await;
    world.create("well", Behave::Well).await;
    world.until_count("well", 1).await;
    assert_eq!(world.widgets().get("well").await.unwrap().finalizers(), [FINALIZER]);
    world.widgets().delete("well", &DeleteParams::default()).await.unwrap();
    eventually("the object to go", PATIENCE, async || Ok(world.widgets().get_opt("well").await?.is_none()))
        .await
        .unwrap();
}

#[tokio::test]
async fn what_must_be_there_is_made_at_the_start_and_when_it_is_deleted_and_stays_as_people_change_it() {
    let world = World::new().await;
    let widgets = Api::<Widget>::namespaced(world.client.clone(), "default");
    let until_there = async |unlike: Option<String>| {
        eventually("the widget that must be there", PATIENCE, async || {
            let there = widgets.get_opt(ALWAYS).await?;
            let counted = there.filter(|there| there.status.is_some() && there.uid() != unlike);
            Ok(counted.ok_or("nothing"))
        })
        .await
        .unwrap()
    };
    let first = until_there(None).await;
    let fast = Patch::Merge(json!({"spec": {"behave": "CountFast"}}));
    widgets.patch(ALWAYS, &PatchParams::default(), &fast).await.unwrap();
    eventually("the change to be acted upon", PATIENCE, async || {
        let status = widgets.get(ALWAYS).await?.status;
        Ok(if status.as_ref().is_some_and(|status| status.count == 5) { Ok(()) } else { Err(status) })
    })
    .await
    .unwrap();
    assert!(matches!(widgets.get(ALWAYS).await.unwrap().spec.behave, Behave::CountFast));
    widgets.delete(ALWAYS, &DeleteParams::default()).await.unwrap();
    let second = until_there(first.uid()).await;
    assert!(matches!(second.spec.behave, Behave::Well));
    eventually("two creates in the log", PATIENCE, async || {
        let requests = world.harness.requests_in("default")?;
        let creates = requests.filter(|entry| entry.verb == "create" && entry.resource == "widgets").entries;
        let codes: Vec<_> = creates.iter().map(|entry| entry.code).collect();
        Ok(if codes == [201, 201] { Ok(()) } else { Err(codes) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_object_that_cannot_be_read_does_not_stop_the_others() {
    let world = World::new().await;
    let resource = ApiResource::erase::<Widget>(&());
    let raw: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), &world.namespace, &resource);
    let odd = json!({"apiVersion": "core.example.com/v1", "kind": "Widget", "metadata": {"name": "odd"},
        "spec": {"behave": "Well", "number": "not one"}});
    raw.create(&PostParams::default(), &serde_json::from_value(odd).unwrap()).await.unwrap();
    world.create("well", Behave::Well).await;
    world.until_count("well", 1).await;
    raw.delete("odd", &DeleteParams::default()).await.unwrap();
}

/// Remembers how reconciles ended.
#[derive(Default)]
struct Endings(Mutex<Vec<ReconcileResult>>);

impl Metrics for Endings {
    fn reconciled(&self, _controller: &'static str, ended: ReconcileResult, _took: Duration) {
        self.0.lock().unwrap().push(ended);
    }
}

#[tokio::test]
async fn a_reconcile_that_takes_too_long_is_cut_off_and_each_ending_is_measured() {
    let cluster = cluster::isolated().await.unwrap();
    cluster.install_crds(&WidgetController::crds()).await.unwrap();
    let client = cluster.client().await.unwrap();
    let endings = Arc::new(Endings::default());
    let mut environment = Environment::new(client.clone());
    environment.reconcile_timeout = Duration::from_millis(500);
    environment.metrics = endings.clone();
    let running = environment.clone();
    let running = tokio::spawn(async move { register::<WidgetController>().run(&running).await });

    let widgets = Api::<Widget>::default_namespaced(client);
    for (name, behave) in [("hangs", Behave::Hang), ("panics", Behave::Panic), ("well", Behave::Well)] {
        let widget = Widget::new(name, WidgetSpec { behave, number: None });
        widgets.create(&PostParams::default(), &widget).await.unwrap();
    }
    eventually("each ending", PATIENCE, async || {
        let seen = endings.0.lock().unwrap().clone();
        let all = [ReconcileResult::TimedOut, ReconcileResult::Panicked, ReconcileResult::Done]
            .iter()
            .all(|ended| seen.contains(ended));
        Ok(if all { Ok(()) } else { Err(seen) })
    })
    .await
    .unwrap();
    environment.stop.cancel();
    running.await.unwrap();
    cluster.stop().unwrap();
}
