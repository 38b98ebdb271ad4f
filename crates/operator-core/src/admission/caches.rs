//! What handlers answer from.

use futures::future::join_all;
use kube::Client;
use tokio::sync::watch::Receiver;

use crate::{
    environment::{Environment, Setting},
    fence::Fence,
    informer::{Informer, Selection},
    kind::Kind,
};

/// Handed to [`Validator::wire`](super::Validator::wire): the informers of the process, which controllers and
/// handlers share. Reviews wait until those that were asked for are filled.
pub struct Caches<'e> {
    environment: &'e Environment,
    controller: &'e str,
    synced: Vec<Receiver<bool>>,
}

impl<'e> Caches<'e> {
    pub(super) fn new(environment: &'e Environment, controller: &'e str) -> Self {
        Self { environment, controller, synced: Vec::new() }
    }

    /// An informer of a kind.
    pub fn informer<K: Kind>(&mut self, selection: Selection) -> Informer<K> {
        let informer = self.environment.informers.get::<K>(selection);
        self.synced.push(informer.synced());
        informer
    }

    /// An informer of a custom resource that people write.
    pub fn custom<K: Kind>(&mut self) -> Informer<K> {
        let informer = self.environment.informers.custom::<K>();
        self.synced.push(informer.synced());
        informer
    }

    /// A client for the one live read that is allowed where a cache that is behind would deny. It cannot write:
    /// a review has no side effects.
    pub fn reader(&self) -> Client {
        self.environment.clients.fenced(&format!("{} webhooks", self.controller), Fence::closed())
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
