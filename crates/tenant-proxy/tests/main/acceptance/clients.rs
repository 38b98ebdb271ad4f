//! Content types.

use crate::support::{header, shared};

#[tokio::test]
async fn content_types_are_those_that_were_asked_for() {
    let proxy = shared().await;
    let owner = proxy.owner(&["typed"]).await;
    proxy.namespace_of("typed", "typed-dev", &[]).await;
    owner.until_namespaces(&["typed-dev"]).await;
    for (accept, content_type) in [
        ("application/json", "application/json"),
        ("application/yaml", "application/yaml"),
        ("application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json"),
        (
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
            "application/json",
        ),
    ] {
        let response = owner.get("/api/v1/namespaces", &[("Accept", accept)]).await;
        let text = String::from_utf8_lossy(response.body());
        assert_eq!(response.status(), 200, "{accept}: {text}");
        assert_eq!(header(response.headers(), "content-type"), content_type, "{accept}: {text}");
        assert!(text.contains("typed-dev") && !text.contains("kube-system"), "{accept}");
        let form = if accept.contains("Table") {
            "\"kind\":\"Table\""
        } else if accept.contains("Partial") {
            "\"kind\":\"PartialObjectMetadataList\""
        } else {
            ""
        };
        assert!(text.contains(form), "{accept}: {text}");
    }
}
