//! What handlers answer from.

use futures::future::join_all;
use kube::Client;
use tokio::sync::watch::Receiver;

use super::webhook::SideEffects;
use crate::{
    environment::{Environment, Setting},
    events::Events,
    fence::Fence,
    informer::{Informer, Selection},
    kind::Kind,
    own_user::OwnUser,
};

/// Handed to [`Validator::wire`](super::Validator::wire): the informers of the process, which controllers and
/// handlers share. Reviews wait until those that were asked for are filled.
pub struct Caches<'e> {
    environment: &'e Environment,
    controller: &'e str,
    /// Whether what is written by a handler goes out.
    fence: Fence,
    synced: Vec<Receiver<bool>>,
}

impl<'e> Caches<'e> {
    /// For a webhook that says of itself whether it has side effects.
    pub(super) fn new(environment: &'e Environment, controller: &'e str, side_effects: SideEffects) -> Self {
        let fence = match side_effects {
            SideEffects::None => Fence::closed(),
            SideEffects::NoneOnDryRun => Fence::open(),
        };
        Self { environment, controller, fence, synced: Vec::new() }
    }

    /// An informer of a kind.
    pub fn informer<K: Kind>(&mut self, selection: Selection) -> Informer<K> {
        let informer = self.environment.informers.get::<K>(selection);
        self.synced.push(informer.synced());
        informer
    }

    /// A client for the one live read that is allowed where a cache that is behind would deny. It cannot write:
    /// a review has no side effects.
    pub fn reader(&self) -> Client {
        self.client(Fence::closed())
    }

    /// A client for what a review has to write before it may allow, which is next to nothing: a place that is taken
    /// before somebody else takes it. It writes only if the webhook was declared with
    /// [`side_effects`](super::Declaration::side_effects), and its handler must not use it in a dry run. It is not held
    /// back by leadership, since every replica answers reviews: each write must say which version it replaces.
    pub fn writer(&self) -> Client {
        self.client(self.fence.clone())
    }

    /// Where a webhook that was declared with [`side_effects`](super::Declaration::side_effects) tells people what it
    /// did, not in a dry run.
    pub fn events(&self) -> Events {
        Events::new(self.writer(), self.controller, &self.environment.instance)
    }

    fn client(&self, fence: Fence) -> Client {
        self.environment.clients.fenced(&format!("{} webhooks", self.controller), fence)
    }

    /// Who this process is to the API server, so that a handler knows its own requests.
    pub fn own_user(&self) -> OwnUser {
        self.environment.user.clone()
    }

    /// The value of one of the controller's settings.
    pub fn setting(&self, setting: &Setting) -> String {
        let given = self.environment.settings.get(setting.flag).cloned();
        given.unwrap_or_else(|| setting.default.to_owned())
    }

    /// The namespace that the manager itself runs in.
    pub fn manager_namespace(&self) -> &str {
        &self.environment.namespace
    }

    pub(super) fn into_filled(self) -> Filled {
        Filled(self.synced)
    }
}

/// Whether all informers that a handler answers from have been filled.
pub(super) struct Filled(Vec<Receiver<bool>>);

impl Filled {
    /// Waits until they are; for ever if one of them has ended, which takes the process with it.
    pub(super) async fn wait(&self) {
        if self.0.iter().all(|synced| *synced.borrow()) {
            return;
        }
        let mut waiting = self.0.clone();
        join_all(waiting.iter_mut().map(async |synced| {
            if synced.wait_for(|synced| *synced).await.is_err() {
                std::future::pending::<()>().await;
            }
        }))
        .await;
    }
}
