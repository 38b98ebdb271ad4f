//! Declaration of the clients, informers, and watches of a controller.

use std::sync::Arc;

use kube::{Client, Resource, core::object::HasStatus};
use serde::Serialize;

use crate::{
    endpoint::Connector,
    environment::{Environment, Setting},
    events::Events,
    fence::Fence,
    informer::{Change, Informer, Pack, Selection, Subscription, SyncedInformers},
    kind::{Kind, ObjectKey},
    metrics::{GaugeSamples, Histogram, Observe},
    owner::{controller_of, refers_to},
    queue::Queue,
    status::StatusWriter,
    write::Children,
    writer::Writer,
};

/// Declares what a controller watches and gives it its clients, informers, and writers.
///
/// [`Controller::build`](crate::controller::Controller::build) receives it and corresponds to
/// `SetupWithManager` of a controller in Go.
pub struct ControllerBuilder<'e, K> {
    environment: &'e Environment,
    name: &'static str,
    client: Client,
    events: Events,
    objects: Informer<K>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) subscriptions: Vec<Subscription>,
    /// Informers that must sync before the first reconcile.
    synced: SyncedInformers,
}

impl<'e, K: Kind + Serialize> ControllerBuilder<'e, K> {
    pub(crate) fn new(environment: &'e Environment, name: &'static str) -> Self {
        let client = environment.clients.fenced(name, environment.fence.clone());
        let events = Events::new(client.clone(), name, &environment.instance);
        let queue = Arc::new(Queue::paused());
        let objects = environment.informers.get::<K>(Selection::All);
        let mut synced = SyncedInformers::new(environment.informers.scope());
        synced.add(&objects);
        let changed = queue.clone();
        let own = objects.subscribe(move |change| {
            if needs_reconcile(change) {
                changed.add(change.key.clone());
            }
        });
        Self { environment, name, client, events, objects, queue, subscriptions: vec![own], synced }
    }

    /// Returns the client of the controller. Its writes fail if this replica does not lead.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns what connects the controller to other addresses of the API server.
    pub fn connector(&self) -> Connector {
        let Environment { clients, connect, fence, .. } = self.environment;
        Connector::new(clients.clone(), connect.clone(), self.name, fence.clone())
    }

    /// Returns the fence of the controller. Check it before a write to any system other than the
    /// API server.
    pub fn fence(&self) -> Fence {
        self.environment.fence.clone()
    }

    /// Returns the publisher of Events.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// Returns the informer of the controller's own kind.
    pub fn objects(&self) -> &Informer<K> {
        &self.objects
    }

    /// Returns the writer of the status of the controller's objects.
    ///
    /// If another client changes a status, the object is reconciled.
    pub fn status(&mut self) -> StatusWriter<K>
    where
        K: HasStatus,
        K::Status: Clone + PartialEq + Serialize,
    {
        self.status_with_shared_fields(|_| {})
    }

    /// Returns a status writer like [`status`](Self::status), for a status with fields that other
    /// clients write too.
    ///
    /// `clear_shared` clears these fields. A change of only these fields does not trigger a
    /// reconcile. The status that the controller computes must preserve them.
    pub fn status_with_shared_fields(&mut self, clear_shared: fn(&mut K::Status)) -> StatusWriter<K>
    where
        K: HasStatus,
        K::Status: Clone + PartialEq + Serialize,
    {
        let objects = self.objects.clone();
        self.status_of(&objects, clear_shared, |change| vec![change.key.clone()])
    }

