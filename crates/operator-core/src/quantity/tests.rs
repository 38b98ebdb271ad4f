//! Tests against vectors that apimachinery printed, and property tests.

use proptest::prelude::*;
use regex::Regex;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Golden {
    parsed: Vec<Parsed>,
    pairs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Parsed {
    input: String,
    #[serde(default)]
    canonical: String,
    #[serde(default)]
    format: String,
    #[serde(default)]
    error: bool,
}

#[derive(Deserialize)]
struct Pair {
    a: String,
    b: String,
    sum: String,
    diff: String,
    cmp: i8,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden.json")).unwrap()
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

fn family(format: Format) -> &'static str {
    match format {
        Format::DecimalSi => "DecimalSI",
        Format::BinarySi => "BinarySI",
        Format::DecimalExponent => "DecimalExponent",
    }
}

#[test]
fn parses_like_apimachinery() {
    for vector in golden().parsed {
        match vector.input.parse::<Quantity>() {
            Err(_) => assert!(vector.error, "{:?} is valid", vector.input),
            Ok(read) => {
                assert!(!vector.error, "{:?} is invalid", vector.input);
                let printed = (read.to_string(), family(read.format()));
                assert_eq!(printed, (vector.canonical, vector.format.as_str()), "{:?}", vector.input);
            }
        }
    }
}

#[test]
fn pattern_matches_quantities_that_are_not_negative() {
    let pattern = Regex::new(NON_NEGATIVE_PATTERN).unwrap();
    for Parsed { input, .. } in golden().parsed {
        let is_valid = !input.starts_with('-') && input.parse::<Quantity>().is_ok();
        assert_eq!(pattern.is_match(&input), is_valid, "{input:?}");
    }
}

#[test]
fn adds_subtracts_and_compares_like_apimachinery() {
    for vector in golden().pairs {
        let (a, b) = (quantity(&vector.a), quantity(&vector.b));
        let given = format!("{} and {}", vector.a, vector.b);
        assert_eq!(a.checked_add(b).unwrap().to_string(), vector.sum, "sum of {given}");
        assert_eq!(a.checked_sub(b).unwrap().to_string(), vector.diff, "difference of {given}");
        assert_eq!(a.cmp(&b) as i8, vector.cmp, "order of {given}");
    }
}

#[test]
fn parse_error_names_the_valid_suffixes() {
    let message = |text: &str| text.parse::<Quantity>().unwrap_err().to_string();
    assert_eq!(
        message("8 cores"),
        "\"8 cores\" is not a quantity: \" cores\" is not a suffix; use one of n u m k M G T P E, \
         Ki Mi Gi Ti Pi Ei, or an exponent such as e3"
    );
    assert!(message("many").contains("must begin with a number"));
    assert!(message("1e40").contains("too large"));
    assert!(message("m").contains("must begin with a number"));
}

#[test]
fn number_grows_beyond_the_largest_suffix() {
    assert_eq!(quantity("1000E").to_string(), "1000E");
    let eight = quantity("4Ei").saturating_add(quantity("4Ei"));
    let sum = (0..200).fold(Quantity::ZERO, |sum, _| sum.saturating_add(eight));
    assert_eq!(sum.to_string(), "1600Ei");
}

#[test]
fn overflow_is_an_error_or_saturates() {
    let huge = quantity("9e27");
    let most = (0..40).fold(huge, |sum, _| sum.saturating_add(sum));
    assert_eq!(most.checked_add(huge), None);
    assert_eq!(most.saturating_add(huge), most);
    assert_eq!(quantity("-9e27").saturating_sub(most).checked_sub(most), None);
    assert_eq!("1e999999999".parse::<Quantity>(), Err(ParseQuantityError::OutOfRange("1e999999999".into())));
    assert_eq!(quantity("0e999999999"), Quantity::ZERO);
    assert_eq!(quantity("1e-999999999").to_string(), "1e-9");
}

#[test]
fn converts_from_and_to_the_api_type() {
    let read = Quantity::try_from(&ApiQuantity("1024Mi".into())).unwrap();
    assert_eq!(ApiQuantity::from(read), ApiQuantity("1Gi".into()));
    assert_eq!(read, Quantity::from_units(1 << 30, Format::BinarySi));
}

#[test]
fn rounds_thousandths_away_from_zero() {
    let rounded = |text: &str| quantity(text).in_thousandths().to_string();
    assert_eq!(rounded("1n"), "1m");
    assert_eq!(rounded("-1500u"), "-2m");
    assert_eq!(rounded("1.5"), "1500m");
    assert_eq!(rounded("1Gi"), "1Gi");
}

#[test]
fn prints_in_another_format() {
    assert_eq!(quantity("1Ki").in_format(Format::DecimalSi).to_string(), "1024");
    assert_eq!(quantity("2048").in_format(Format::BinarySi).to_string(), "2Ki");
}

fn any_format() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::DecimalSi), Just(Format::BinarySi), Just(Format::DecimalExponent)]
}

fn any_quantity() -> impl Strategy<Value = Quantity> {
    let limit = MAX_BINARY / 2;
    (-limit..limit, 0..28_u32, any_format()).prop_map(|(nanos, cut, format)| {
        let unit = 10_i128.pow(cut);
        Quantity { nanos: nanos / unit * unit, format }
    })
}

proptest! {
    #[test]
    fn printed_quantity_parses_as_the_same_value(quantity in any_quantity()) {
        let read: Quantity = quantity.to_string().parse().unwrap();
        prop_assert_eq!(read, quantity);
        // The format can change once (4097 bytes have no suffix to show it), but not again.
        let again: Quantity = read.to_string().parse().unwrap();
        prop_assert_eq!(again.to_string(), read.to_string());
        prop_assert_eq!(again.format(), read.format());
    }

    #[test]
    fn sum_does_not_depend_on_grouping(a in any_quantity(), b in any_quantity(), c in any_quantity()) {
        prop_assert_eq!(a.saturating_add(b).saturating_add(c), a.saturating_add(b.saturating_add(c)));
        prop_assert_eq!(a.saturating_add(b).saturating_sub(b), a);
    }

    #[test]
    fn parser_does_not_panic(text in "[+-]?[0-9.eEinumkKMGTP+-]{0,50}") {
        let _ = text.parse::<Quantity>();
    }
}
