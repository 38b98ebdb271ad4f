//! Grants a controller exactly the rules that it declares.

use anyhow::{Context, Result};
use cluster::Cluster;
use k8s_openapi::api::{
    core::v1::{Namespace, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
    core::{ObjectMeta, Resource},
};
use operator_core::{Registration, manifests::Grant};
use serde::{Serialize, de::DeserializeOwned};

/// ServiceAccount of a controller in tests.
pub(crate) struct Account {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Account {
    pub(crate) fn of(registration: &Registration) -> Self {
        Self { namespace: "ensemble-harness".to_owned(), name: registration.name.to_owned() }
    }

    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

/// Creates the controller's ServiceAccount and binds the controller's rules to it.
pub(crate) async fn grant(cluster: &Cluster, registration: &Registration) -> Result<Account> {
    let account = Account::of(registration);
    let client = cluster.client().await?;
    let namespace = Namespace { metadata: named(&account.namespace), ..Namespace::default() };
    apply(Api::all(client.clone()), &account.namespace, &namespace).await?;
    let service_account = ServiceAccount { metadata: named(&account.name), ..ServiceAccount::default() };
    apply(Api::namespaced(client.clone(), &account.namespace), &account.name, &service_account).await?;
    let grant = Grant::of(registration);
    apply(Api::<ClusterRole>::all(client.clone()), &grant.name(), &grant.cluster_role()).await?;
    let binding = grant.cluster_role_binding(&account.namespace, &account.name);
    apply(Api::<ClusterRoleBinding>::all(client), &grant.name(), &binding).await?;
    Ok(account)
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

async fn apply<K>(api: Api<K>, name: &str, object: &K) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    api.patch(name, &PatchParams::apply("harness").force(), &Patch::Apply(object))
        .await
        .with_context(|| format!("apply {} {name}", K::kind(&())))?;
    Ok(())
}
