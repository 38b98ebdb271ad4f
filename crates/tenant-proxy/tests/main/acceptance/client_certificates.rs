//! Users with client certificates, whom the proxy impersonates with constrained impersonation.

use cluster::wait::eventually;
use http::{Request, StatusCode};
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;

use crate::support::{PATIENCE, TestProxy};

const CAPSULE: &str = "projectcapsule.dev";

#[tokio::test]
async fn owner_with_a_certificate_works_as_with_a_token() {
    let proxy = TestProxy::start_with_options(&["--client-certificates"]).await;
    proxy.tenant("certified", &[("User", "cecil")]).await;
    proxy.namespace_of("certified", "certified-dev", &[]).await;
    proxy
        .apply(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"namespace": "certified-dev", "name": "cecil"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "cecil"}],
        }))
        .await;
    let kubeconfig = proxy.certificate_kubeconfig("cecil", &[CAPSULE]);
    let kubectl = async |args: &[&str]| proxy.cluster.kubectl_with(&kubeconfig, args).await;
    eventually("the namespaces of the user", PATIENCE, async || {
        Ok(kubectl(&["get", "namespaces", "--output=name"])
            .await
            .is_ok_and(|seen| seen == "namespace/certified-dev\n"))
    })
    .await
    .unwrap();

    let who = kubectl(&["auth", "whoami", "--output=jsonpath={.status.userInfo}"]).await.unwrap();
    assert!(who.contains("\"username\":\"cecil\"") && who.contains(CAPSULE), "{who}");
    assert!(who.contains("system:authenticated"), "{who}");
    for args in [
        &["create", "configmap", "one", "--namespace=certified-dev", "--from-literal=a=b"][..],
        &["patch", "configmap", "one", "--namespace=certified-dev", "--patch={\"data\":{\"a\":\"c\"}}"],
        &["label", "configmap", "one", "--namespace=certified-dev", "x=y"],
        &["get", "configmaps", "--namespace=certified-dev", "--watch-only", "--request-timeout=1s"],
        &["delete", "configmap", "one", "--namespace=certified-dev"],
        &["delete", "configmaps", "--all", "--namespace=certified-dev"],
        &["api-resources"],
        &["get", "--raw=/openapi/v3"],
        &["auth", "can-i", "list", "namespaces"],
    ] {
        let result = kubectl(args).await;
        let is_end_of_watch = args.contains(&"--watch-only");
        assert!(result.is_ok() || is_end_of_watch, "{args:?}: {result:?}");
    }
    let refused = format!("{:#}", kubectl(&["get", "secrets", "--namespace=kube-system"]).await.unwrap_err());
    assert!(refused.contains("User \"cecil\" cannot list resource \"secrets\""), "{refused}");

    // The audit log has the user, and who impersonates.
    eventually("the audit log to have the user", PATIENCE, async || {
        let log = proxy.cluster.audit()?.by_user("cecil");
        let created =
            log.entries.iter().find(|entry| entry.verb == "create" && entry.resource == "configmaps");
        Ok(created.is_some_and(|entry| {
            entry.impersonator.as_deref().is_some_and(|by| by.ends_with(":with-options"))
        }))
    })
    .await
    .unwrap();

    // The same proxy serves tokens, which it does not replace.
    let owner = proxy.owner(&["by-token"]).await;
    proxy.namespace_of("by-token", "by-token-dev", &[]).await;
    owner.until_namespaces(&["by-token-dev"]).await;
    let audit = proxy.cluster.audit().unwrap().by_user(&owner.name);
    assert!(audit.entries.iter().all(|entry| entry.impersonator.is_none()));
}

#[tokio::test]
async fn proxy_refuses_administrators_with_certificates_and_the_api_server_would_too() {
    let proxy = TestProxy::start_with_options(&["--client-certificates"]).await;
    let known = proxy.certificate_kubeconfig("cecil", &[]);
    eventually("client certificates to be accepted", PATIENCE, async || {
        Ok(proxy.cluster.kubectl_with(&known, &["version"]).await.is_ok())
    })
    .await
    .unwrap();
    let admin = proxy.certificate_kubeconfig("admin", &["system:masters"]);
    let refused = format!(
        "{:#}",
        proxy.cluster.kubectl_with(&admin, &["get", "--raw=/api/v1/nodes"]).await.unwrap_err()
    );
    assert!(refused.contains("impersonates no user and no group whose name begins with"), "{refused}");

    // The rights of the proxy do not reach further than the proxy itself.
    let account = proxy.cluster.service_account_kubeconfig("ensemble-proxy", "with-options").await.unwrap();
    let file = Kubeconfig::read_from(account).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let send = async |headers: &[(&str, &str)]| {
        let request = headers
            .iter()
            .fold(Request::get("/api/v1/nodes"), |request, (name, value)| request.header(*name, *value));
        client.send(request.body(Body::empty()).unwrap()).await.unwrap().status()
    };
    for headers in [
        &[("Impersonate-User", "x"), ("Impersonate-Group", "system:masters")][..],
        &[("Impersonate-User", "system:serviceaccount:kube-system:namespace-controller")],
        &[("Impersonate-User", "system:node:n"), ("Impersonate-Group", "system:nodes")],
        &[("Impersonate-User", "x"), ("Impersonate-Extra-scopes", "all")],
    ] {
        assert_eq!(send(headers).await, StatusCode::FORBIDDEN, "{headers:?}");
    }
}
