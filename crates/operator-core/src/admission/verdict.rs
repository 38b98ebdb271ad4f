//! Responses of handlers.

/// Machine-readable reason of a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The user may not do this, or nobody may at present.
    Forbidden,
    /// The object is invalid.
    Invalid,
    /// The object conflicts with existing objects.
    Conflict,
}

impl Reason {
    /// Returns the status code.
    pub fn code(self) -> u16 {
        match self {
            Self::Forbidden => 403,
            Self::Conflict => 409,
            Self::Invalid => 422,
        }
    }

    /// Returns the reason of the `Status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::Conflict => "Conflict",
            Self::Invalid => "Invalid",
        }
    }
}

/// Denial of a request. The user sees the message unchanged: it names the error, its location, and
/// the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Machine-readable reason.
    pub reason: Reason,
    /// Human-readable message.
    pub message: String,
}

impl Denial {
    /// Returns a denial because the user may not do this, or nobody may at present.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self { reason: Reason::Forbidden, message: message.into() }
    }

    /// Returns a denial because the object is invalid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { reason: Reason::Invalid, message: message.into() }
    }

    /// Returns a denial because the object conflicts with existing objects.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self { reason: Reason::Conflict, message: message.into() }
    }
}

/// Response of a [`Validator`](super::Validator).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// Why the request is denied. `None` if it is allowed.
    pub denial: Option<Denial>,
    /// Warnings for the user. The API server truncates each to 256 characters.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Allows the request.
    pub fn allow() -> Self {
        Self::default()
    }

    /// Denies the request.
    pub fn deny(denial: Denial) -> Self {
        Self { denial: Some(denial), warnings: Vec::new() }
    }

    /// Adds a warning.
    pub fn warn(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }
}

impl From<Result<(), Denial>> for Verdict {
    fn from(result: Result<(), Denial>) -> Self {
        result.map_or_else(Self::deny, |()| Self::allow())
    }
}

/// Response of a [`Mutator`](super::Mutator).
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Mutation<O> {
    /// The changed object. `None` if it is unchanged.
    pub changed: Option<O>,
    /// Whether the request is allowed.
    pub verdict: Verdict,
}

impl<O> Mutation<O> {
    /// Allows the request without a change.
    pub fn keep() -> Self {
        Self { changed: None, verdict: Verdict::allow() }
    }

    /// Changes the object. Fields that the type does not have are preserved.
    pub fn change(object: O) -> Self {
        Self { changed: Some(object), verdict: Verdict::allow() }
    }

    /// Denies the request.
    pub fn deny(denial: Denial) -> Self {
        Self { changed: None, verdict: Verdict::deny(denial) }
    }

    /// Adds a warning.
    pub fn warn(mut self, warning: impl Into<String>) -> Self {
        self.verdict = self.verdict.warn(warning);
        self
    }
}
