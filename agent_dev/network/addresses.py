"""Classes of IP addresses: public, private (a rule can allow them), and those that no name may resolve to. Pure."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Metadata services outside of link-local ranges: Azure's wire server, Alibaba's, Oracle's, EC2's over IPv6.
_METADATA = frozenset(map(ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")))
# Not routed on the Internet: private use, shared (CGNAT), benchmarks, documentation.
_OWN_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15", "fc00::/7")
_EXAMPLES = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
_PRIVATE = tuple(map(ip_network, (*_OWN_RANGES, *_EXAMPLES)))
_NAT64, _LOCAL_NAT64 = IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48")
_COMPATIBLE = IPv6Network("::/96")
_LOW = 0xFFFFFFFF
_REMEMBERED = 4096  # addresses


def embedded(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address embeds (mapped, compatible, NAT64, 6to4, Teredo), else the address."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour or address
    if address.teredo:
        return address.teredo[1]
    if address in _NAT64 or address in _LOCAL_NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & _LOW)
    return address


@lru_cache(_REMEMBERED)
def is_public(address: Address) -> bool:
    """Return whether an address, and the address that it embeds, is global unicast and not a metadata service.

    `ipaddress` does not handle metadata services, IPv4-compatible addresses and site-local addresses.
    """
    real = embedded(address)
    is_special = real.is_multicast or real.is_reserved or address.is_multicast or real in _METADATA or address in _LOCAL_NAT64
    return real.is_global and not is_special and not _is_site_local(real)


def _is_site_local(address: Address) -> bool:
    return isinstance(address, IPv6Address) and address.is_site_local


@lru_cache(_REMEMBERED)
def is_private(address: Address) -> bool:
    """Return whether an address is in a private range that a rule can allow: not loopback, link-local, multicast, metadata."""
    real = embedded(address)
    return real not in _METADATA and any(real in network for network in _PRIVATE if network.version == real.version)


def may_reach(network: Network, address: Address) -> bool:
    """Return whether a rule for a network allows one of its addresses.

    A rule for a single address allows that address. A rule for a network allows public addresses, and private ones if the whole
    network is private.
    """
    if network.num_addresses == 1:
        return True
    private = (one for one in _PRIVATE if one.version == network.version)
    return is_public(address) or (is_private(address) and any(network.subnet_of(one) for one in private))  # type: ignore[arg-type]
