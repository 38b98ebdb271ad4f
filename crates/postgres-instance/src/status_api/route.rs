//! Requests that the status API knows, and who may send them.

use std::time::Duration;

use hyper::{Method, StatusCode};
use postgres_model::status_api::{MAX_WAIT, MEMBER, OPERATOR};

use super::{
    client::Client,
    response::{Response, method_not_allowed, text},
};

/// Request that a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// `GET /status`.
    Status(Poll),
    /// `POST /seal`.
    Seal,
    /// `POST /backup`.
    Backup,
    /// `POST /switch-wal`.
    SwitchWal,
}

/// Query of `GET /status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Poll {
    /// Sequence of the report that the client has.
    pub(super) after: Option<u64>,
    /// Longest time to wait for another one.
    pub(super) wait: Duration,
}

/// Reason why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Only clients that are at least this one may send it.
    Forbidden(Client),
    /// There is no such path.
    NotFound,
    /// The path has another method only.
    Method(&'static str),
    /// The query has an invalid value.
    Query(String),
}

impl Route {
    /// Returns the route of a request.
    pub(super) fn of(
        client: Client,
        method: &Method,
        path: &str,
        query: Option<&str>,
    ) -> Result<Self, Refusal> {
        if client == Client::Unknown {
            return Err(Refusal::Forbidden(Client::Member));
        }
        match (path, method) {
            ("/status", &Method::GET) => Poll::parse(query.unwrap_or_default()).map(Self::Status),
            ("/status", _) => Err(Refusal::Method("GET")),
            ("/seal" | "/backup" | "/switch-wal", &Method::POST) if client != Client::Operator => {
                Err(Refusal::Forbidden(Client::Operator))
            }
            ("/seal", &Method::POST) => Ok(Self::Seal),
            ("/backup", &Method::POST) => Ok(Self::Backup),
            ("/switch-wal", &Method::POST) => Ok(Self::SwitchWal),
            ("/seal" | "/backup" | "/switch-wal", _) => Err(Refusal::Method("POST")),
            _ => Err(Refusal::NotFound),
        }
    }
}

impl Poll {
    /// Parses a query. Ignores parameters that this version does not know.
    fn parse(query: &str) -> Result<Self, Refusal> {
        let mut poll = Self::default();
        for parameter in query.split('&') {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("after", value) => poll.after = Some(number("after", value, u64::MAX)?),
                ("wait", value) => {
                    poll.wait = Duration::from_secs(number("wait", value, MAX_WAIT.as_secs())?);
                }
                _ => {}
            }
        }
        Ok(poll)
    }
}

fn number(name: &str, value: &str, most: u64) -> Result<u64, Refusal> {
    let number = value.parse().ok().filter(|number| *number <= most);
    number.ok_or_else(|| Refusal::Query(format!("{name} must be a number from 0 to {most}")))
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Forbidden(lowest) => {
                let others = if lowest < Client::Operator { format!(" or {MEMBER}") } else { String::new() };
                let line = format!("the common name of the certificate must be {OPERATOR}{others}");
                text(StatusCode::FORBIDDEN, &line)
            }
            Refusal::NotFound => {
                text(StatusCode::NOT_FOUND, "the paths are /status, /seal, /backup, and /switch-wal")
            }
            Refusal::Method(allowed) => method_not_allowed(allowed),
            Refusal::Query(problem) => text(StatusCode::BAD_REQUEST, &problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(query: &str) -> Result<Route, Refusal> {
        Route::of(Client::Member, &Method::GET, "/status", Some(query))
    }

    #[test]
    fn operator_reads_and_seals_and_members_read() {
        use Client::{Member, Operator, Unknown};
        let status = Ok(Route::Status(Poll::default()));
        for (client, method, path, expected) in [
            (Operator, Method::GET, "/status", status),
            (Operator, Method::POST, "/seal", Ok(Route::Seal)),
            (Operator, Method::POST, "/backup", Ok(Route::Backup)),
            (Operator, Method::POST, "/switch-wal", Ok(Route::SwitchWal)),
            (Operator, Method::GET, "/backup", Err(Some("POST"))),
            (Operator, Method::POST, "/status", Err(Some("GET"))),
            (Operator, Method::GET, "/seal", Err(Some("POST"))),
            (Member, Method::GET, "/status", status),
            (Member, Method::HEAD, "/status", Err(Some("GET"))),
            (Operator, Method::GET, "/", Err(None)),
            (Member, Method::GET, "/status/", Err(None)),
        ] {
            let refusal = |refusal| match refusal {
                Refusal::Method(allowed) => Some(allowed),
                refusal => {
                    assert_eq!(refusal, Refusal::NotFound);
                    None
                }
            };
            let route = Route::of(client, &method, path, None).map_err(refusal);
            assert_eq!(route, expected, "{client:?} {method} {path}");
        }
        for (client, method, path, lowest) in [
            (Member, Method::POST, "/seal", Operator),
            (Member, Method::POST, "/backup", Operator),
            (Member, Method::POST, "/switch-wal", Operator),
            (Unknown, Method::POST, "/seal", Member),
            (Unknown, Method::GET, "/status", Member),
            (Unknown, Method::GET, "/", Member),
        ] {
            let route = Route::of(client, &method, path, None);
            assert_eq!(route, Err(Refusal::Forbidden(lowest)), "{client:?} {method} {path}");
        }
    }

    #[test]
    fn query_is_parsed() {
        let expected = |after, wait| Ok(Route::Status(Poll { after, wait: Duration::from_secs(wait) }));
        assert_eq!(poll(""), expected(None, 0));
        assert_eq!(poll("after=7"), expected(Some(7), 0));
        assert_eq!(poll("wait=60&after=0&later=x"), expected(Some(0), 60));
        assert_eq!(poll(&format!("after={}", u64::MAX)), expected(Some(u64::MAX), 0));
        for query in ["wait=61", "wait=-1", "wait=", "wait", "wait=1.5", "wait=99999999999999999999"] {
            let problem = "wait must be a number from 0 to 60".to_owned();
            assert_eq!(poll(query), Err(Refusal::Query(problem)), "{query}");
        }
        assert!(matches!(poll("after=x&wait=1"), Err(Refusal::Query(_))));
    }
}
