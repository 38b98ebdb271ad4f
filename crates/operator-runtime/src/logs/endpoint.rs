//! `/debug/log-level`: reads and changes the log level at run time.

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    routing::get,
};

use super::Level;

/// Maximum length of a filter in bytes.
const MAX_FILTER_BYTES: usize = 4096;

/// Serves the log level. `GET /debug/log-level` returns the current filter. `PUT` sets the filter
/// in its body and returns 200 with the new filter, or 400 if the filter is invalid. The caller
/// must authorize requests.
pub fn router(level: Level) -> Router {
    Router::new()
        .route("/debug/log-level", get(show).put(change))
        .layer(DefaultBodyLimit::max(MAX_FILTER_BYTES))
        .with_state(level)
}

async fn show(State(level): State<Level>) -> String {
    format!("{}\n", level.get())
}

async fn change(State(level): State<Level>, filter: String) -> (StatusCode, String) {
    match level.set(filter.trim()) {
        Ok(()) => (StatusCode::OK, format!("{}\n", level.get())),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error:#}\n")),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use http::{Method, Request};
    use tower::ServiceExt;
    use tracing_subscriber::{Layer, fmt, layer::SubscriberExt};

    use super::*;
    use crate::logs::level::adjustable;

    async fn send(router: &Router, method: Method, body: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri("/debug/log-level");
        let response =
            router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
        let (status, body) =
            (response.status().as_u16(), to_bytes(response.into_body(), MAX_FILTER_BYTES).await.unwrap());
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn reads_and_sets_level_and_rejects_invalid_filter() {
        let (filter, level) = adjustable("info").unwrap();
        // The filter lives as long as its subscriber.
        let _logs = tracing_subscriber::registry().with(fmt::layer().with_filter(filter));
        let router = router(level.clone());
        assert_eq!(send(&router, Method::GET, "").await, (200, "info\n".into()));
        assert_eq!(
            send(&router, Method::PUT, "warn,podset=debug\n").await,
            (200, "warn,podset=debug\n".into())
        );
        assert_eq!(level.get(), "warn,podset=debug");

        let (status, message) = send(&router, Method::PUT, "loud").await;
        assert!(
            status == 400 && message.starts_with("`loud` is no log level; use off"),
            "{status} {message}"
        );
        assert_eq!(send(&router, Method::PUT, &"a".repeat(MAX_FILTER_BYTES + 1)).await.0, 413);
        assert_eq!(send(&router, Method::POST, "warn").await.0, 405);
        assert_eq!(send(&router, Method::GET, "").await, (200, "warn,podset=debug\n".into()));
    }
}
