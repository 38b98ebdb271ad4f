//! `POST /seal`.

use std::time::Duration;

use postgres_instance::status_api::{Limits, StatusHandle};
use postgres_model::report::{InstanceReport, InstanceState};

use crate::support::{TestServer, exchange, head, limits, report};

/// Seals each epoch that is requested, in two steps, as the main loop does.
async fn seal_all(handle: StatusHandle) {
    let mut requests = handle.seal_requests();
    loop {
        let epoch = *requests.borrow_and_update();
        if epoch.is_some() {
            handle.publish(InstanceReport { state: InstanceState::Standby, fencing: false, ..report() });
            tokio::task::yield_now().await;
            handle.publish(InstanceReport { state: InstanceState::Sealed, sealed_epoch: epoch, ..report() });
        }
        if requests.changed().await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn answer_is_the_report_of_the_sealed_member() {
    let server = TestServer::start(limits()).await;
    let main_loop = tokio::spawn(seal_all(server.handle.clone()));
    for (requested, sealed) in [(7, 7), (3, 7), (7, 7), (8, 8)] {
        let report = server.seal(&format!("{{\"epoch\": {requested}}}")).await.report();
        assert_eq!((report.sealed_epoch, report.state), (Some(sealed), InstanceState::Sealed));
        assert_eq!(*server.handle.seal_requests().borrow(), Some(sealed), "the highest epoch stays");
    }
    main_loop.abort();
    server.stop().await;
}

#[tokio::test]
async fn seal_that_takes_too_long_is_remembered() {
    let seal = Duration::from_millis(100);
    let server = TestServer::start(Limits { seal, ..limits() }).await;
    let response = server.seal("{\"epoch\": 7}").await;
    assert_eq!(response.status, 503);
    assert!(response.line().starts_with("not sealed at epoch 7 yet: "), "{response:?}");
    assert_eq!(*server.handle.seal_requests().borrow(), Some(7));
    // Sealed at an older epoch is not sealed.
    server.handle.publish(InstanceReport { sealed_epoch: Some(6), ..report() });
    assert_eq!(server.seal("{\"epoch\": 7}").await.status, 503);
    server.handle.publish(InstanceReport { sealed_epoch: Some(7), ..report() });
    assert_eq!(server.seal("{\"epoch\": 7}").await.report().sealed_epoch, Some(7));
    server.stop().await;
}

#[tokio::test]
async fn server_that_stops_does_not_confirm_a_seal() {
    let server = TestServer::start(limits()).await;
    let mut requests = server.handle.seal_requests();
    let stop = async {
        requests.changed().await.unwrap();
        server.stop.cancel();
    };
    let (response, ()) = tokio::join!(server.seal("{\"epoch\": 7}"), stop);
    assert_eq!(response.status, 503);
    assert!(response.line().contains("the instance stops"), "{response:?}");
    server.stop().await;
}

#[tokio::test]
async fn members_cannot_seal() {
    let server = TestServer::start(limits()).await;
    let request = head("POST", "/seal", "Content-Length: 12\r\n") + "{\"epoch\": 7}";
    let stream = server.connect(&server.member).await.unwrap();
    let response = exchange(stream, &request).await.unwrap();
    assert_eq!(response.status, 403);
    assert_eq!(response.line(), "the common name of the certificate must be ensemble-operator");
    assert_eq!(*server.handle.seal_requests().borrow(), None);
    server.stop().await;
}

#[tokio::test]
async fn invalid_bodies_are_refused() {
    let server = TestServer::start(limits()).await;
    for body in ["", "7", "{}", "{\"epoch\": -1}", "{\"epoch\": \"7\"}", "{\"epoch\": 1e3}", "{\"epoch\": 7"]
    {
        let response = server.seal(body).await;
        assert_eq!(response.status, 400, "{body}");
        let line = response.line();
        assert!(line.starts_with("cannot read the body: ") && line.ends_with("{\"epoch\": 7}"), "{line}");
    }
    assert_eq!(*server.handle.seal_requests().borrow(), None);
    // A newer operator can send more.
    server.handle.publish(InstanceReport { sealed_epoch: Some(9), ..report() });
    assert_eq!(server.seal("{\"epoch\": 9, \"reason\": \"x\"}").await.status, 200);
    server.stop().await;
}
