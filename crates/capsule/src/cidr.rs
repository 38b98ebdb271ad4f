//! CIDRs in the form that the API server accepts in a NetworkPolicy.
//!
//! The crate `ipnet` reads octets with leading zeros (`010.0.0.0/8`), which the API server rejects
//! because some programs read them as octal.

use std::net::IpAddr;

/// Error for a string that is not a CIDR.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a CIDR: write an address, a slash, and a prefix length, such as 10.0.0.0/8")]
pub struct CidrError(String);

/// Clears the bits beyond the prefix: `192.168.0.0/12` becomes `192.160.0.0/12`.
///
/// Since Kubernetes 1.36, the API server rejects such bits in new NetworkPolicies ("must not have
/// bits set beyond the prefix length"). Older manifests contain them. Both forms select the same
/// addresses.
///
/// # Errors
/// Returns an error if the string is not a CIDR.
pub fn canonical(text: &str) -> Result<String, CidrError> {
    let malformed = || CidrError(text.to_owned());
    let (address, length) = text.split_once('/').ok_or_else(malformed)?;
    let address: IpAddr = address.parse().map_err(|_| malformed())?;
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length: u32 = length.parse().ok().filter(|_| digits).ok_or_else(malformed)?;
    let network = match address {
        IpAddr::V4(address) if length <= 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            IpAddr::from((address.to_bits() & mask).to_be_bytes())
        }
        IpAddr::V6(address) if length <= 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            IpAddr::from((address.to_bits() & mask).to_be_bytes())
        }
        _ => return Err(malformed()),
    };
    Ok(format!("{network}/{length}"))
}

/// Returns whether a CIDR is a proper subset of another. Strings that are not CIDRs count as one,
/// because the schema rejects them.
pub fn is_within(part: &str, whole: &str) -> bool {
    let (Ok(part), Ok(whole)) = (canonical(part), canonical(whole)) else { return true };
    let (Some((address, length)), Some((_, size))) = (part.split_once('/'), whole.split_once('/')) else {
        return true;
    };
    let is_smaller = length.parse::<u32>().ok() > size.parse::<u32>().ok();
    is_smaller && canonical(&format!("{address}/{size}")).is_ok_and(|network| network == whole)
}

/// Addresses that an address or a network names, such as `10.20.0.7` or `10.20.0.0/16`. An address
/// names only itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    network: IpAddr,
    length: u32,
}

impl AddressRange {
    /// Parses an address or a network.
    ///
    /// # Errors
    /// Returns an error if the text is neither.
    pub fn parse(text: &str) -> Result<Self, CidrError> {
        let malformed = || CidrError(text.to_owned());
        if let Ok(address) = text.parse::<IpAddr>() {
            let network = address.to_canonical();
            return Ok(Self { network, length: if network.is_ipv4() { 32 } else { 128 } });
        }
        let canonical = canonical(text)?;
        let (network, length) = canonical.split_once('/').ok_or_else(malformed)?;
        Ok(Self {
            network: network.parse().map_err(|_| malformed())?,
            length: length.parse().map_err(|_| malformed())?,
        })
    }

    /// Returns whether the range contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differs = |bits: u32, difference: u128| {
            difference.checked_shr(bits.saturating_sub(self.length)).unwrap_or_default() != 0
        };
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                !differs(32, u128::from(network.to_bits() ^ address.to_bits()))
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                !differs(128, network.to_bits() ^ address.to_bits())
            }
            _ => false,
        }
    }
}

