//! The PodSet controller.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::{
    api::core::v1::Pod, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    jiff::Timestamp,
};
use kube::Client;
use operator_core::{
    Controller, ObjectKey, Outcome, ReconcileError, Setting, Wiring,
    error::{chain, is_already_exists, is_namespace_terminating},
    owner::{Owner, OwnerError},
    rbac::{CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
    write::WriteError,
    writer::Unless,
};

use crate::{
    api::PodSet,
    build,
    claim::claim,
    observe::{KnownPod, Pods},
    plan::{Plan, plan},
    schema,
    status::{Trouble, status},
};

/// The image of the default container.
pub const IMAGE: Setting = Setting {
    flag: "podset-image",
    env: "PODSET_IMAGE",
    default: "quay.io/amacdona/strauss",
    values: &[],
    help: "Image of the pods of a PodSet that has no template",
};

/// Why a PodSet could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The PodSet cannot own pods.
    #[error("cannot make pods")]
    Owner(#[from] OwnerError),
    /// A pod could not be adopted or released.
    #[error(transparent)]
    Claim(WriteError),
    /// A pod could not be made; a quota or an admission policy may stand against it.
    #[error(transparent)]
    Create(WriteError),
    /// A surplus pod could not be deleted.
    #[error(transparent)]
    Delete(WriteError),
    /// The status could not be written.
    #[error(transparent)]
    Status(WriteError),
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Owner(_) => "NoOwner",
            Self::Claim(_) => "FailedAdopt",
            Self::Create(_) => "FailedCreate",
            Self::Delete(_) => "FailedDelete",
            Self::Status(_) => "FailedStatus",
        }
    }
}

/// Keeps a number of pods for each PodSet.
pub struct PodSetController {
    client: Client,
    pods: Pods,
    status: StatusWriter<PodSet>,
    image: String,
}

impl Controller for PodSetController {
    const NAME: &'static str = "podset";
    type Object = PodSet;
    type Error = Error;

    fn rules() -> Vec<Rule> {
        vec![
            rule::<PodSet>(GET | LIST | WATCH),
            rule::<PodSet>(UPDATE).subresource("status"),
            rule::<PodSet>(UPDATE).subresource("finalizers"),
            rule::<Pod>(LIST | WATCH | CREATE | PATCH | DELETE),
        ]
    }

    fn crds() -> Vec<CustomResourceDefinition> {
        vec![schema::crd()]
    }

    fn settings() -> &'static [Setting] {
        &[IMAGE]
    }

    fn wire(wiring: &mut Wiring<'_, PodSet>) -> Self {
        Self {
            client: wiring.client(),
            pods: Pods::wire(wiring),
            status: wiring.status(),
            image: wiring.setting(&IMAGE),
        }
    }

    async fn reconcile(&self, set: Arc<PodSet>) -> Result<Outcome, Error> {
        let owner = Owner::controller(set.as_ref(), set.metadata.namespace.as_deref())?;
        claim(&self.client, &self.pods, &set, &owner).await?;
        let plan = plan(&set, &self.pods.owned(&set), |name| self.pods.is_taken(&set, name));
        let acted = self.act(&set, &owner, plan).await;
        if matches!(&acted, Err(Error::Create(error)) if error.answer().is_some_and(is_namespace_terminating))
        {
            return Ok(Outcome::AwaitChange);
        }
        let told = self.tell(&set, acted.as_ref().err()).await;
        acted?;
        told
    }
}

impl PodSetController {
    /// Carries out the plan. The first pod is made alone: what refuses one will refuse all.
    async fn act(&self, set: &PodSet, owner: &Owner, plan: Plan) -> Result<(), Error> {
        for deleted in join_all(plan.delete.iter().map(|pod| self.delete(pod))).await {
            deleted?;
        }
        let mut names = plan.create.into_iter();
        if let Some(first) = names.next() {
            self.create(set, owner, first).await?;
        }
        for created in join_all(names.map(|name| self.create(set, owner, name))).await {
            created?;
        }
        Ok(())
    }

    /// Makes a pod. One that exists already was made by an earlier reconcile; the informer will show it.
    async fn create(&self, set: &PodSet, owner: &Owner, name: String) -> Result<(), Error> {
        let pod = build::pod(set, owner, name, &self.image);
        match self.pods.writer.create(&ObjectKey::of(&pod), &pod).await {
            Err(error) if !error.answer().is_some_and(is_already_exists) => Err(Error::Create(error)),
            _ => Ok(()),
        }
    }

    /// Deletes one incarnation of a pod.
    async fn delete(&self, pod: &KnownPod) -> Result<(), Error> {
        self.pods.writer.delete(pod, Unless::Replaced).await.map(drop).map_err(Error::Delete)
    }

    async fn tell(&self, set: &PodSet, error: Option<&Error>) -> Result<Outcome, Error> {
        let trouble = error.map(|error| Trouble { reason: error.reason(), message: chain(error) });
        let now = Timestamp::now();
        let next = |set: &PodSet| status(set, &self.pods.owned(set), trouble.as_ref(), now);
        self.status.write(set, next).await.map_err(Error::Status)
    }
}
