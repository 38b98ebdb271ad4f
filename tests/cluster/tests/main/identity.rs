//! ServiceAccounts, impersonation, and the audit log.

use cluster::wait;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};

use crate::PATIENCE;

async fn who_am_i(client: Client) -> (String, Vec<String>) {
    let answer = Api::<SelfSubjectReview>::all(client)
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    let user = answer.unwrap().status.unwrap().user_info.unwrap();
    (user.username.unwrap(), user.groups.unwrap())
}

/// Creates a ServiceAccount without rights and returns a client for it.
async fn client_without_rights(namespace: &str) -> Client {
    let cluster = cluster::shared().await.unwrap();
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("reader".to_owned());
    Api::namespaced(cluster.client().await.unwrap(), namespace)
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    cluster.client_for_service_account(namespace, "reader").await.unwrap()
}

#[tokio::test]
async fn token_has_only_the_rights_of_its_service_account() {
    let cluster = cluster::shared().await.unwrap();
    let namespace = cluster.namespace("identity").await.unwrap();
    let client = client_without_rights(&namespace).await;
    let (user, groups) = who_am_i(client.clone()).await;
    assert_eq!(user, format!("system:serviceaccount:{}:reader", namespace.name()));
    assert!(groups.contains(&"system:serviceaccounts".to_owned()), "{groups:?}");

    let api = Api::<ConfigMap>::namespaced(client, &namespace);
    let error = api.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.is_forbidden()), "{error}");
}

#[tokio::test]
async fn audit_log_records_user_and_request() {
    let cluster = cluster::shared().await.unwrap();
    let namespace = cluster.namespace("audit").await.unwrap();
    let mark = cluster.audit_mark().unwrap();
    let client = client_without_rights(&namespace).await;
    Api::<ConfigMap>::namespaced(client, &namespace).list(&ListParams::default()).await.unwrap_err();

    let user = format!("system:serviceaccount:{}:reader", namespace.name());
    let entry = wait::eventually("the refused list in the audit log", PATIENCE, async || {
        Ok(cluster
            .audit_since(mark)?
            .by_user(&user)
            .entries
            .into_iter()
            .find(|entry| entry.resource == "configmaps"))
    });
    let entry = entry.await.unwrap();
    assert_eq!((entry.verb.as_str(), entry.code, entry.namespace.as_str()), ("list", 403, namespace.name()));
    let created = cluster.audit().unwrap().in_namespace(&namespace).writes().by_user("ensemble-admin");
    assert!(created.entries.iter().any(|entry| entry.resource == "serviceaccounts" && entry.code == 201));
}

#[tokio::test]
async fn impersonated_user_has_own_rights_and_audit_entries() {
    let cluster = cluster::shared().await.unwrap();
    let namespace = cluster.namespace("impersonate").await.unwrap();
    let user = format!("jane-of-{}", namespace.name());
    let client = cluster.client_as(&user, &["developers"]).await.unwrap();
    let (name, groups) = who_am_i(client.clone()).await;
    assert_eq!(name, user);
    assert!(groups.contains(&"developers".to_owned()), "{groups:?}");
    Api::<ConfigMap>::namespaced(client, &namespace).list(&ListParams::default()).await.unwrap_err();

    let entry = wait::eventually("the refused list in the audit log", PATIENCE, async || {
        Ok(cluster.audit()?.by_user(&user).in_namespace(&namespace).entries.pop())
    });
    let entry = entry.await.unwrap();
    assert_eq!((entry.code, entry.impersonator.as_deref()), (403, Some("ensemble-admin")));
}
