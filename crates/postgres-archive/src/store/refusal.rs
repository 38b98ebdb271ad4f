//! Answers of the object store that are not successful.

use std::fmt;

use crate::text::printable;

/// Longest text of a code or a message that is kept.
const MAX_TEXT: usize = 200;

/// Codes with other statuses than 401 and 403: of AWS, and of versitygw for an unknown access key.
const DENIALS: [&str; 3] = ["ExpiredToken", "InvalidToken", "XAdminUserNotFound"];

/// Codes with the status 400 for headers that a store does not know. Others, such as that of a body which
/// does not arrive, must not turn the conditions off.
const UNKNOWN_HEADERS: [&str; 3] = ["InvalidArgument", "InvalidRequest", "NotImplemented"];

/// Answer of the object store that is not successful.
///
/// Holds the code and the message only. The rest of the answer can have keys and signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status of HTTP.
    pub status: u16,
    /// Code of S3, such as `AccessDenied`. Empty if the answer has none, as for `HEAD`.
    pub code: String,
    /// Words of the store. Empty if the answer has none.
    pub message: String,
}

impl Refusal {
    /// Reads an answer.
    pub(super) fn parse(status: u16, body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(body);
        Self { status, code: element(&body, "Code"), message: element(&body, "Message") }
    }

    /// Returns whether the same request can succeed later.
    pub(super) fn is_transient(&self) -> bool {
        // S3 answers 400 RequestTimeout to a request whose body arrives too slowly.
        let is_slow = self.status == 400 && self.code == "RequestTimeout";
        is_slow || matches!(self.status, 408 | 429 | 500 | 502..=599)
    }

    /// Returns whether the object does not exist.
    ///
    /// An answer to `HEAD` has no code. Another 404 than `NoSuchKey`, such as that of a missing bucket or
    /// of a proxy, must not be taken for a missing object: PostgreSQL would end a recovery there.
    pub(super) fn is_missing_object(&self, is_head: bool) -> bool {
        self.status == 404 && (self.code == "NoSuchKey" || (is_head && self.code.is_empty()))
    }

    /// Returns whether the store does not accept the credentials, or they lack a right.
    pub(super) fn is_denial(&self) -> bool {
        matches!(self.status, 401 | 403) || DENIALS.contains(&self.code.as_str())
    }

    /// Returns whether the store refuses a conditional PUT because the object exists, or because
    /// another one is in flight.
    pub(super) fn is_precondition(&self) -> bool {
        matches!(self.status, 409 | 412)
    }

    /// Returns whether the store may not know the header of a conditional PUT.
    pub(super) fn is_unknown_header(&self) -> bool {
        self.status == 501 || (self.status == 400 && UNKNOWN_HEADERS.contains(&self.code.as_str()))
    }
}

/// Returns the text of the first XML element of a name, without characters that are no text.
fn element(xml: &str, name: &str) -> String {
    let content = xml.split_once(&format!("<{name}>")).and_then(|(_, rest)| rest.split_once("</"));
    printable(content.map_or("", |(content, _)| content), MAX_TEXT)
}

/// Prints the status, the code, and the message: `403 AccessDenied: Access Denied`.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        let message = self.message.trim_end_matches('.');
        if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_and_message_are_kept() {
        let body = b"<?xml version=\"1.0\"?>\n<Error><Code>SignatureDoesNotMatch</Code><Message>It differs.\n</Message>\
            <AWSAccessKeyId>AKIA</AWSAccessKeyId><StringToSign>secret</StringToSign></Error>";
        let refusal = Refusal::parse(403, body);
        assert_eq!(refusal.to_string(), "403 SignatureDoesNotMatch: It differs");
        assert!(!format!("{refusal:?}").contains("AKIA"));
    }

    #[test]
    fn hostile_answers_are_short() {
        for body in [&b""[..], b"<Code>", b"<Code></Code>", b"\xff\0<Message>\x1b[2J", b"</Code><Code>"] {
            assert_eq!(Refusal::parse(500, body).to_string().lines().count(), 1);
        }
        let long = format!("<Code>{}</Code>", "é".repeat(100_000));
        assert_eq!(Refusal::parse(500, long.as_bytes()).code.chars().count(), MAX_TEXT);
    }

    #[test]
    fn status_and_code_decide() {
        let refusal = |status, code: &str| Refusal { status, code: code.to_owned(), message: String::new() };
        assert!(refusal(503, "SlowDown").is_transient() && refusal(400, "RequestTimeout").is_transient());
        assert!(
            !refusal(403, "AccessDenied").is_transient() && !refusal(501, "NotImplemented").is_transient()
        );
        assert!(
            refusal(404, "NoSuchKey").is_missing_object(false) && refusal(404, "").is_missing_object(true)
        );
        for (status, code) in
            [(404, ""), (404, "NoSuchBucket"), (404, "XAdminUserNotFound"), (410, "NoSuchKey")]
        {
            assert!(!refusal(status, code).is_missing_object(false), "{status} {code}");
        }
        assert!(refusal(403, "").is_denial() && refusal(400, "ExpiredToken").is_denial());
        assert!(!refusal(404, "NoSuchKey").is_denial());
        assert!(
            refusal(412, "").is_precondition()
                && refusal(409, "ConditionalRequestConflict").is_precondition()
        );
        assert!(refusal(501, "").is_unknown_header() && refusal(400, "InvalidArgument").is_unknown_header());
        for code in ["RequestTimeout", "IncompleteBody", "BadDigest", "ExpiredToken", ""] {
            assert!(!refusal(400, code).is_unknown_header(), "{code}");
        }
    }
}