    /// Returns the writer of the status of objects of another kind.
    ///
    /// If another client changes such a status, the objects that `map` returns are reconciled. For
    /// `clear_shared`, see [`status_with_shared_fields`](Self::status_with_shared_fields).
    pub fn status_of<C>(
        &mut self,
        informer: &Informer<C>,
        clear_shared: fn(&mut C::Status),
        map: impl Fn(&Change<C>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> StatusWriter<C>
    where
        C: Kind + Serialize + HasStatus,
        C::Status: Clone + PartialEq + Serialize,
    {
        let writer = StatusWriter::new(self.client(), informer.clone(), clear_shared);
        let own = writer.own_writes();
        self.watches(informer, move |change| if own.is_foreign(change) { map(change) } else { Vec::new() });
        writer
    }

    /// Returns the value of a setting of the controller.
    pub fn setting(&self, setting: &Setting) -> String {
        self.environment.settings.get(setting.flag).cloned().unwrap_or_else(|| setting.default.to_owned())
    }

    /// Reports the controller's own gauges. `read` runs on every scrape and returns their samples.
    ///
    /// Only the replica that leads the controller reports them.
    pub fn gauges(&self, read: impl Fn() -> Vec<GaugeSamples> + Send + Sync + 'static) {
        let fence = self.environment.fence.clone();
        let read = move || if fence.check().is_ok() { read() } else { Vec::new() };
        self.environment.metrics.gauges(self.name, Box::new(read));
    }

    /// Returns the function that adds a duration to a histogram of the controller.
    ///
    /// Only the replica that leads the controller adds it, so each observation counts once.
    pub fn histogram(&self, histogram: &'static Histogram) -> Observe {
        let fence = self.environment.fence.clone();
        let observe = self.environment.metrics.histogram(histogram);
        Box::new(move |duration| {
            if fence.check().is_ok() {
                observe(duration);
            }
        })
    }

    /// Returns the namespace of the manager.
    pub fn manager_namespace(&self) -> &str {
        &self.environment.namespace
    }

    /// Finishes the declaration. From now on, the queue returns the keys of a namespace as soon as
    /// all informers have synced it.
    pub(crate) fn finish(&mut self) {
        let synced = std::mem::take(&mut self.synced);
        self.subscriptions.extend(synced.open_when_synced(&self.queue));
    }

    /// Returns an informer of another kind.
    ///
    /// The first reconcile waits until it has synced. If the process watches only some namespaces,
    /// the objects of a namespace wait until the informer has listed that namespace.
    pub fn informer<C: Kind>(&mut self, selection: Selection) -> Informer<C> {
        self.wait_for(self.environment.informers.get::<C>(selection))
    }

    /// Returns an informer of another kind, like [`ControllerBuilder::informer`]. It keeps the objects packed.
    pub fn packed_informer<C: Pack>(&mut self, selection: Selection) -> Informer<C> {
        self.wait_for(self.environment.informers.get_packed::<C>(selection))
    }

    /// Returns an informer of another kind, like [`ControllerBuilder::informer`]. It keeps the objects as JSON, which
    /// takes a third of the memory, and 3 to 20 us at each read.
    pub fn json_informer<C: Kind + Serialize + PartialEq>(&mut self, selection: Selection) -> Informer<C> {
        self.wait_for(self.environment.informers.get_as_json::<C>(selection))
    }

    fn wait_for<C: Kind>(&mut self, informer: Informer<C>) -> Informer<C> {
        self.synced.add(&informer);
        informer
    }

    /// Reconciles the objects that `map` returns when an object of the informer changes.
    ///
    /// `map` receives the object before and after the change, so it can return both the old and the
    /// new owner.
    pub fn watches<C: Kind>(
        &mut self,
        informer: &Informer<C>,
        map: impl Fn(&Change<C>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) {
        let queue = self.queue.clone();
        self.subscriptions.push(informer.subscribe(move |change| {
            for key in map(change) {
                queue.add(key);
            }
        }));
    }

    /// Returns a handle that reconciles objects on news that no informer brings, for example from
    /// another system.
    pub fn trigger(&self) -> Trigger {
        Trigger(self.queue.clone())
    }

    /// Returns a writer for the objects of an informer.
    pub fn writer<C: Kind>(&self, informer: Informer<C>) -> Writer<C> {
        Writer::new(self.client(), informer)
    }

    /// Returns a writer of children that carry a controller reference and the managed-by label.
    ///
    /// A change of a child reconciles its owner.
    pub fn owns<C: Kind + Serialize + PartialEq + Default>(&mut self) -> Children<C> {
        self.children(controllers_of::<C, K>)
    }

    /// Returns a writer of children that carry the managed-by label.
    ///
    /// A change of a child reconciles the objects that `map` returns.
    pub fn children<C: Kind + Serialize + PartialEq + Default>(
        &mut self,
        map: impl Fn(&Change<C>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Children<C> {
        let informer = self.json_informer::<C>(Selection::Managed);
        self.watches(&informer, map);
        Children::new(self.client(), informer)
    }
}

/// Requests reconciles. Clones request them from the same controller.
#[derive(Clone)]
pub struct Trigger(Arc<Queue>);

impl Trigger {
    /// Reconciles an object soon. Requests that come before its reconcile begins are one request.
    pub fn reconcile(&self, key: ObjectKey) {
        self.0.add(key);
    }
}

impl std::fmt::Debug for Trigger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trigger").field("waiting", &self.0.len()).finish()
    }
}

/// Returns the keys of the objects of kind `K` that control the changed object, or controlled it
/// before the change.
pub fn controllers_of<C: Kind, K: Kind>(change: &Change<C>) -> Vec<ObjectKey> {
    change.states().filter_map(|state| controller_key::<K>(state.meta())).collect()
}

/// Returns the key of the object of kind `K` that controls an object with this metadata.
pub fn controller_key<K: Kind>(meta: &kube::core::ObjectMeta) -> Option<ObjectKey> {
    let owner = controller_of(meta).filter(|owner| refers_to::<K>(owner))?;
    Some(K::key_within(meta.namespace.as_deref(), &owner.name))
}

/// Returns whether a change of a controller's own object requires a reconcile. This predicate
/// corresponds to `GenerationChangedPredicate` of controller-runtime.
///
/// It does if the object was created or deleted, if its spec or its deletion timestamp changed, or
/// if it lost a finalizer. An added finalizer does not. For the status, see
/// [`ControllerBuilder::status`].
fn needs_reconcile<K: Resource>(change: &Change<K>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let (old, new) = (old.meta(), new.meta());
    old.uid != new.uid
        || old.generation != new.generation
        || old.deletion_timestamp != new.deletion_timestamp
        || old
            .finalizers
            .iter()
            .flatten()
            .any(|name| !new.finalizers.iter().flatten().any(|other| other == name))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Namespace;
    use parking_lot::Mutex;

    use super::*;
    use crate::{
        fence::{Fence, now},
        metrics::{Gauge, Metrics},
    };

    static SIZE: Gauge = Gauge { name: "size", help: "How large it is", labels: &[] };
    static DURATION: Histogram = Histogram { name: "seconds", help: "How long it takes", bounds: &[1.0] };

    type Read = Box<dyn Fn() -> Vec<GaugeSamples> + Send + Sync>;

    /// Stores the callback that reads the gauges, and the durations of histograms.
    #[derive(Default)]
    struct Recorder {
        read: Mutex<Option<Read>>,
        observed: Arc<Mutex<Vec<Duration>>>,
    }

    impl Metrics for Recorder {
        fn gauges(&self, controller: &'static str, read: Read) {
            assert_eq!(controller, "test");
            *self.read.lock() = Some(read);
        }

        fn histogram(&self, histogram: &'static Histogram) -> Observe {
            assert_eq!(histogram, &DURATION);
            let observed = self.observed.clone();
            Box::new(move |duration| observed.lock().push(duration))
        }
    }

    #[tokio::test]
    async fn reports_metrics_of_controller_only_while_leading() {
        let service = tower::service_fn(|_| async {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>().await
        });
        let recorder = Arc::new(Recorder::default());
        let fence = Fence::closed();
        let environment = Environment::with_metrics(Client::new(service, "default"), recorder.clone());
        let environment = Environment { fence: fence.clone(), ..environment };
        let builder = ControllerBuilder::<Namespace>::new(&environment, "test");
        builder.gauges(|| vec![GaugeSamples { gauge: &SIZE, series: vec![(Vec::new(), 1.0)] }]);
        let observe = builder.histogram(&DURATION);
        let reported = |seconds| {
            observe(Duration::from_secs(seconds));
            (recorder.read.lock().as_ref().unwrap()().len(), recorder.observed.lock().clone())
        };
        assert_eq!(reported(1), (0, vec![]));
        fence.open_until(now() + Duration::from_mins(1));
        assert_eq!(reported(2), (1, vec![Duration::from_secs(2)]));
        fence.close();
        assert_eq!(reported(3), (0, vec![Duration::from_secs(2)]));
    }
}
