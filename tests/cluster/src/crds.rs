//! Custom resources for tests.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::runtime::conditions::is_crd_established;
use kube::{Api, ResourceExt as _};

use crate::Cluster;
use crate::wait;

const PATIENCE: Duration = Duration::from_secs(30);

impl Cluster {
    /// Brings the definitions into the cluster and returns when objects of them can be created. Several tests and processes may do so at once.
    pub async fn install_crds(&self, crds: &[CustomResourceDefinition]) -> Result<()> {
        let api = Api::<CustomResourceDefinition>::all(self.client().await?);
        try_join_all(crds.iter().map(|crd| install(&api, crd))).await?;
        Ok(())
    }
}

async fn install(api: &Api<CustomResourceDefinition>, crd: &CustomResourceDefinition) -> Result<()> {
    let name = crd.name_any();
    // Somebody else may create it between the server's look and its write: the next try then finds it. Other errors are final.
    let answer = wait::eventually(&format!("the definition {name} to be accepted"), PATIENCE, async || {
        match api.patch(&name, &PatchParams::apply("ensemble-cluster").force(), &Patch::Apply(crd)).await {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(Err(status))
            }
            answer => Ok(Ok(answer)),
        }
    })
    .await?;
    answer.with_context(|| format!("apply the definition {name}"))?;
    wait::condition(api, &name, "to be established", PATIENCE, is_crd_established()).await?;
    Ok(())
}
