//! Where the archive is, and how to reach it.

mod credentials;
mod location;

use std::time::Duration;

pub use self::credentials::Credentials;
pub(crate) use self::location::Location;
use self::location::{bucket_url, check_region};

/// Region that S3 servers outside of AWS accept.
const DEFAULT_REGION: &str = "us-east-1";
/// Time of one request, with the transfer of its body.
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// Time of an operation, with all its attempts.
const DEFAULT_DEADLINE: Duration = Duration::from_mins(5);
/// Longest bundle of certificates.
const MAX_CA_BUNDLE: usize = 1 << 20;

/// An object store, and how to reach it.
///
/// [`ObjectStore::new`](crate::ObjectStore::new) checks the values.
#[derive(Clone, Debug)]
pub struct ObjectStoreSettings {
    /// Bucket and prefix: `s3://bucket/prefix`. No other scheme is supported.
    pub url: String,
    /// Server, such as `https://s3.example.com`. `None`: AWS.
    pub endpoint: Option<String>,
    /// Region. `None`: `us-east-1`.
    pub region: Option<String>,
    /// Whether the bucket is in the path and not in the name of the host. `None`: yes if there is an
    /// endpoint.
    pub path_style: Option<bool>,
    /// Key with which requests are signed.
    pub credentials: Credentials,
    /// Authorities of the server in PEM. `None`: the authorities of Mozilla.
    pub ca_bundle: Option<String>,
    /// Longest time of one request, with the transfer of its body to the store. While a body is
    /// received, the longest time without a byte.
    pub request_timeout: Duration,
    /// Longest time of an operation, with all its attempts. Operations on many objects take it for each.
    pub deadline: Duration,
}

/// Error of settings with which no store can be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The URL has another scheme.
    #[error("cannot archive to \"{0}\": the only supported scheme is s3://; write s3://bucket/prefix")]
    Scheme(String),
    /// The URL has no valid bucket.
    #[error(
        "cannot archive to \"{0}\": a bucket has 3 to 63 lower-case letters, digits, hyphens, and dots; write \
         s3://bucket/prefix"
    )]
    Bucket(String),
    /// The URL has no valid prefix.
    #[error(
        "cannot archive to \"{0}\": each part of the prefix has letters, digits, and . _ = -, is not . or .., \
         and the prefix has at most 512 letters; write s3://bucket/prefix"
    )]
    Prefix(String),
    /// The endpoint is no URL of a server.
    #[error(
        "cannot reach the object store at the endpoint \"{0}\": write http:// or https:// with a host and an \
         optional port, and no path"
    )]
    Endpoint(String),
    /// The region has other characters.
    #[error("\"{0}\" is not a region: use lower-case letters, digits, and hyphens")]
    Region(String),
    /// A part of the credentials is empty or has white space.
    #[error(
        "cannot use the {0} of the object store: it is empty, or has white space, control, or non-ASCII \
         characters; create the Secret again without a line break at the end"
    )]
    Credentials(&'static str),
    /// The bundle has no certificate, or a malformed one.
    #[error("cannot read the CA bundle of the object store: {0}; write certificates in PEM")]
    CaBundle(String),
    /// A timeout is zero.
    #[error("cannot use a {0} of zero for the object store; write a longer time")]
    Timeout(&'static str),
}

impl ObjectStoreSettings {
    /// Returns the settings of a bucket at AWS.
    pub fn new(url: impl Into<String>, credentials: Credentials) -> Self {
        Self {
            url: url.into(),
            endpoint: None,
            region: None,
            path_style: None,
            credentials,
            ca_bundle: None,
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            deadline: DEFAULT_DEADLINE,
        }
    }

    /// Returns the region.
    pub(crate) fn region(&self) -> &str {
        self.region.as_deref().unwrap_or(DEFAULT_REGION)
    }

    /// Returns the URL of the bucket, to which keys are appended.
    ///
    /// # Errors
    /// Returns the first invalid value of all settings, other than those of the CA bundle.
    pub(crate) fn validate(&self) -> Result<Location, SettingsError> {
        let (bucket, prefix) = location::split(&self.url)?;
        check_region(self.region())?;
        self.credentials.validate()?;
        if self.ca_bundle.as_ref().is_some_and(|bundle| bundle.len() > MAX_CA_BUNDLE) {
            return Err(SettingsError::CaBundle("it is longer than 1 MiB".to_owned()));
        }
        self.check_timeouts()?;
        let path_style = self.path_style.unwrap_or_else(|| self.endpoint.is_some());
        let bucket_url = bucket_url(self.endpoint.as_deref(), self.region(), &bucket, path_style)?;
        Ok(Location { bucket, prefix, bucket_url })
    }

    fn check_timeouts(&self) -> Result<(), SettingsError> {
        let timeouts = [("request timeout", self.request_timeout), ("deadline", self.deadline)];
        let zero = timeouts.into_iter().find(|(_, time)| time.is_zero());
        zero.map_or(Ok(()), |(name, _)| Err(SettingsError::Timeout(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> ObjectStoreSettings {
        ObjectStoreSettings::new(url, Credentials::new("AKIA", "wonderland"))
    }

    #[test]
    fn bucket_is_in_the_path_if_there_is_an_endpoint() {
        let mut settings = settings("s3://backups/eu/db");
        let url = |settings: &ObjectStoreSettings| settings.validate().unwrap().bucket_url;
        assert_eq!(url(&settings), "https://backups.s3.us-east-1.amazonaws.com");
        settings.region = Some("eu-central-1".to_owned());
        settings.path_style = Some(true);
        assert_eq!(url(&settings), "https://s3.eu-central-1.amazonaws.com/backups");
        settings.endpoint = Some("http://[::1]:9000/".to_owned());
        settings.path_style = None;
        assert_eq!(url(&settings), "http://[::1]:9000/backups");
        settings.path_style = Some(false);
        settings.endpoint = Some("https://s3.example.com".to_owned());
        assert_eq!(url(&settings), "https://backups.s3.example.com");
        assert_eq!(settings.validate().unwrap().prefix, "eu/db");
    }

    #[test]
    fn secrets_are_not_printed() {
        let mut settings = settings("s3://backups");
        settings.credentials.session_token = Some("looking-glass".to_owned());
        let text = format!("{settings:?}");
        for secret in ["AKIA", "wonderland", "looking-glass"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert!(text.contains("s3://backups"));
    }

    #[test]
    fn invalid_values_are_named() {
        let with = |change: fn(&mut ObjectStoreSettings)| {
            let mut settings = settings("s3://backups");
            change(&mut settings);
            settings.validate().map(|_| ()).unwrap_err()
        };
        assert_eq!(
            with(|settings| settings.credentials.secret_access_key = "wonderland\n".to_owned()),
            SettingsError::Credentials("secret access key")
        );
        assert_eq!(
            with(|settings| settings.credentials.access_key_id.clear()),
            SettingsError::Credentials("access key ID")
        );
        assert_eq!(
            with(|settings| settings.credentials.session_token = Some("é".to_owned())),
            SettingsError::Credentials("session token")
        );
        assert_eq!(
            with(|settings| settings.region = Some("eu central".to_owned())),
            SettingsError::Region("eu central".to_owned())
        );
        assert_eq!(with(|settings| settings.deadline = Duration::ZERO), SettingsError::Timeout("deadline"));
    }
}
