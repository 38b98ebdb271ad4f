//! Kubernetes quantities, counted exactly.
//!
//! A [`Quantity`] is a whole number of 10⁻⁹ units and the family of suffixes it was written in. Grammar,
//! canonical form, rounding and the rule for the family of a sum are those of apimachinery's
//! `resource.Quantity`, and are held by vectors which that package printed. It differs in three places, each
//! on purpose:
//!
//! - it always prints the canonical form, where apimachinery repeats some other spellings as they came (`1.500`, `+1`);
//! - a text without any digit (`m`, `.`) is an error, where apimachinery reads zero;
//! - the largest magnitude is about 10²⁸, where apimachinery has no limit but loses the exponent from 10²¹ on.

use std::{cmp::Ordering, fmt, str::FromStr};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

/// How many of the counted units make one.
const NANOS: i128 = 1_000_000_000;
/// A thousandth in counted units.
const MILLI: i128 = NANOS / 1000;
/// A quantity in binary suffixes is capped here when it is read, as apimachinery caps it.
const MAX_BINARY: i128 = i64::MAX as i128 * NANOS;
const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The family of suffixes in which a quantity is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Powers of ten with a letter: `100m`, `12`, `3G`.
    #[default]
    DecimalSi,
    /// Powers of 1024: `64Ki`, `16Gi`. What is below 1024 or not whole is printed as [`Format::DecimalSi`].
    BinarySi,
    /// Powers of ten with an exponent: `12e6`.
    DecimalExponent,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// It does not begin with a number.
    #[error("\"{0}\" is not a quantity: it must begin with a number such as 2, 0.5 or -1")]
    Number(String),
    /// What follows the number is no suffix.
    #[error(
        "\"{text}\" is not a quantity: \"{suffix}\" is no suffix; write one of n u m k M G T P E, \
         Ki Mi Gi Ti Pi Ei, or an exponent such as e3"
    )]
    Suffix {
        /// The whole text.
        text: String,
        /// What follows the number.
        suffix: String,
    },
    /// It is too large to be counted in 10⁻⁹ units.
    #[error("the quantity \"{0}\" is too large: its magnitude may be at most about 10^28")]
    OutOfRange(String),
}

/// An exact amount of a resource.
///
/// Equality and order go by value: `1Gi` equals `1024Mi`. [`fmt::Display`] prints the canonical form: no
/// fraction, no loss, the largest suffix of the family.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Nothing at all. A sum that starts with it takes the family of what is added.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// That many whole units.
    pub fn from_units(units: i64, format: Format) -> Self {
        Self { nanos: i128::from(units) * NANOS, format }
    }

    /// The family of suffixes it is printed in.
    pub fn format(self) -> Format {
        self.format
    }

    /// The same amount in another family of suffixes.
    #[must_use]
    pub fn in_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// The amount in whole thousandths, rounded away from zero: what the API server makes of the quantities
    /// of pods, quotas and limit ranges (`SetDefaults_ResourceList`).
    #[must_use]
    pub fn in_thousandths(self) -> Self {
        let rest = self.nanos % MILLI;
        let away = if rest == 0 { 0 } else { MILLI.saturating_mul(rest.signum()) - rest };
        Self { nanos: self.nanos.saturating_add(away), ..self }
    }

    /// The amount as a floating-point number, for metrics: large ones lose their last digits.
    #[allow(clippy::cast_precision_loss, reason = "which is said")]
    pub fn to_f64(self) -> f64 {
        self.nanos as f64 / 1e9
    }

    /// Whether it is nothing at all.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The sum, in the family of `self`, or of `other` where `self` is zero. `None` if it cannot be counted.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let nanos = self.nanos.checked_add(other.nanos)?;
        Some(Self { nanos, format: self.family_with(other) })
    }

    /// The difference, in the family that [`Self::checked_add`] would choose. `None` if it cannot be counted.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        let nanos = self.nanos.checked_sub(other.nanos)?;
        Some(Self { nanos, format: self.family_with(other) })
    }

    /// The sum, or the largest (smallest) quantity there is.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), format: self.family_with(other) }
    }

    /// The difference, or the smallest (largest) quantity there is.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), format: self.family_with(other) }
    }

    fn family_with(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }

    /// Caps what the binary family cannot hold, and leaves that family below one, both as apimachinery does
    /// on reading.
    fn settle_binary(self) -> Self {
        let nanos = self.nanos.clamp(-MAX_BINARY, MAX_BINARY);
        let below_one = nanos != 0 && nanos.abs() < NANOS;
        Self { nanos, format: if below_one { Format::DecimalSi } else { Format::BinarySi } }
    }

    /// The number and the exponent of 1024, if the canonical form has one of the binary suffixes.
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

    /// The number and the largest exponent of ten that is a multiple of three, not above `limit`.
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
        Ok(if format == Format::BinarySi { quantity.settle_binary() } else { quantity })
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

/// What one written unit is worth.
#[derive(Clone, Copy)]
enum Scale {
    /// That power of ten.
    Ten(i32),
    /// That power of 1024.
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

    /// The counted units in one written unit, and how many times to divide by ten where that is less than
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

/// The parts of a written quantity.
struct Number<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Number<'a> {
    /// `None` if there is no digit.
    fn split(text: &'a str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = leading_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), leading_digits);
        let digits = whole.len() + fraction.len();
        (digits > 0).then_some(Self { negative: text.starts_with('-'), whole, fraction, suffix })
    }

    /// The number in counted units, rounded away from zero; `None` if it is too large.
    ///
    /// The fraction is taken digit by digit from its end, so that no length of it overflows or loses the
    /// remainder.
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
