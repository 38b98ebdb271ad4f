//! Applies faults to requests.

use http::{Request, header};
use kube::client::Body;
use serde_json::json;

use super::{
    Shared,
    request_info::RequestInfo,
    rules::Fault,
    serve::{Answer, BufferedRequest, ConnectionClosed, refusal},
};
use crate::{oracle::TOUCHED_ANNOTATION, token::Token};

impl Shared {
    /// Applies a fault. Returns `None` if the request is to be forwarded now.
    pub(super) async fn inject(
        &self,
        request: &BufferedRequest,
        fault: Fault,
    ) -> Result<Option<Answer>, ConnectionClosed> {
        match fault {
            Fault::CrashBefore => self.die(request).await,
            Fault::CrashAfter => {
                let _ = self.forward(request).await;
                self.die(request).await
            }
            Fault::Lost => {
                let _ = self.forward(request).await;
                Err(ConnectionClosed)
            }
            Fault::Conflict => Ok(self.conflict(request).await?),
            Fault::Answer { code, retry_after } => Ok(Some(overloaded(code, retry_after))),
            Fault::Delay(wait) => {
                tokio::time::sleep(wait).await;
                Ok(None)
            }
        }
    }

    /// Marks the manager as crashed: nothing more is forwarded.
    pub(super) fn kill(&self, token: Token) {
        self.life.send_modify(|life| life.is_over = true);
        let _ = self.crash.send(token);
    }

    /// Marks the manager as crashed and never responds.
    async fn die(&self, request: &BufferedRequest) -> Result<Option<Answer>, ConnectionClosed> {
        let mut life = self.life.subscribe();
        let begun = life.borrow().number;
        if let Some(token) = request.info.as_ref().and_then(RequestInfo::token) {
            self.kill(token);
        }
        let _ = life.wait_for(|life| life.number != begun).await;
        Err(ConnectionClosed)
    }

    /// Updates the object as a third party first. Requests with a resource version then get the API
    /// server's conflict, others get one from the proxy.
    async fn conflict(&self, request: &BufferedRequest) -> Result<Option<Answer>, ConnectionClosed> {
        let Some(info) = &request.info else { return Ok(None) };
        if info.verb == "create" {
            self.forward(request).await?;
            return Ok(None);
        }
        self.touch(request).await?;
        let says_version =
            std::str::from_utf8(&request.body).is_ok_and(|body| body.contains("resourceVersion"));
        if says_version {
            return Ok(None);
        }
        let message = "the object has been modified; please apply your changes to the latest version";
        Ok(Some(refusal(409, "Conflict", message)))
    }

    /// Modifies an object without an effect on controllers.
    async fn touch(&self, request: &BufferedRequest) -> Result<(), ConnectionClosed> {
        let path = request.parts.uri.path();
        let path = ["/status", "/finalize"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
        let moment = format!("{:?}", std::time::SystemTime::now());
        let change = json!({ "metadata": { "annotations": { TOUCHED_ANNOTATION: moment } } });
        let request = Request::patch(path)
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .body(Body::from(change.to_string().into_bytes()))
            .map_err(|_| ConnectionClosed)?;
        let answer = self.administrator.send(request).await.map_err(|_| ConnectionClosed)?;
        if answer.status().is_success() { Ok(()) } else { Err(ConnectionClosed) }
    }
}

/// Builds a response of an API server that rejects a request temporarily.
fn overloaded(code: u16, retry_after: Option<u32>) -> Answer {
    let (reason, message) = match code {
        403 => ("Forbidden", "a fault: not allowed"),
        422 => ("Invalid", "a fault: the object is invalid"),
        429 => ("TooManyRequests", "a fault: too many requests, please try again later"),
        503 => ("ServiceUnavailable", "a fault: the server is currently unable to handle the request"),
        504 => ("Timeout", "a fault: request did not complete within the allotted timeout"),
        _ => ("InternalError", "a fault: an error on the server"),
    };
    let mut answer = refusal(code, reason, message);
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(seconds));
    }
    answer
}
