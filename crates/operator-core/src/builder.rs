//! How a controller says what it watches.

use std::sync::Arc;

use kube::{Client, Resource, core::object::HasStatus};
use serde::Serialize;

use crate::{
    environment::{Environment, Setting},
    events::Events,
    fence::Fence,
    informer::{Change, Informer, Selection, Subscription, SyncedInformers},
    kind::{Kind, ObjectKey},
    metrics::Reading,
    owner::{controller_of, refers_to},
    queue::Queue,
    status::StatusWriter,
    write::Children,
    writer::Writer,
};

/// Handed to [`Controller::build`](crate::controller::Controller::build): gives the controller its clients and
/// informers, and notes which changes concern which of its objects.
pub struct ControllerBuilder<'e, K> {
    environment: &'e Environment,
    name: &'static str,
    client: Client,
    events: Events,
    objects: Informer<K>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) subscriptions: Vec<Subscription>,
    /// What must be known before reconciles begin.
    synced: SyncedInformers,
}

impl<'e, K: Kind + Serialize> ControllerBuilder<'e, K> {
    pub(crate) fn new(environment: &'e Environment, name: &'static str) -> Self {
        let client = environment.clients.fenced(name, environment.fence.clone());
        let events = Events::new(client.clone(), name, &environment.instance);
        let queue = Arc::new(Queue::paused());
        let objects = environment.informers.get::<K>(Selection::All);
        let mut synced = SyncedInformers::new(environment.informers.scope());
        synced.needs(&objects);
        let changed = queue.clone();
        let own = objects.subscribe(move |change| {
            if concerns_reconcile(change) {
                changed.add(change.key.clone());
            }
        });
        Self { environment, name, client, events, objects, queue, subscriptions: vec![own], synced }
    }

    /// The controller's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The fence around the controller's writes, for what it sends to others than the API server.
    pub fn fence(&self) -> Fence {
        self.environment.fence.clone()
    }

    /// Where the controller tells people what happened.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// The objects that the controller looks after.
    pub fn objects(&self) -> &Informer<K> {
        &self.objects
    }

    /// Writes the status of the controller's objects. An object is reconciled when another client changes its status.
    pub fn status(&mut self) -> StatusWriter<K>
    where
        K: HasStatus,
        K::Status: Clone + PartialEq + Serialize,
    {
        self.status_with_shared_fields(|_| {})
    }

    /// As [`status`](Self::status), where others write some fields by right. `clear_shared` clears these fields. Changes
    /// of them do not have the object reconciled, and the status that the controller computes must keep them.
    pub fn status_with_shared_fields(&mut self, clear_shared: fn(&mut K::Status)) -> StatusWriter<K>
    where
        K: HasStatus,
        K::Status: Clone + PartialEq + Serialize,
    {
        let objects = self.objects.clone();
        self.status_of(&objects, clear_shared, |change| vec![change.key.clone()])
    }

