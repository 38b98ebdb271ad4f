//! What users who may own Tenants are told about namespaces that do not exist.

use crate::support::{TestProxy, shared};

#[tokio::test]
async fn missing_namespace_is_not_found_and_an_existing_one_is_forbidden() {
    let proxy = TestProxy::start(&["--not-found-in-missing-namespaces"]).await;
    let owner = proxy.owner(&["finder"]).await;
    proxy.namespace_of("finder", "finder-dev", &[]).await;
    owner.until_namespaces(&["finder-dev"]).await;
    proxy.tenant("hidden", &[("User", "nobody")]).await;
    proxy.namespace_of("hidden", "hidden-dev", &[]).await;
    for (path, status) in [
        ("/api/v1/namespaces/finder-none", 404),
        ("/api/v1/namespaces/finder-none/secrets/a", 404),
        ("/apis/apps/v1/namespaces/finder-none/deployments/a", 404),
        ("/api/v1/namespaces/finder-none/secrets", 403),
        ("/api/v1/namespaces/finder-none/pods/a/log", 403),
        ("/api/v1/namespaces/hidden-dev", 403),
        ("/api/v1/namespaces/hidden-dev/secrets/a", 403),
        ("/api/v1/namespaces/finder-dev/secrets/a", 403),
    ] {
        let response = owner.get(path, &[]).await;
        assert_eq!(response.status(), status, "{path}: {}", String::from_utf8_lossy(response.body()));
    }
    let missing = format!("{:#}", owner.kubectl(&["get", "namespace", "finder-none"]).await.unwrap_err());
    assert!(
        missing.contains("Error from server (NotFound): namespaces \"finder-none\" not found"),
        "{missing}"
    );
    // Who may not own Tenants is told nothing.
    let stranger = proxy.owner(&[]).await;
    assert_eq!(stranger.get("/api/v1/namespaces/finder-none", &[]).await.status(), 403);
}

#[tokio::test]
async fn without_the_flag_missing_and_hidden_namespaces_look_the_same() {
    let proxy = shared().await;
    let owner = proxy.owner(&["finder-off"]).await;
    proxy.namespace_of("finder-off", "finder-off-dev", &[]).await;
    owner.until_namespaces(&["finder-off-dev"]).await;
    assert_eq!(owner.get("/api/v1/namespaces/finder-off-none", &[]).await.status(), 403);
}
