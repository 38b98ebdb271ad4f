//! Attacks with other forms of a path, other methods, and other hosts.

use super::{BY_ALICE, NAMESPACES, OF_ALICE, TENANTS, client::http1, is_view, start};

#[tokio::test]
async fn other_forms_of_a_path_go_on_unchanged_and_have_no_view() {
    let setup = start().await;
    for target in [
        "/",
        "//api/v1/namespaces",
        "/api/v1//namespaces",
        "/api/v1/./namespaces",
        "/api/v1/x/../namespaces",
        "/api/v1/%2e%2e/v1/namespaces",
        "/api/v1/%2E%2E/v1/namespaces",
        "/api/v1/%252e%252e/namespaces",
        "/api/v1%2fnamespaces",
        "/api/v1%2Fnamespaces",
        "/api/v1/%6eamespaces",
        "/api/v1/namespaces;x",
        "/api/v1/namespaces;",
        "/api/v1/namespaces%3fwatch=true",
        "/api/v1/namespaces%23",
        "/api/v1/namespaces%00",
        "/api/v1/namespaces%20",
        "/api/v1/namespaces%",
        "/api/v1/namespaces\\",
        "/API/V1/Namespaces",
        "/api/v1/namespaces//",
        "/api/v1/namespaces/.",
        "/api/v1/namespaces/..",
        "/api/v1/namespaces/gas-dev",
        "/api/v1/namespaces/x/finalize",
        "/api/v1/namespaces/x/services/y/proxy/%2e%2e/%2e%2e/",
        "/api/v1/namespaces/x/services/y/proxy/../../../../namespaces",
        "/api/v1/watch/namespaces",
        "/api/v1/namespac\u{e9}s",
        "/apis/capsule.clastix.io/v1beta1/tenants",
        "/apis/capsule.clastix.io/v1beta2//tenants",
        "/apis/capsule.clastix.io/v1beta2/tenants//",
        "/apis/capsule.clastix.io/v1beta2/tenants/oil/status",
        "/apis/capsule.clastix.io/v1beta2/tenants/Oil",
        "/apis/capsule.clastix.io/v1beta2/tenants/%6fil",
        "/apis/capsule.clastix.io/v1beta2/tenants/oil%2f..%2fgas",
        "/apis/capsule.clastix.io/v1beta2/tenants/../tenants/gas",
    ] {
        let (response, view) = setup.get_by_alice(target).await;
        assert_eq!(view, None, "{target}");
        assert!(matches!(response.status, 200 | 403), "{target}: {response:?}");
    }
    let (_, view) = setup.get_by_alice("/api/v1/namespaces/").await;
    assert_eq!(view, Some(format!("{NAMESPACES}?{OF_ALICE}")), "one slash at the end is no other form");
}

/// A fragment is not part of a target, and is removed when the request is read.
#[tokio::test]
async fn fragment_never_goes_on() {
    let setup = start().await;
    for (request, target) in [
        ("GET /api/v1/pods#/../namespaces", "/api/v1/pods"),
        ("GET /api/v1/pods?limit=1#&limit=2", "/api/v1/pods?limit=1"),
        ("GET /version#?watch=true", "/version"),
    ] {
        setup.send_by_alice(request).await;
        setup.assert_only_received(request, target, "alice");
    }
}

#[tokio::test]
async fn other_methods_have_no_view() {
    let setup = start().await;
    for method in
        ["HEAD", "DELETE", "POST", "PATCH", "PUT", "OPTIONS", "PROPFIND", "get", "Get", "GETT", "M-SEARCH"]
    {
        for path in [NAMESPACES, TENANTS, "/apis/capsule.clastix.io/v1beta2/tenants/oil"] {
            let request = format!("{method} {path}");
            let response = setup.send_by_alice(&request).await;
            let received = setup.assert_only_received(&request, path, "alice");
            assert_eq!((response.status, received.method.as_str()), (403, method), "{request}");
        }
    }
    for request in ["TRACE /api/v1/namespaces", "CONNECT proxy.example:443", "CONNECT /api/v1/namespaces"] {
        assert_eq!(setup.send_by_alice(request).await.status, 400, "{request}");
        setup.assert_nothing_received(request);
    }
    let response = setup.send_by_alice("OPTIONS *").await;
    assert_eq!(response.status, 200, "{response:?}");
    setup.assert_only_received("the asterisk form", "*", "alice");
}

