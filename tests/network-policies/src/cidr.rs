//! IPv4 address blocks.

use std::{fmt, net::Ipv4Addr, str::FromStr};

/// An IPv4 address block, such as `10.0.0.0/8`, without host bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cidr {
    network: Ipv4Addr,
    prefix: u8,
}

impl Cidr {
    /// Returns whether the address is in the block.
    pub(crate) fn contains(self, address: Ipv4Addr) -> bool {
        masked(address, self.prefix) == self.network
    }

    /// Returns whether all addresses of the other block are in this block.
    pub(crate) fn covers(self, other: Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.network)
    }

    /// Returns whether the block is `0.0.0.0/0`.
    pub(crate) fn is_everything(self) -> bool {
        self.prefix == 0
    }
}

/// Returns the address without its host bits.
fn masked(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or_default();
    Ipv4Addr::from(u32::from(address) & mask)
}

/// The text is not an IPv4 address block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidCidr;

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let (address, prefix) = text.split_once('/').ok_or(InvalidCidr)?;
        let address = address.parse().map_err(|_| InvalidCidr)?;
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= 32).ok_or(InvalidCidr)?;
        Ok(Self { network: masked(address, prefix), prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.network, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn host_bits_are_removed() {
        assert_eq!(cidr("10.1.2.3/8").to_string(), "10.0.0.0/8");
        assert_eq!(cidr("10.1.2.3/32").to_string(), "10.1.2.3/32");
        assert_eq!(cidr("10.1.2.3/0").to_string(), "0.0.0.0/0");
    }

    #[test]
    fn only_ipv4_blocks_are_parsed() {
        for text in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "fd00::/8", "/8", ""] {
            assert_eq!(text.parse::<Cidr>(), Err(InvalidCidr), "{text}");
        }
    }

    #[test]
    fn a_block_covers_its_parts() {
        assert!(cidr("10.0.0.0/8").covers(cidr("10.1.0.0/16")));
        assert!(cidr("10.0.0.0/8").covers(cidr("10.0.0.0/8")));
        assert!(!cidr("10.1.0.0/16").covers(cidr("10.0.0.0/8")));
        assert!(!cidr("10.0.0.0/8").covers(cidr("11.0.0.0/16")));
        assert!(cidr("0.0.0.0/0").contains(Ipv4Addr::BROADCAST));
    }
}
