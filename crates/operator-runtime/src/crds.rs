//! Installation of CustomResourceDefinitions.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use operator_core::error::{is_conflict, is_unavailable, status};
use tracing::{info, warn};

/// Field manager of the CustomResourceDefinitions.
const FIELD_MANAGER: &str = "ensemble";
/// How long to wait before retrying an unreachable API server.
const RETRY: Duration = Duration::from_secs(2);
/// Maximum time until the API server serves a new CustomResourceDefinition.
const ESTABLISH: Duration = Duration::from_secs(30);

/// Applies the CustomResourceDefinitions and waits until the API server serves them. Makes no
/// change if they are up to date.
///
/// # Errors
/// Returns an error if the API server rejects a definition or is unreachable.
pub async fn install(client: &Client, crds: &[CustomResourceDefinition]) -> Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for crd in crds {
        let name = crd.name_any();
        apply(&api, crd).await.map_err(|error| install_error(error, &name))?;
        let established = await_condition(api.clone(), &name, is_crd_established());
        tokio::time::timeout(ESTABLISH, established)
            .await
            .with_context(|| {
                format!("the CustomResourceDefinition {name} was not established within {ESTABLISH:?}")
            })?
            .with_context(|| format!("cannot watch the CustomResourceDefinition {name}"))?;
    }
    Ok(())
}

/// Installs the definitions like [`install`], but retries an unreachable API server and logs that
/// once.
///
/// # Errors
/// Returns an error if the API server rejects a definition.
pub async fn install_when_reachable(client: &Client, crds: &[CustomResourceDefinition]) -> Result<()> {
    let mut is_logged = false;
    loop {
        match install(client, crds).await {
            Ok(()) => {
                info!(count = crds.len(), "installed the CustomResourceDefinitions");
                return Ok(());
            }
            Err(error) if is_unavailable(error.as_ref()) => {
                if !is_logged {
                    warn!(error = %format!("{error:#}"), "the API server is unreachable; retrying");
                    is_logged = true;
                }
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Adds the name and a remedy to the error of a rejected definition.
fn install_error(error: kube::Error, name: &str) -> anyhow::Error {
    let advice = if status(&error).is_some_and(kube::core::Status::is_forbidden) {
        "; apply deploy/rbac/optional/install-crds.yaml, or install deploy/crds yourself and leave --install-crds out"
    } else {
        ""
    };
    anyhow::Error::new(error).context(format!("cannot install the CustomResourceDefinition {name}{advice}"))
}

/// Applies a definition and retries one conflict. Two processes that create the same definition at
/// the same time get a conflict. The second attempt finds the definition.
async fn apply(api: &Api<CustomResourceDefinition>, crd: &CustomResourceDefinition) -> kube::Result<()> {
    let params = PatchParams::apply(FIELD_MANAGER).force();
    match api.patch(&crd.name_any(), &params, &Patch::Apply(crd)).await {
        Err(error) if is_conflict(&error) => {
            api.patch(&crd.name_any(), &params, &Patch::Apply(crd)).await.map(drop)
        }
        result => result.map(drop),
    }
}
