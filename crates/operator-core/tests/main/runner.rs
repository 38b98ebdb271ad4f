//! The runner: isolation, retries, status, finalizers, and default objects.

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
    widget::{Behavior, DEFAULT, FINALIZER, Widget, WidgetController, WidgetSpec, reconciles},
};

struct Fixture {
    harness: Arc<Harness>,
    namespace: TestNamespace,
    client: Client,
}

impl Fixture {
    async fn new() -> Self {
        let harness = harness::controller::<WidgetController>().await.unwrap();
        let namespace = harness.cluster.namespace("runner").await.unwrap();
        let client = harness.cluster.client().await.unwrap();
        Self { harness, namespace, client }
    }

    fn widgets(&self) -> Api<Widget> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn create(&self, name: &str, behavior: Behavior) -> Widget {
        let widget = Widget::new(name, WidgetSpec { behavior, number: None });
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

    async fn until_reconciled(&self, widget: &Widget, times: usize) {
        eventually(&format!("{times} reconciles"), PATIENCE, async || {
            let count = reconciles(widget);
            Ok(if count >= times { Ok(()) } else { Err(count) })
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
async fn object_that_panics_fails_or_hangs_does_not_delay_others() {
    let fixture = Fixture::new().await;
    let panics = fixture.create("panics", Behavior::Panic).await;
    let fails = fixture.create("fails", Behavior::Fail).await;
    let hangs = fixture.create("hangs", Behavior::Hang).await;
    for widget in [&panics, &fails, &hangs] {
        fixture.until_reconciled(widget, 1).await;
    }
    fixture.create("well", Behavior::Well).await;
    fixture.until_count("well", 1).await;
    fixture.until_reconciled(&panics, 2).await;
    fixture.until_reconciled(&fails, 2).await;
    fixture.widgets().delete("hangs", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn one_cause_produces_one_event() {
    let fixture = Fixture::new().await;
    let fails = fixture.create("fails", Behavior::Fail).await;
    fixture.until_reconciled(&fails, 3).await;
    // Events are sent beside the reconciles.
    eventually("an Event", PATIENCE, async || Ok(!fixture.events("fails").await.is_empty())).await.unwrap();
    let events = fixture.events("fails").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].note.as_deref(), Some("the object requests a failure"));
    assert_eq!(events[0].reason.as_deref(), Some("Requested"));
    assert!(events[0].series.is_none(), "it was published once");
}

#[tokio::test]
async fn terminal_error_is_not_retried_until_the_spec_changes() {
    let fixture = Fixture::new().await;
    let widget = fixture.create("terminal", Behavior::FailTerminally).await;
    fixture.until_reconciled(&widget, 1).await;
    let other = fixture.create("fails", Behavior::Fail).await;
    fixture.until_reconciled(&other, 3).await;
    assert_eq!(reconciles(&widget), 1, "the other widget was retried in the meantime");
    let fixed = Patch::Merge(json!({"spec": {"behavior": "Well"}}));
    fixture.widgets().patch("terminal", &PatchParams::default(), &fixed).await.unwrap();
    fixture.until_count("terminal", 1).await;
}

#[tokio::test]
async fn status_writes_are_limited_and_the_last_status_is_written() {
    let fixture = Fixture::new().await;
    let widget = fixture.create("counts", Behavior::CountFast).await;
    fixture.until_count("counts", 5).await;
    // The audit log can contain the last write after the API server returns it.
    let times = eventually("five status writes in the log", PATIENCE, async || {
        let requests = fixture.harness.requests_in(&fixture.namespace)?;
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
    assert!(reconciles(&widget) >= 5);
}

#[tokio::test]
async fn foreign_status_change_is_repaired_and_own_writes_cause_no_reconcile() {
    let fixture = Fixture::new().await;
    let names: Vec<_> = (0..20).map(|number| format!("well-{number}")).collect();
    let mut widgets = Vec::new();
    for name in &names {
        widgets.push(fixture.create(name, Behavior::Well).await);
    }
    for name in &names {
        fixture.until_count(name, 1).await;
    }
    // Reconciled after everything that the others caused.
    fixture.create("last", Behavior::Well).await;
    fixture.until_count("last", 1).await;
    let counts: Vec<_> = widgets.iter().map(reconciles).collect();
    assert_eq!(counts, vec![1; names.len()], "neither the status nor the finalizer causes a reconcile");

    for (name, status) in [("well-0", json!({ "count": 7 })), ("well-1", json!(null))] {
        let change = Patch::Merge(json!({ "status": status }));
        fixture.widgets().patch_status(name, &PatchParams::default(), &change).await.unwrap();
        fixture.until_count(name, 1).await;
    }
    fixture.create("very-last", Behavior::Well).await;
    fixture.until_count("very-last", 1).await;
    let repairs = reconciles(&widgets[0]) - 1;
    assert!(repairs <= 2, "one that can postpone the write, and one that writes: {repairs}");
    let requests = fixture.harness.requests_in(&fixture.namespace).unwrap();
    let writes = requests.filter(|entry| entry.subresource == "status" && entry.name == "well-0");
    assert_eq!(writes.entries.len(), 2);
}

#[tokio::test]
async fn finalizer_is_added_before_the_first_reconcile_and_removed_after_cleanup() {
    let fixture = Fixture::new().await;
    fixture.create("well", Behavior::Well).await;
    fixture.until_count("well", 1).await;
    assert_eq!(fixture.widgets().get("well").await.unwrap().finalizers(), [FINALIZER]);
    fixture.widgets().delete("well", &DeleteParams::default()).await.unwrap();
    eventually("the object to be deleted", PATIENCE, async || {
        Ok(fixture.widgets().get_opt("well").await?.is_none())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn default_object_is_recreated_and_never_modified() {
    let fixture = Fixture::new().await;
    let widgets = Api::<Widget>::namespaced(fixture.client.clone(), "default");
    let until_exists = async |previous: Option<String>| {
        eventually("the default object", PATIENCE, async || {
            let widget = widgets.get_opt(DEFAULT).await?;
            let reconciled = widget.filter(|widget| widget.status.is_some() && widget.uid() != previous);
            Ok(reconciled.ok_or("nothing"))
        })
        .await
        .unwrap()
    };
    let first = until_exists(None).await;
    let fast = Patch::Merge(json!({"spec": {"behavior": "CountFast"}}));
    widgets.patch(DEFAULT, &PatchParams::default(), &fast).await.unwrap();
    eventually("the change to be reconciled", PATIENCE, async || {
        let status = widgets.get(DEFAULT).await?.status;
        Ok(if status.as_ref().is_some_and(|status| status.count == 5) { Ok(()) } else { Err(status) })
    })
    .await
    .unwrap();
    assert!(matches!(widgets.get(DEFAULT).await.unwrap().spec.behavior, Behavior::CountFast));
    widgets.delete(DEFAULT, &DeleteParams::default()).await.unwrap();
    let second = until_exists(first.uid()).await;
    assert!(matches!(second.spec.behavior, Behavior::Well));
    eventually("two creates in the audit log", PATIENCE, async || {
        let requests = fixture.harness.requests_in("default")?;
        let creates = requests.filter(|entry| entry.verb == "create" && entry.resource == "widgets").entries;
        let codes: Vec<_> = creates.iter().map(|entry| entry.code).collect();
        Ok(if codes == [201, 201] { Ok(()) } else { Err(codes) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn object_that_cannot_be_decoded_does_not_affect_others() {
    let fixture = Fixture::new().await;
    let resource = ApiResource::erase::<Widget>(&());
    let raw: Api<DynamicObject> = Api::namespaced_with(fixture.client.clone(), &fixture.namespace, &resource);
    let odd = json!({"apiVersion": "core.example.com/v1", "kind": "Widget", "metadata": {"name": "odd"},
        "spec": {"behavior": "Well", "number": "not one"}});
    raw.create(&PostParams::default(), &serde_json::from_value(odd).unwrap()).await.unwrap();
    fixture.create("well", Behavior::Well).await;
    fixture.until_count("well", 1).await;
    raw.delete("odd", &DeleteParams::default()).await.unwrap();
}

/// Records the results of reconciles.
#[derive(Default)]
struct Results(Mutex<Vec<ReconcileResult>>);

impl Metrics for Results {
    fn reconciled(&self, _controller: &'static str, result: ReconcileResult, _duration: Duration) {
        self.0.lock().unwrap().push(result);
    }
}

#[tokio::test]
async fn reconcile_times_out_and_every_result_is_reported() {
    let cluster = cluster::isolated().await.unwrap();
    cluster.install_crds(&WidgetController::crds()).await.unwrap();
    let client = cluster.client().await.unwrap();
    let results = Arc::new(Results::default());
    let mut environment = Environment::new(client.clone());
    environment.reconcile_timeout = Duration::from_millis(500);
    environment.metrics = results.clone();
    let running = environment.clone();
    let running = tokio::spawn(async move { register::<WidgetController>().run(&running).await });

    let widgets = Api::<Widget>::default_namespaced(client);
    for (name, behavior) in [("hangs", Behavior::Hang), ("panics", Behavior::Panic), ("well", Behavior::Well)]
    {
        let widget = Widget::new(name, WidgetSpec { behavior, number: None });
        widgets.create(&PostParams::default(), &widget).await.unwrap();
    }
    eventually("each result", PATIENCE, async || {
        let reported = results.0.lock().unwrap().clone();
        let all = [ReconcileResult::TimedOut, ReconcileResult::Panicked, ReconcileResult::Done]
            .iter()
            .all(|result| reported.contains(result));
        Ok(if all { Ok(()) } else { Err(reported) })
    })
    .await
    .unwrap();
    environment.stop.cancel();
    running.await.unwrap();
    cluster.stop().unwrap();
}
