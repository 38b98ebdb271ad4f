//! Errors of operations on the object store, and which of them another attempt can mend.

use std::{error::Error, fmt, iter, time::Duration};

use super::{refusal::Refusal, transport::TransportError};

/// What an operation does with an object, or with a folder of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes an object that does not exist.
    Put,
    /// Reads an object.
    Get,
    /// Reads the metadata of an object.
    Head,
    /// Lists objects.
    List,
    /// Deletes an object.
    Delete,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Put => "write",
            Self::Get => "read",
            Self::Head => "look up",
            Self::List => "list",
            Self::Delete => "delete",
        })
    }
}

/// Error of an operation on the object store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The object exists with other content, or without a checksum. Nothing was overwritten.
    #[error(
        "cannot write {key}: it exists with other content, and nothing was overwritten; look for another \
         cluster or program that writes to this place, and move the object away if it is not needed"
    )]
    Conflict {
        /// Key of the object.
        key: String,
    },
    /// The store does not accept the credentials, or they lack a right.
    #[error(
        "cannot {operation} {key}: the object store denies access ({refusal}); check the access key, the \
         secret key, the region, the rights on the bucket, and the clock of the node"
    )]
    Denied {
        /// What was attempted.
        operation: Operation,
        /// Key of the object or the folder.
        key: String,
        /// Answer of the store.
        refusal: Refusal,
    },
    /// The bucket does not exist.
    #[error("cannot {operation} {key}: the bucket does not exist ({refusal}); create it, or correct the URL")]
    NoBucket {
        /// What was attempted.
        operation: Operation,
        /// Key of the object or the folder.
        key: String,
        /// Answer of the store.
        refusal: Refusal,
    },
    /// The store refuses the request for another reason.
    #[error(
        "cannot {operation} {key}: the object store refuses the request ({refusal}); check the endpoint, the \
         region, and whether the bucket is in the path or in the name of the host"
    )]
    Refused {
        /// What was attempted.
        operation: Operation,
        /// Key of the object or the folder.
        key: String,
        /// Answer of the store.
        refusal: Refusal,
    },
    /// The certificate of the server is not trusted.
    #[error(
        "cannot {operation} {key}: the certificate of the object store is not trusted ({cause}); put its \
         authority into the CA bundle, or correct the endpoint"
    )]
    Certificate {
        /// What was attempted.
        operation: Operation,
        /// Key of the object or the folder.
        key: String,
        /// Why it is not trusted.
        cause: String,
    },
    /// No attempt succeeded within the deadline.
    #[error(
        "cannot {operation} {key} within {deadline:?}, in {attempts} attempts: {cause}; check the endpoint, \
         the network, the NetworkPolicies, and the load and the free space of the object store"
    )]
    Unavailable {
        /// What was attempted.
        operation: Operation,
        /// Key of the object or the folder.
        key: String,
        /// Time of all attempts.
        deadline: Duration,
        /// How many attempts began.
        attempts: u32,
        /// Failure of the last attempt.
        cause: String,
    },
    /// The answer cannot be understood.
    #[error("cannot {operation} {key}: the answer is not that of an S3 server ({cause}); check the endpoint")]
    Malformed {
        /// What was attempted.
        operation: Operation,
        /// Key of the object or the folder.
        key: String,
        /// Why it cannot be understood.
        cause: String,
    },
    /// There are more bytes or objects than an archive has.
    #[error("cannot {operation} {key}: there are more than {limit} {unit}; move what is not needed away")]
    TooLarge {
        /// What was attempted.
        operation: Operation,
        /// Key of the object or the folder.
        key: String,
        /// Most bytes or objects.
        limit: u64,
        /// What is counted: `bytes` or `objects`.
        unit: &'static str,
    },
}

/// Failure of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The store refuses the request.
    Refused(Refusal),
    /// The store refuses to create an object, although it does not exist: another writer is busy with
    /// it, or it was deleted meanwhile.
    Busy(Refusal),
    /// The store cannot be reached, or the transfer broke.
    Transport { cause: String, is_certificate: bool },
    /// The answer cannot be understood.
    Malformed(String),
}

impl Failure {
    /// Finds the answer of the store, or the failure of the transport, in an error of the client.
    pub(super) fn of(error: &object_store::Error) -> Self {
        let mut last = error as &(dyn Error + 'static);
        for cause in iter::successors(Some(last), |&error| error.source()) {
            if let Some(refusal) = cause.downcast_ref::<Refusal>() {
                return Self::Refused(refusal.clone());
            }
            if let Some(transport) = cause.downcast_ref::<TransportError>() {
                let is_certificate = transport.is_certificate;
                return Self::Transport { cause: transport.to_string(), is_certificate };
            }
            last = cause;
        }
        Self::Malformed(last.to_string())
    }

    /// Returns whether another attempt can succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.is_transient(),
            Self::Busy(_) => true,
            Self::Transport { is_certificate, .. } => !is_certificate,
            Self::Malformed(_) => false,
        }
    }

    /// Returns the answer of the store, if that is the failure.
    pub(super) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Returns the same failure of a PUT whose object does not exist.
    pub(super) fn into_busy(self) -> Self {
        match self {
            Self::Refused(refusal) => Self::Busy(refusal),
            other => other,
        }
    }

    /// Returns the error of an operation that ends with this failure, which is not transient.
    pub(super) fn into_error(self, operation: Operation, key: &str) -> StoreError {
        let key = key.to_owned();
        match self {
            Self::Refused(refusal) if refusal.code == "NoSuchBucket" => {
                StoreError::NoBucket { operation, key, refusal }
            }
            Self::Refused(refusal) if refusal.is_denial() => StoreError::Denied { operation, key, refusal },
            Self::Refused(refusal) | Self::Busy(refusal) => StoreError::Refused { operation, key, refusal },
            Self::Transport { cause, .. } => StoreError::Certificate { operation, key, cause },
            Self::Malformed(cause) => StoreError::Malformed { operation, key, cause },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) | Self::Busy(refusal) => refusal.fmt(f),
            Self::Transport { cause, .. } | Self::Malformed(cause) => f.write_str(cause),
        }
    }
}
