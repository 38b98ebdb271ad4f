//! Exact Kubernetes quantities.
//!
//! A [`Quantity`] is a whole number of 10⁻⁹ units and a suffix format. Grammar, canonical form,
//! rounding, and the format of a sum are those of `resource.Quantity` in apimachinery. Test vectors
//! that apimachinery printed verify this. There are three intended differences:
//!
//! - It always prints the canonical form. apimachinery keeps some other spellings (`1.500`, `+1`).
//! - A text without a digit (`m`, `.`) is an error. apimachinery parses it as zero.
//! - The largest magnitude is about 10²⁸. apimachinery has no limit, but loses the exponent from
//!   10²¹ on.

use std::{cmp::Ordering, fmt, str::FromStr};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

/// Number of 10⁻⁹ units in one.
const NANOS: i128 = 1_000_000_000;
/// Number of 10⁻⁹ units in a thousandth.
const MILLI: i128 = NANOS / 1000;
/// Maximum of a parsed quantity with a binary suffix, as in apimachinery.
const MAX_BINARY: i128 = i64::MAX as i128 * NANOS;
const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Regular expression of the quantities that are not negative, for the schemas of CRDs.
///
/// Use it with `minimum: 0`, which applies to numbers, instead of the CEL function `isQuantity`.
/// The API server of Kubernetes 1.33 ignores `maxLength` next to `x-kubernetes-int-or-string` when
/// it estimates the cost of a CEL rule, and refuses rules about maps and lists of quantities.
pub const NON_NEGATIVE_PATTERN: &str =
    r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,9})?$";

/// Suffix format of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Powers of ten with a letter: `100m`, `12`, `3G`.
    #[default]
    DecimalSi,
    /// Powers of 1024: `64Ki`, `16Gi`. Values below 1024 or with a fraction print as
    /// [`Format::DecimalSi`].
    BinarySi,
    /// Powers of ten with an exponent: `12e6`.
    DecimalExponent,
}

/// Error of a text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// The text does not begin with a number.
    #[error("\"{0}\" is not a quantity: it must begin with a number such as 2, 0.5 or -1")]
    Number(String),
    /// The text after the number is no suffix.
    #[error(
        "\"{text}\" is not a quantity: \"{suffix}\" is not a suffix; use one of n u m k M G T P E, \
         Ki Mi Gi Ti Pi Ei, or an exponent such as e3"
    )]
    Suffix {
        /// The whole text.
        text: String,
        /// The text after the number.
        suffix: String,
    },
    /// The magnitude exceeds the largest number of 10⁻⁹ units.
    #[error("the quantity \"{0}\" is too large: its magnitude can be at most about 10^28")]
    OutOfRange(String),
}

/// An exact amount of a resource.
///
/// Equality and order compare values: `1Gi` equals `1024Mi`. [`fmt::Display`] prints the canonical
/// form: without a fraction, exact, with the largest suffix of the format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Zero. A sum that starts with it has the format of the other operand.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Returns `units` whole units.
    pub fn from_units(units: i64, format: Format) -> Self {
        Self { nanos: i128::from(units) * NANOS, format }
    }

    /// Returns the suffix format.
    pub fn format(self) -> Format {
        self.format
    }

    /// Returns the same value in another format.
    #[must_use]
    pub fn in_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// Rounds to whole thousandths, away from zero. The API server does the same for Pods, quotas,
    /// and limit ranges (`SetDefaults_ResourceList`).
    #[must_use]
    pub fn in_thousandths(self) -> Self {
        let rest = self.nanos % MILLI;
        let away = if rest == 0 { 0 } else { MILLI.saturating_mul(rest.signum()) - rest };
        Self { nanos: self.nanos.saturating_add(away), ..self }
    }

    /// Returns the value as a floating-point number, for metrics. Large values lose precision.
    #[allow(clippy::cast_precision_loss, reason = "documented")]
    pub fn to_f64(self) -> f64 {
        self.nanos as f64 / 1e9
    }

    /// Returns whether the value is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Adds. The result has the format of `self`, or of `other` if `self` is zero. Returns `None`
    /// on overflow.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let nanos = self.nanos.checked_add(other.nanos)?;
        Some(Self { nanos, format: self.family_with(other) })
    }

    /// Subtracts. The format is that of [`Self::checked_add`]. Returns `None` on overflow.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        let nanos = self.nanos.checked_sub(other.nanos)?;
        Some(Self { nanos, format: self.family_with(other) })
    }

    /// Adds, like [`Self::checked_add`], and saturates on overflow.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), format: self.family_with(other) }
    }

    /// Subtracts, like [`Self::checked_sub`], and saturates on overflow.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), format: self.family_with(other) }
    }

    fn family_with(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }

    /// Limits a parsed quantity with a binary suffix, and changes the format of values below one,
    /// as apimachinery does.
    fn normalize_binary(self) -> Self {
        let nanos = self.nanos.clamp(-MAX_BINARY, MAX_BINARY);
        let below_one = nanos != 0 && nanos.abs() < NANOS;
        Self { nanos, format: if below_one { Format::DecimalSi } else { Format::BinarySi } }
    }

    /// Returns the number and the exponent of 1024, if the canonical form has a binary suffix.
    fn as_binary(self) -> Option<(i128, usize)> {
        let whole = self.nanos / NANOS;
        if self.format != Format::BinarySi || self.nanos % NANOS != 0 || whole.abs() < 1024 {
            return None;
        }
        let (mut number, mut power) = (whole, 0);
        while power < BINARY_SUFFIXES.len() && number % 1024 == 0 {
            number /= 1024;
            power += 1;
        }
        Some((number, power))
    }

    /// Returns the number and the exponent of ten: the largest multiple of three up to `limit`.
    fn as_decimal(self, limit: i32) -> (i128, i32) {
        let (mut number, mut exponent) = (self.nanos, -9);
        while number != 0 && number % 1000 == 0 && exponent < limit {
            number /= 1000;
            exponent += 3;
        }
        (number, exponent)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        if let Some((number, power)) = self.as_binary() {
            let suffix = power.checked_sub(1).and_then(|at| BINARY_SUFFIXES.get(at)).unwrap_or(&"");
            return write!(f, "{number}{suffix}");
        }
        if self.format == Format::DecimalExponent {
            return match self.as_decimal(i32::MAX) {
                (number, 0) => write!(f, "{number}"),
                (number, exponent) => write!(f, "{number}e{exponent}"),
            };
        }
        let (number, exponent) = self.as_decimal(18);
        let suffix =
            DECIMAL_SUFFIXES.iter().find(|(_, power)| *power == exponent).map_or("", |(name, _)| name);
        write!(f, "{number}{suffix}")
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = Number::split(text).ok_or_else(|| ParseQuantityError::Number(text.to_owned()))?;
        let suffix = number.suffix;
        let (format, scale) = Scale::of(suffix)
            .ok_or_else(|| ParseQuantityError::Suffix { text: text.to_owned(), suffix: suffix.to_owned() })?;
        let nanos = number.nanos(scale).ok_or_else(|| ParseQuantityError::OutOfRange(text.to_owned()))?;
        let quantity = Self { nanos, format };
        Ok(if format == Format::BinarySi { quantity.normalize_binary() } else { quantity })
    }
}

