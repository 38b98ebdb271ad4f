//! Registering custom resource definitions.

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

/// Who the API server remembers as the writer of the definitions.
const FIELD_MANAGER: &str = "ensemble";
/// How long to wait before asking again an API server that did not answer.
const RETRY: Duration = Duration::from_secs(2);
/// How long the API server may take to serve a new definition.
const ESTABLISH: Duration = Duration::from_secs(30);

/// Applies the definitions and waits until the API server serves them. Applying what is there changes nothing.
///
/// # Errors
/// When the API server refuses a definition or cannot be reached.
pub async fn install(client: &Client, crds: &[CustomResourceDefinition]) -> Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for crd in crds {
        let name = crd.name_any();
        apply(&api, crd).await.map_err(|error| refused(error, &name))?;
        let established = await_condition(api.clone(), &name, is_crd_established());
        tokio::time::timeout(ESTABLISH, established)
            .await
            .with_context(|| format!("the API server did not serve {name} within {ESTABLISH:?}"))?
            .with_context(|| format!("cannot watch the definition {name}"))?;
    }
    Ok(())
}

/// As [`install`], but waits for an API server that cannot be reached, and says so once.
///
/// # Errors
/// When the API server refuses a definition.
pub async fn install_when_reachable(client: &Client, crds: &[CustomResourceDefinition]) -> Result<()> {
    let mut told = false;
    loop {
        match install(client, crds).await {
            Ok(()) => {
                info!(count = crds.len(), "the custom resource definitions are registered");
                return Ok(());
            }
            Err(error) if is_unavailable(error.as_ref()) => {
                if !told {
                    warn!(error = %format!("{error:#}"), "the API server cannot be reached; waiting for it");
                    told = true;
                }
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// What a person can do about a definition that was not registered.
fn refused(error: kube::Error, name: &str) -> anyhow::Error {
    let advice = if status(&error).is_some_and(kube::core::Status::is_forbidden) {
        "; apply deploy/rbac/optional/install-crds.yaml, or install deploy/crds yourself and leave --install-crds out"
    } else {
        ""
    };
    anyhow::Error::new(error).context(format!("cannot register the definition {name}{advice}"))
}

/// Two processes that create the same definition at once meet a conflict; the second try then finds it.
async fn apply(api: &Api<CustomResourceDefinition>, crd: &CustomResourceDefinition) -> kube::Result<()> {
    let params = PatchParams::apply(FIELD_MANAGER).force();
    match api.patch(&crd.name_any(), &params, &Patch::Apply(crd)).await {
        Err(error) if is_conflict(&error) => {
            api.patch(&crd.name_any(), &params, &Patch::Apply(crd)).await.map(drop)
        }
        answer => answer.map(drop),
    }
}