/// Returns a warning if `used`, the canonical form, differs from the CIDR `given` at `path`.
pub fn warning(path: &str, given: &str, used: &str) -> Option<String> {
    (given != used)
        .then(|| format!("{path}: \"{given}\" is not in canonical form; {used}, the same network, is used"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_clears_bits_beyond_the_prefix() {
        assert_eq!(canonical("192.168.0.0/12").unwrap(), "192.160.0.0/12");
        assert_eq!(canonical("10.1.2.3/0").unwrap(), "0.0.0.0/0");
        assert_eq!(canonical("10.1.2.3/32").unwrap(), "10.1.2.3/32");
        assert_eq!(canonical("2001:DB8::1:0/64").unwrap(), "2001:db8::/64");
        assert_eq!(canonical("fd00::1/128").unwrap(), "fd00::1/128");
        assert_eq!(canonical("::1/0").unwrap(), "::/0");
    }

    #[test]
    fn is_within_requires_a_smaller_network_inside() {
        for (part, whole) in
            [("10.1.0.0/16", "10.0.0.0/8"), ("10.1.2.1/32", "10.1.2.0/31"), ("fd00:1::/32", "fd00::/16")]
        {
            assert!(is_within(part, whole), "{part} {whole}");
            assert!(!is_within(whole, part) && !is_within(part, part), "{part} {whole}");
        }
        for (part, whole) in
            [("11.0.0.0/16", "10.0.0.0/8"), ("fd00::/16", "10.0.0.0/8"), ("10.0.0.0/32", "fd00::/16")]
        {
            assert!(!is_within(part, whole), "{part} {whole}");
        }
        assert!(is_within("a", "10.0.0.0/8"), "the schema rejects it");
    }

    #[test]
    fn range_compares_the_bits_of_the_prefix() {
        for (range, inside, outside) in [
            (
                "10.20.0.0/16",
                &["10.20.0.0", "10.20.255.255", "::ffff:10.20.0.1"][..],
                &["10.21.0.0", "fd00::1"][..],
            ),
            ("10.20.0.7", &["10.20.0.7"], &["10.20.0.8"]),
            ("10.20.0.7/32", &["10.20.0.7"], &["10.20.0.8"]),
            ("fd00::7", &["fd00::7"], &["fd00::8"]),
            ("fd00::/8", &["fdff::1"], &["fe00::1", "10.0.0.1"]),
            ("0.0.0.0/0", &["8.8.8.8"], &["::1"]),
            ("::/0", &["::1", "ffff::"], &["8.8.8.8"]),
        ] {
            for address in inside {
                let range = AddressRange::parse(range).unwrap();
                assert!(range.contains(address.parse().unwrap()), "{range:?} {address}");
            }
            for address in outside {
                let range = AddressRange::parse(range).unwrap();
                assert!(!range.contains(address.parse().unwrap()), "{range:?} {address}");
            }
        }
        for text in ["a", "10.0.0.0/33", "", "010.0.0.1"] {
            assert_eq!(AddressRange::parse(text), Err(CidrError(text.to_owned())));
        }
    }

    #[test]
    fn canonical_keeps_a_canonical_cidr() {
        for cidr in ["0.0.0.0/0", "192.160.0.0/12", "10.0.0.0/8", "2001:db8::/32"] {
            assert_eq!(canonical(cidr).unwrap(), cidr);
        }
    }

    #[test]
    fn error_for_invalid_cidr_shows_an_example() {
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0/8",
            "010.0.0.0/8",
            "10.0.0.0/+8",
            "::/129",
            "a/8",
        ] {
            assert_eq!(canonical(text), Err(CidrError(text.to_owned())), "{text}");
        }
        let message = canonical("10.0.0.0").unwrap_err().to_string();
        assert!(message.contains("such as 10.0.0.0/8"), "{message}");
    }

    #[test]
    fn warning_contains_path_and_both_forms() {
        assert_eq!(
            warning("spec.networkPolicies.items[0]", "192.168.0.0/12", "192.160.0.0/12").unwrap(),
            "spec.networkPolicies.items[0]: \"192.168.0.0/12\" is not in canonical form; 192.160.0.0/12, the same \
             network, is used"
        );
        assert_eq!(warning("anywhere", "10.0.0.0/8", "10.0.0.0/8"), None);
    }
}
