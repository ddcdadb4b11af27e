//! Ranges of addresses, as people write them.

use std::net::IpAddr;

/// `10.0.0.0/8`, `fd00::/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Of the address, how many leading bits count.
    bits: u32,
}

impl Network {
    /// `None` where it is neither an address nor a range.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = if let Some((address, bits)) = text.split_once('/') {
            (address.parse().ok()?, bits.parse().ok()?)
        } else {
            let address = text.parse().ok()?;
            (address, width(address))
        };
        (bits <= width(address)).then_some(Self { address, bits })
    }

    /// Whether an address is of this range; one of IPv4 that is spelt in IPv6 is what it is.
    pub fn holds(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let differing = leading_bits(address) ^ leading_bits(self.address);
        width(address) == width(self.address) && differing.leading_zeros() >= self.bits
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// With the first bit of the address in front.
fn leading_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, address: &str) -> bool {
        Network::parse(network).unwrap().holds(address.parse().unwrap())
    }

    #[test]
    fn a_range_holds_what_its_leading_bits_say() {
        assert!(holds("10.1.0.0/16", "10.1.255.1") && !holds("10.1.0.0/16", "10.2.0.1"));
        assert!(holds("10.1.2.3", "10.1.2.3") && !holds("10.1.2.3", "10.1.2.2"));
        assert!(holds("fd00::/8", "fdff::1") && !holds("fd00::/8", "fe00::1"));
        assert!(holds("10.128.0.0/9", "10.200.0.1") && !holds("10.128.0.0/9", "10.127.0.1"));
    }

    #[test]
    fn of_no_bits_it_holds_every_address_of_its_family_and_none_of_the_other() {
        assert!(holds("0.0.0.0/0", "192.0.2.1") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("::/0", "::1") && !holds("::/0", "192.0.2.1"));
    }

    #[test]
    fn an_address_of_ipv4_spelt_in_ipv6_is_what_it_is() {
        assert!(holds("127.0.0.0/8", "::ffff:127.0.0.1"));
    }

    #[test]
    fn what_is_no_range_is_none() {
        for text in
            ["", "/", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/-1", "10.0.0.0/x", "example.com", "10.0.0.0/8/8"]
        {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
