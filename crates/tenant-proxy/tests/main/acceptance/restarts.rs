//! The API server restarts.

use cluster::Component;

use crate::support::{PATIENCE, TestProxy};

#[tokio::test]
async fn requests_fail_while_the_api_server_is_away_and_views_follow_it() {
    // It must outlive the proxy, and ends with the process.
    let cluster = Box::leak(Box::new(cluster::isolated().await.unwrap()));
    let proxy = TestProxy::start_before(cluster, &[]).await;
    let owner = proxy.owner(&["restarted"]).await;
    proxy.namespace_of("restarted", "restarted-dev", &[]).await;
    owner.until_namespaces(&["restarted-dev"]).await;
    let client = owner.client().await;
    let list = async || {
        let request = http::Request::get("/api/v1/namespaces").body(kube::client::Body::empty()).unwrap();
        client.send(request).await.unwrap().status().as_u16()
    };
    assert_eq!(list().await, 200);

    cluster.kill_component(Component::KubeApiserver).unwrap();
    assert_eq!(list().await, 502);
    cluster.start_component(Component::KubeApiserver).unwrap();
    cluster.ready(PATIENCE).await.unwrap();
    owner.until_namespaces(&["restarted-dev"]).await;

    // The caches follow the new process.
    owner.give("restarted-later").await;
    proxy.namespace_of("restarted-later", "restarted-later-dev", &[]).await;
    owner.until_namespaces(&["restarted-dev", "restarted-later-dev"]).await;
}