#[tokio::test]
async fn headers_that_change_the_request_and_bodies_do_not_reach_a_view() {
    let setup = start().await;
    let headers = [
        BY_ALICE,
        "X-HTTP-Method-Override: DELETE",
        "X-HTTP-Method: DELETE",
        "X-Method-Override: DELETE",
        "X-Original-URL: /api/v1/secrets",
        "X-Rewrite-URL: /api/v1/secrets",
        "Range: bytes=0-1",
        "If-None-Match: *",
        "Accept-Encoding: gzip",
        "Cookie: a=b",
        "User-Agent: kubectl",
        "Audit-ID: 1",
        "Content-Length: 4",
    ];
    let bytes = [http1(&format!("GET {NAMESPACES}"), &headers), b"body".to_vec()].concat();
    let response = setup.exchange(&bytes).await;
    assert!(response.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&response));
    // What a view contains is checked for each one.
    let (views, others): (Vec<_>, Vec<_>) = setup.received().into_iter().partition(is_view);
    assert_eq!(views.len(), 1, "{views:?}");
    let as_user = &others[0];
    assert_eq!((as_user.body.as_slice(), as_user.all("audit-id")), (&b"body"[..], vec![&b"1"[..]]));
    assert_eq!(as_user.all("x-http-method-override"), [b"DELETE"]);
}

#[tokio::test]
async fn requests_for_another_host_are_refused() {
    let setup = start().await;
    for (attack, lines) in [
        ("another host", &["GET https://elsewhere.example/version HTTP/1.1", "Host: proxy.example"][..]),
        ("another port", &["GET https://proxy.example:1/version HTTP/1.1", "Host: proxy.example"]),
        ("a user in the host", &["GET https://alice@proxy.example/version HTTP/1.1", "Host: proxy.example"]),
        ("another Host", &["GET https://proxy.example/version HTTP/1.1", "Host: elsewhere.example"]),
        ("an empty Host", &["GET https://proxy.example/version HTTP/1.1", "Host:"]),
        ("no Host", &["GET https://proxy.example/version HTTP/1.1"]),
        ("no Host, and a path", &["GET /version HTTP/1.1"]),
        ("two Hosts", &["GET /version HTTP/1.1", "Host: proxy.example", "Host: elsewhere.example"]),
        ("a form without slash", &["GET api/v1/namespaces HTTP/1.1", "Host: proxy.example"]),
        ("an empty target", &["GET  HTTP/1.1", "Host: proxy.example"]),
        ("a space in the target", &["GET /ver sion HTTP/1.1", "Host: proxy.example"]),
        ("a tab in the target", &["GET /ver\tsion HTTP/1.1", "Host: proxy.example"]),
        ("a zero byte in the target", &["GET /ver\0sion HTTP/1.1", "Host: proxy.example"]),
    ] {
        let bytes = format!("{}\r\n{BY_ALICE}\r\nConnection: close\r\n\r\n", lines.join("\r\n"));
        let response = setup.exchange(bytes.as_bytes()).await;
        assert!(response.starts_with(b"HTTP/1.1 400"), "{attack}: {}", String::from_utf8_lossy(&response));
        setup.assert_nothing_received(attack);
    }
    let same = "GET https://PROXY.example/api/v1/namespaces?limit=1";
    assert_eq!(setup.send_by_alice(same).await.status, 200);
    assert!(
        setup
            .received()
            .iter()
            .any(|request| request.is_by("alice") && request.target == "/api/v1/namespaces?limit=1")
    );
}
