//! Namespaces that users see because of RoleBindings.

use serde_json::json;

use crate::support::{Owner, TestProxy};

const FLAG: &str = "--namespaces-by-role-binding";

/// Binds an account to a role in a namespace.
async fn bind(proxy: &TestProxy, namespace: &str, owner: &Owner<'_>) {
    let of_account = owner.name.split(':').nth(2).unwrap();
    proxy
        .apply(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"namespace": namespace, "name": "bound"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "namespace": of_account, "name": "builder"}],
        }))
        .await;
}

async fn unbind(proxy: &TestProxy, namespace: &str) {
    let namespace = format!("--namespace={namespace}");
    proxy.cluster.kubectl(&["delete", "rolebinding", "bound", &namespace]).await.unwrap();
}

#[tokio::test]
async fn user_sees_namespaces_with_a_role_binding() {
    let proxy = TestProxy::start_with_options(&[FLAG]).await;
    proxy.tenant("lender", &[("User", "nobody")]).await;
    for name in ["lender-dev", "lender-prod"] {
        proxy.namespace_of("lender", name, &[]).await;
    }
    let user = proxy.owner(&[]).await;
    assert_eq!(user.get("/api/v1/namespaces", &[]).await.status(), 403);
    bind(&proxy, "lender-dev", &user).await;
    user.until_namespaces(&["lender-dev"]).await;
    // With a Tenant of the user's own, both are shown.
    user.give("borrower").await;
    proxy.namespace_of("borrower", "borrower-dev", &[]).await;
    user.until_namespaces(&["borrower-dev", "lender-dev"]).await;
    let selected =
        user.kubectl(&["get", "namespaces", "--output=name", "--field-selector=metadata.name=lender-prod"]);
    assert_eq!(selected.await.unwrap(), "");
    unbind(&proxy, "lender-dev").await;
    user.until_namespaces(&["borrower-dev"]).await;
}

#[tokio::test]
async fn watch_ends_when_a_binding_hides_its_namespace() {
    let proxy = TestProxy::start_with_options(&[FLAG]).await;
    proxy.tenant("fickle", &[("User", "nobody")]).await;
    proxy.namespace_of("fickle", "fickle-dev", &[]).await;
    let user = proxy.owner(&[]).await;
    bind(&proxy, "fickle-dev", &user).await;
    user.until_namespaces(&["fickle-dev"]).await;
    let watch = user.get("/api/v1/namespaces?watch=true&timeoutSeconds=60", &[]);
    let changed = async {
        unbind(&proxy, "fickle-dev").await;
    };
    let (watch, ()) = tokio::join!(watch, changed);
    let text = String::from_utf8_lossy(watch.body()).into_owned();
    assert!(watch.status() == 403 || text.contains("Expired"), "{text}");
}

#[tokio::test]
async fn without_the_flag_bindings_show_nothing() {
    let proxy = TestProxy::start_with_options(&[]).await;
    proxy.tenant("private", &[("User", "nobody")]).await;
    proxy.namespace_of("private", "private-dev", &[]).await;
    let user = proxy.owner(&["of-user"]).await;
    proxy.namespace_of("of-user", "of-user-dev", &[]).await;
    bind(&proxy, "private-dev", &user).await;
    user.until_namespaces(&["of-user-dev"]).await;
}
