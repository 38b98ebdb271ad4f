//! Installs custom resource definitions.

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
    /// Applies the CRDs and returns when objects of their kinds can be created. Can run
    /// concurrently in several tests and processes.
    pub async fn install_crds(&self, crds: &[CustomResourceDefinition]) -> Result<()> {
        let api = Api::<CustomResourceDefinition>::all(self.client().await?);
        try_join_all(crds.iter().map(|crd| install(&api, crd))).await?;
        Ok(())
    }
}

async fn install(api: &Api<CustomResourceDefinition>, crd: &CustomResourceDefinition) -> Result<()> {
    let name = crd.name_any();
    // Another process may create the CRD between the API server's read and write; the next
    // attempt updates it. Other errors are final.
    let answer = wait::eventually(&format!("the CRD {name} to be applied"), PATIENCE, async || {
        match api.patch(&name, &PatchParams::apply("ensemble-cluster").force(), &Patch::Apply(crd)).await {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(Err(status))
            }
            answer => Ok(Ok(answer)),
        }
    })
    .await?;
    answer.with_context(|| format!("apply the CRD {name}"))?;
    wait::condition(api, &name, "to be established", PATIENCE, is_crd_established()).await?;
    Ok(())
}
