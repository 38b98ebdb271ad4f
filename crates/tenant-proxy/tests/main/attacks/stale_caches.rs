//! Caches that the API server does not keep up to date: they could show what a user no longer owns.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{BY_ALICE, NAMESPACES, PATIENCE, Setup, TENANTS, advance, client, start};
use crate::upstream::{Answer, Recorded};

/// A part of each timeout of a connection.
const STEP: Duration = Duration::from_secs(6);
/// Time for which a watch can fail before there are no views.
const MAX_FAILURE: Duration = Duration::from_mins(1);
/// Most steps until a request without a response is sent again, and then is no failure any more.
const MAX_STEPS: usize = 20;

/// Returns whether a request is a watch of the cache of Tenants.
fn is_watch_of_tenants(request: &Recorded) -> bool {
    request.is_of_cache() && request.target.starts_with(TENANTS) && request.target.contains("watch=true")
}

fn watches(requests: &[Recorded]) -> usize {
    requests.iter().filter(|request| is_watch_of_tenants(request)).count()
}

/// Returns the status of the view of alice, and what the proxy says.
async fn view(setup: &Setup) -> (u16, String) {
    let response = setup.send_by_alice(&format!("GET {NAMESPACES}")).await;
    (response.status, response.text())
}

/// Answers the watch of Tenants with `answer` for more than a minute, and then as usual.
async fn interrupt_watch(answer: Answer) {
    let setup = start().await;
    let before = watches(&setup.upstream.requests());
    setup.upstream.override_answers(move |request| is_watch_of_tenants(request).then(|| answer.clone()));
    let began = Instant::now();
    setup.upstream.end_watches();
    let is_watched_again = setup.upstream.wait_for(|requests| watches(requests) > before);
    timeout(PATIENCE, is_watched_again).await.unwrap();
    while began.elapsed() + STEP < MAX_FAILURE {
        assert_eq!(view(&setup).await.0, 200, "after {:?}", began.elapsed());
        advance(STEP).await;
    }
    for _ in 0..3 {
        advance(STEP * 2).await;
        let (status, text) = view(&setup).await;
        assert!(status == 503 && text.contains("could not watch tenants for a minute"), "{status}: {text}");
        let tenant = setup.send_by_alice(&format!("GET {TENANTS}/oil")).await;
        assert_eq!(tenant.status, 503, "{tenant:?}");
        assert_eq!(setup.send_by_alice("GET /version").await.status, 200, "all other requests go on");
    }
    // The watch goes on from its last version, and delivers nothing.
    setup.upstream.override_answers(|_| None);
    let mut steps = 0;
    while view(&setup).await.0 != 200 {
        steps += 1;
        assert!(steps < MAX_STEPS, "the views do not come back");
        advance(STEP).await;
    }
    assert!(view(&setup).await.1.contains("oil-dev"));
    setup.received();
}

#[tokio::test]
async fn views_end_while_a_watch_has_failed_for_a_minute() {
    interrupt_watch(Answer::error(500, "etcd is not available")).await;
}

#[tokio::test]
async fn views_end_while_a_watch_has_had_no_response_for_a_minute() {
    interrupt_watch(Answer { is_withheld: true, ..Answer::watch(&[]) }).await;
}

#[tokio::test]
async fn silence_ends_neither_views_nor_watches() {
    const SILENCE: Duration = Duration::from_mins(10);
    let watch = "/api/v1/namespaces/oil-dev/events?watch=true";
    let setup = start().await;
    setup.upstream.override_answers(move |request| (request.target == watch).then(|| Answer::watch(&[])));
    let mut stream = setup.connect().await;
    setup.write(&mut stream, &client::http1(&format!("GET {watch}"), &[BY_ALICE])).await;
    client::read_until(&mut stream, |bytes| bytes.ends_with(b"\r\n\r\n")).await;
    let began = Instant::now();
    while began.elapsed() < SILENCE {
        advance(STEP).await;
        assert_eq!(view(&setup).await.0, 200, "after {:?}", began.elapsed());
    }
    setup.upstream.end_watches();
    let rest = client::read_all(&mut stream).await;
    assert!(rest.ends_with(b"0\r\n\r\n"), "it was cut: {}", String::from_utf8_lossy(&rest));
    setup.received();
}