impl TryFrom<&ApiQuantity> for Quantity {
    type Error = ParseQuantityError;

    fn try_from(quantity: &ApiQuantity) -> Result<Self, Self::Error> {
        quantity.0.parse()
    }
}

impl From<Quantity> for ApiQuantity {
    fn from(quantity: Quantity) -> Self {
        Self(quantity.to_string())
    }
}

/// Scale of a suffix.
#[derive(Clone, Copy)]
enum Scale {
    /// A power of ten.
    Ten(i32),
    /// A power of 1024.
    Binary(u32),
}

impl Scale {
    fn of(suffix: &str) -> Option<(Format, Self)> {
        if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
            return Some((Format::DecimalSi, Self::Ten(*power)));
        }
        if let Some((_, power)) = BINARY_SUFFIXES.iter().zip(1..).find(|(name, _)| **name == suffix) {
            return Some((Format::BinarySi, Self::Binary(power)));
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        Some((Format::DecimalExponent, Self::Ten(exponent.parse().ok()?)))
    }

    /// Returns the number of 10⁻⁹ units, and how many times to divide by ten if it is less than
    /// one.
    fn units(self) -> Option<(i128, u32)> {
        match self {
            Self::Binary(power) => Some((NANOS.checked_mul(1024_i128.checked_pow(power)?)?, 0)),
            Self::Ten(power) => {
                let power = power.saturating_add(9);
                let down = if power < 0 { power.unsigned_abs() } else { 0 };
                Some((10_i128.checked_pow(power.max(0).unsigned_abs())?, down))
            }
        }
    }
}

/// Parts of a text.
struct Number<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Number<'a> {
    /// Splits a text. Returns `None` if there is no digit.
    fn split(text: &'a str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = leading_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), leading_digits);
        let digits = whole.len() + fraction.len();
        (digits > 0).then_some(Self { negative: text.starts_with('-'), whole, fraction, suffix })
    }

    /// Returns the number of 10⁻⁹ units, rounded away from zero. Returns `None` if it is too large.
    ///
    /// Processes the fraction from its last digit, so a long fraction neither overflows nor loses
    /// the remainder.
    fn nanos(&self, scale: Scale) -> Option<i128> {
        let zero = self.whole.bytes().chain(self.fraction.bytes()).all(|digit| digit == b'0');
        if zero {
            return Some(0);
        }
        let (unit, down) = scale.units()?;
        let (mut part, mut inexact) = (0_i128, false);
        for digit in digits(self.fraction).rev() {
            let sum = digit.checked_mul(unit)?.checked_add(part)?;
            inexact |= sum % 10 != 0;
            part = sum / 10;
        }
        let whole =
            digits(self.whole).try_fold(0_i128, |sum, digit| sum.checked_mul(10)?.checked_add(digit))?;
        let mut nanos = whole.checked_mul(unit)?.checked_add(part)?;
        for _ in 0..down {
            if nanos == 0 {
                break;
            }
            inexact |= nanos % 10 != 0;
            nanos /= 10;
        }
        let magnitude = nanos.checked_add(i128::from(inexact))?;
        Some(if self.negative { -magnitude } else { magnitude })
    }
}

fn leading_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn digits(text: &str) -> impl DoubleEndedIterator<Item = i128> {
    text.bytes().map(|digit| i128::from(digit - b'0'))
}

#[cfg(test)]
mod tests;
