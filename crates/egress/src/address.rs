//! Classifies IP addresses.
//!
//! The owner of an allowed name's DNS can make it resolve to any address: to the machine's own services, to the network behind it, to a cloud's
//! metadata service with its credentials. So every address is classified before it is dialled.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::host::carries_ipv4;

/// The kind of network that an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// The public internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network: RFC 1918 and IPv6 unique local addresses.
    Private,
    /// Link-local, without a router.
    LinkLocal,
    /// Carrier-grade NAT, 100.64.0.0/10.
    Shared,
    /// A cloud metadata service, which returns credentials to any client.
    Metadata,
    /// Reserved for documentation, benchmarks or protocols.
    Special,
    /// Unspecified, multicast, broadcast or reserved, or an IPv6 form of an IPv4 address: never a destination.
    Never,
}

impl AddressClass {
    /// The class of an address. An unassigned address is never dialled.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            _ if METADATA.contains(&address) => Self::Metadata,
            IpAddr::V4(address) => class_of_v4(address),
            IpAddr::V6(address) => class_of_v6(address),
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Shared => "carrier-grade NAT",
            Self::Metadata => "cloud metadata",
            Self::Special => "special-purpose",
            Self::Never => "reserved",
        })
    }
}

/// Amazon (instance, container and pod credentials; its time service is not one), Google, Alibaba, Oracle, and Azure's host agent.
const METADATA: &[IpAddr] = &[
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// IANA's special-purpose address registry for IPv4.
fn class_of_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [0, ..] | [224..=255, ..] => AddressClass::Never,
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [169, 254, ..] => AddressClass::LinkLocal,
        [100, 64..=127, ..] => AddressClass::Shared,
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => AddressClass::Special,
        [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Special,
        _ => AddressClass::Public,
    }
}

/// IANA's special-purpose address registry for IPv6. Only 2000::/3 is allocated; the rest is unassigned.
fn class_of_v6(address: Ipv6Addr) -> AddressClass {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => class_behind_nat64(high, low),
        _ if carries_ipv4(address) => AddressClass::Never,
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressClass::Special,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        [0xfc00..=0xfdff, ..] => AddressClass::Private,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        _ => AddressClass::Never,
    }
}

/// NAT64: in a network without IPv4, every name resolves to such addresses. Only public IPv4 addresses may be reached through it.
fn class_behind_nat64(high: u16, low: u16) -> AddressClass {
    let embedded = Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match AddressClass::of(IpAddr::V4(embedded)) {
        AddressClass::Public => AddressClass::Public,
        _ => AddressClass::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> AddressClass {
        AddressClass::of(text.parse().unwrap())
    }

    #[test]
    fn every_special_network_is_known_at_both_ends() {
        use AddressClass::{LinkLocal, Loopback, Metadata, Never, Private, Public, Shared, Special};
        let cases = [
            (Never, "0.0.0.0 0.255.255.255 224.0.0.1 239.255.255.255 240.0.0.0 255.255.255.255"),
            (Public, "1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0"),
            (
                Public,
                "169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0",
            ),
            (Public, "198.17.255.255 198.20.0.0 198.51.99.255 203.0.114.0 223.255.255.255 8.8.8.8"),
            (Private, "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255"),
            (Loopback, "127.0.0.0 127.0.0.1 127.255.255.255 ::1"),
            (LinkLocal, "169.254.0.0 169.254.255.255 fe80::1 febf::1"),
            (Shared, "100.64.0.0 100.127.255.255"),
            (
                Metadata,
                "169.254.169.254 169.254.170.2 169.254.170.23 100.100.100.200 192.0.0.192 168.63.129.16",
            ),
            (Metadata, "fd00:ec2::254 fd00:ec2::23 fd20:ce::254"),
            (Special, "192.0.0.1 192.0.2.1 198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1 192.88.99.1"),
            (Special, "2001:2::1 2001:10::1 2001:20::1 2001:1ff::1 2001:db8::1 3fff::1 3fff:fff::1"),
            (Private, "fc00::1 fdff::1"),
            (Public, "2000::1 2001:200::1 2606:4700::1111 2a00:1450::1 3ffe::1 3fff:1000::1"),
            (Never, ":: ff02::1 fec0::1 100::1 5f00::1 4000::1 ::2 1::1"),
            (Never, "::ffff:127.0.0.1 ::ffff:8.8.8.8 ::8.8.8.8 ::ffff:0:8.8.8.8 2002:808:808::1 2001:0:1::1"),
            (Public, "64:ff9b::8.8.8.8"),
            (Never, "64:ff9b::10.0.0.1 64:ff9b::127.0.0.1 64:ff9b::169.254.169.254 64:ff9b:1::8.8.8.8"),
        ];
        for (expected, addresses) in cases {
            for address in addresses.split(' ') {
                assert_eq!(class(address), expected, "{address}");
            }
        }
    }
}