    /// Writes the status of objects of another kind. When another client changes it, the objects that `concerned` names
    /// are reconciled. For `clear_shared`, see [`status_with_shared_fields`](Self::status_with_shared_fields).
    pub fn status_of<C>(
        &mut self,
        informer: &Informer<C>,
        clear_shared: fn(&mut C::Status),
        concerned: impl Fn(&Change<C>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> StatusWriter<C>
    where
        C: Kind + Serialize + HasStatus,
        C::Status: Clone + PartialEq + Serialize,
    {
        let writer = StatusWriter::new(self.client(), informer.clone(), clear_shared);
        let own = writer.own_writes();
        self.watches(
            informer,
            move |change| {
                if own.is_foreign(change) { concerned(change) } else { Vec::new() }
            },
        );
        writer
    }

    /// The value of one of the controller's settings.
    pub fn setting(&self, setting: &Setting) -> String {
        self.environment.settings.get(setting.flag).cloned().unwrap_or_else(|| setting.default.to_owned())
    }

    /// Shows the controller's own gauges: `read` says what they show, whenever somebody asks for the metrics. Of several
    /// replicas the one that leads the controller shows them.
    pub fn gauges(&self, read: impl Fn() -> Vec<Reading> + Send + Sync + 'static) {
        let fence = self.environment.fence.clone();
        let read = move || if fence.check().is_ok() { read() } else { Vec::new() };
        self.environment.metrics.gauges(self.name, Box::new(read));
    }

    /// The namespace that the manager itself runs in.
    pub fn manager_namespace(&self) -> &str {
        &self.environment.namespace
    }

    /// Ends the builder: from now on the queue hands out the objects of a namespace as soon as all informers know it.
    pub(crate) fn finish(&mut self) {
        let synced = std::mem::take(&mut self.synced);
        self.subscriptions.extend(synced.open_when_synced(&self.queue));
    }

    /// An informer of another kind. Reconciles begin only after it has been synced; where the process looks into
    /// some namespaces only, those of a namespace after its objects have been listed.
    pub fn informer<C: Kind>(&mut self, selection: Selection) -> Informer<C> {
        let informer = self.environment.informers.get::<C>(selection);
        self.synced.needs(&informer);
        informer
    }

    /// Reconciles the objects that `concerned` names whenever an object of the informer changes.
    ///
    /// It sees the object before and after, so that both an old and a new owner can be named.
    pub fn watches<C: Kind>(
        &mut self,
        informer: &Informer<C>,
        concerned: impl Fn(&Change<C>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) {
        let queue = self.queue.clone();
        self.subscriptions.push(informer.subscribe(move |change| {
            for key in concerned(change) {
                queue.add(key);
            }
        }));
    }

    /// Reads and writes the objects that an informer holds.
    pub fn writer<C: Kind>(&self, informer: Informer<C>) -> Writer<C> {
        Writer::new(self.client(), informer)
    }

    /// Children of a kind that carry a controller reference to their object and the label of all that we
    /// manage. A change of a child reconciles its owner.
    pub fn owns<C: Kind + Serialize + PartialEq + Default>(&mut self) -> Children<C> {
        self.children(controllers_of::<C, K>)
    }

    /// Children of a kind that carry the label of all that we manage; `concerned` names the objects that a
    /// change of a child reconciles.
    pub fn children<C: Kind + Serialize + PartialEq + Default>(
        &mut self,
        concerned: impl Fn(&Change<C>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Children<C> {
        let informer = self.informer::<C>(Selection::Managed);
        self.watches(&informer, concerned);
        Children::new(self.client(), informer)
    }
}

/// The objects of kind `K` that control the changed object, or did so before the change.
pub fn controllers_of<C: Kind, K: Kind>(change: &Change<C>) -> Vec<ObjectKey> {
    change.states().filter_map(|state| controller_key::<K>(state.meta())).collect()
}

/// The key of the object of kind `K` that controls an object with this metadata.
pub fn controller_key<K: Kind>(meta: &kube::core::ObjectMeta) -> Option<ObjectKey> {
    let owner = controller_of(meta).filter(|owner| refers_to::<K>(owner))?;
    Some(K::key_within(meta.namespace.as_deref(), &owner.name))
}

/// Whether a change of a controller's own object is one to act on: it came, went, got another spec, is being
/// deleted, or lost a finalizer. Added finalizers, which are our own, are not. For changes of status, see
/// [`ControllerBuilder::status`].
fn concerns_reconcile<K: Resource>(change: &Change<K>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let (old, new) = (old.meta(), new.meta());
    old.uid != new.uid
        || old.generation != new.generation
        || old.deletion_timestamp != new.deletion_timestamp
        || old.finalizers.iter().flatten().any(|held| !new.finalizers.iter().flatten().any(|now| now == held))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use parking_lot::Mutex;

    use super::*;
    use crate::{
        fence::{Fence, now},
        metrics::{Gauge, Metrics},
    };

    static SIZE: Gauge = Gauge { name: "size", help: "How large it is", labels: &[] };

    type Read = Box<dyn Fn() -> Vec<Reading> + Send + Sync>;

    /// Keeps what it is to read.
    #[derive(Default)]
    struct Kept(Mutex<Option<Read>>);

    impl Metrics for Kept {
        fn gauges(&self, controller: &'static str, read: Read) {
            assert_eq!(controller, "test");
            *self.0.lock() = Some(read);
        }
    }

    #[tokio::test]
    async fn a_replica_that_does_not_lead_shows_no_gauges_of_the_controller() {
        let service = tower::service_fn(|_| async {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>().await
        });
        let kept = Arc::new(Kept::default());
        let fence = Fence::closed();
        let measured = Environment::measured(Client::new(service, "default"), kept.clone());
        let environment = Environment { fence: fence.clone(), ..measured };
        let builder = ControllerBuilder::<Namespace>::new(&environment, "test");
        builder.gauges(|| vec![Reading { gauge: &SIZE, series: vec![(Vec::new(), 1.0)] }]);
        let shown = || kept.0.lock().as_ref().unwrap()().len();
        assert_eq!(shown(), 0);
        fence.open_until(now() + std::time::Duration::from_mins(1));
        assert_eq!(shown(), 1);
        fence.close();
        assert_eq!(shown(), 0);
    }
}
