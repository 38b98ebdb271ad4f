//! What a handler answers.

/// Why an object is refused, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// This user may not do it, or nobody may at present.
    Forbidden,
    /// The object makes no sense.
    Invalid,
    /// It cannot be together with what is there.
    Conflict,
}

impl Reason {
    /// The status code that goes with it.
    pub fn code(self) -> u16 {
        match self {
            Self::Forbidden => 403,
            Self::Conflict => 409,
            Self::Invalid => 422,
        }
    }

    /// Its name in a Kubernetes `Status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::Conflict => "Conflict",
            Self::Invalid => "Invalid",
        }
    }
}

/// A refusal. The message is shown to the person as it is; it says what is wrong, where, and what they can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people.
    pub message: String,
}

impl Denial {
    /// This user may not do it, or nobody may at present.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self { reason: Reason::Forbidden, message: message.into() }
    }

    /// The object makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { reason: Reason::Invalid, message: message.into() }
    }

    /// It cannot be together with what is there.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self { reason: Reason::Conflict, message: message.into() }
    }
}

/// The answer of a [`Validator`](super::Validator).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// Why it is refused, if it is.
    pub denial: Option<Denial>,
    /// Shown to the person in any case. The API server cuts each off at 256 characters.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// The object may be stored.
    pub fn allow() -> Self {
        Self::default()
    }

    /// The object is refused.
    pub fn deny(denial: Denial) -> Self {
        Self { denial: Some(denial), warnings: Vec::new() }
    }

    /// The same, with a warning.
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

/// The answer of a [`Mutator`](super::Mutator).
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Mutation<O> {
    /// What the object is to be instead, if it is to be changed.
    pub changed: Option<O>,
    /// Whether it may be stored then.
    pub verdict: Verdict,
}

impl<O> Mutation<O> {
    /// The object stays as it is.
    pub fn keep() -> Self {
        Self { changed: None, verdict: Verdict::allow() }
    }

    /// The object is changed to this. Fields that the type does not know stay as they are.
    pub fn change(object: O) -> Self {
        Self { changed: Some(object), verdict: Verdict::allow() }
    }

    /// The object is refused.
    pub fn deny(denial: Denial) -> Self {
        Self { changed: None, verdict: Verdict::deny(denial) }
    }

    /// The same, with a warning.
    pub fn warn(mut self, warning: impl Into<String>) -> Self {
        self.verdict = self.verdict.warn(warning);
        self
    }
}
