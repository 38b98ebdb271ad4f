//! What a fault does to a request.

use http::{Request, header};
use kube::client::Body;
use serde_json::json;

use super::{
    Shared,
    asked::Asked,
    rules::Fault,
    serve::{Answer, Broken, Whole, refusal},
};
use crate::{oracle::TOUCHED, token::Token};

impl Shared {
    /// Does to a request what is meant for it. `None` if it is to be passed on now.
    pub(super) async fn strike(&self, whole: &Whole, fault: Fault) -> Result<Option<Answer>, Broken> {
        match fault {
            Fault::CrashBefore => self.die(whole).await,
            Fault::CrashAfter => {
                let _ = self.pass_on(whole).await;
                self.die(whole).await
            }
            Fault::Lost => {
                let _ = self.pass_on(whole).await;
                Err(Broken)
            }
            Fault::Conflict => Ok(self.conflict(whole).await?),
            Fault::Answer { code, retry_after } => Ok(Some(told(code, retry_after))),
            Fault::Delay(wait) => {
                tokio::time::sleep(wait).await;
                Ok(None)
            }
        }
    }

    /// Has the manager die: nothing of it is passed on any more.
    pub(super) fn kill(&self, token: Token) {
        self.life.send_modify(|life| life.is_over = true);
        let _ = self.crash.send(token);
    }

    /// Has the manager die, and never answers.
    async fn die(&self, whole: &Whole) -> Result<Option<Answer>, Broken> {
        let mut life = self.life.subscribe();
        let begun = life.borrow().number;
        if let Some(token) = whole.asked.as_ref().and_then(Asked::token) {
            self.kill(token);
        }
        let _ = life.wait_for(|life| life.number != begun).await;
        Err(Broken)
    }

    /// Has somebody else be quicker. What says which version it means then gets the API server's own refusal, and what
    /// does not is refused here.
    async fn conflict(&self, whole: &Whole) -> Result<Option<Answer>, Broken> {
        let Some(asked) = &whole.asked else { return Ok(None) };
        if asked.verb == "create" {
            self.pass_on(whole).await?;
            return Ok(None);
        }
        self.touch(whole).await?;
        let says_version =
            std::str::from_utf8(&whole.body).is_ok_and(|body| body.contains("resourceVersion"));
        if says_version {
            return Ok(None);
        }
        let message = "the object has been modified; please apply your changes to the latest version";
        Ok(Some(refusal(409, "Conflict", message)))
    }

    /// Changes an object in a way that concerns nobody.
    async fn touch(&self, whole: &Whole) -> Result<(), Broken> {
        let path = whole.parts.uri.path();
        let path = ["/status", "/finalize"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
        let moment = format!("{:?}", std::time::SystemTime::now());
        let change = json!({ "metadata": { "annotations": { TOUCHED: moment } } });
        let request = Request::patch(path)
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .body(Body::from(change.to_string().into_bytes()))
            .map_err(|_| Broken)?;
        let answer = self.administrator.send(request).await.map_err(|_| Broken)?;
        if answer.status().is_success() { Ok(()) } else { Err(Broken) }
    }
}

/// An answer by which an API server refuses for another reason than what is asked.
fn told(code: u16, retry_after: Option<u32>) -> Answer {
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
