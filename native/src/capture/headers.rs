//! Headers of a captured packet, from the link layer through VLAN tags and tunnels down to TCP, as `capture/link` decodes them.
//!
//! A packet is plain if every header is complete and none is a fragment, has IPv6 extension headers, or lacks a length; the capture may have
//! cut bytes after the headers. Python decides about any other packet.

use std::hash::{Hash, Hasher};

/// Link types as in `capture/link/link_layer.py`.
const NULL: u32 = 0;
const ETHERNET: u32 = 1;
const RAW: [u32; 3] = [12, 14, 101];
const LOOP: u32 = 108;
const LINUX_SLL: u32 = 113;
const RAW_IPV4: u32 = 228;
const LINUX_SLL2: u32 = 276;

const FAMILY_IPV4: u32 = 2;
const FAMILIES_IPV6: [u32; 4] = [10, 24, 28, 30];

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
const VLAN: [u16; 3] = [0x8100, 0x88A8, 0x9100];
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE: u16 = 0x8864;
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const ERSPAN: u16 = 0x88BE;

const ICMP: u8 = 1;
const IPV4_IN_IP: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const ICMPV6: u8 = 58;

const VXLAN_PORTS: [u16; 2] = [4789, 8472];
const GENEVE_PORT: u16 = 6081;
/// Ports of VXLAN with other content, and of MPLS, which Python reads.
const OTHER_TUNNEL_PORTS: [u16; 2] = [4790, 6635];

const GRE_CHECKSUM: u16 = 0x8000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQUENCE: u16 = 0x1000;

/// Tags and tunnels of a plain packet; Python reads those with more, up to other bounds.
const TAGS_MAX: usize = 4;
const TUNNELS_MAX: usize = 4;

const ADDRESSES_MAX_BYTES: usize = 32;
const PORTS_BYTES: usize = 4;

/// Source and destination address, source and destination port, as in the packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FlowKey {
    bytes: [u8; ADDRESSES_MAX_BYTES + PORTS_BYTES],
    size: u8,
}

impl FlowKey {
    fn of(addresses: &[u8], ports: &[u8]) -> Self {
        let mut bytes = [0; ADDRESSES_MAX_BYTES + PORTS_BYTES];
        let size = addresses.len() + ports.len();
        bytes[..addresses.len()].copy_from_slice(addresses);
        bytes[addresses.len()..size].copy_from_slice(ports);
        FlowKey { bytes, size: size as u8 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.size)]
    }
}

impl Hash for FlowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.as_bytes());
    }
}

/// The TCP segment of a packet: positions in the packet.
pub struct TcpPlace {
    pub key: FlowKey,
    pub tcp: usize,
    pub payload: usize,
    pub end: usize,
    /// Bytes of the payload after `end` that the capture cut off.
    pub missing: usize,
    pub identification: u16,
}

/// Content of a packet.
pub enum Content {
    Tcp(TcpPlace),
    /// Neither TCP nor a tunnel.
    Other,
    /// Not plain.
    Unknown,
}

fn be16(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

pub fn be32(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Return the ethertype of a loopback frame by its address family.
fn of_family(family: u32) -> Option<u16> {
    match family {
        FAMILY_IPV4 => Some(IPV4),
        _ if FAMILIES_IPV6.contains(&family) => Some(IPV6),
        _ => None,
    }
}

/// Return position and ethertype of the header after that of the link.
fn behind_link(packet: &[u8], link_type: u32) -> Option<(usize, u16)> {
    let (at, ethertype) = match link_type {
        ETHERNET => (ETHERNET_BYTES, be16(packet, 12)?),
        LINUX_SLL => (16, be16(packet, 14)?),
        LINUX_SLL2 => (20, be16(packet, 0)?),
        NULL => {
            // the byte order is that of the capturing host: the smaller value is taken
            let family = be32(packet, 0)?;
            (4, of_family(if family.swap_bytes() < 0x10000 { family.swap_bytes() } else { family })?)
        }
        LOOP => (4, of_family(be32(packet, 0)?)?),
        RAW_IPV4 => (0, IPV4),
        _ if RAW.contains(&link_type) => (0, if packet.first()? >> 4 == 6 { IPV6 } else { IPV4 }),
        _ => return None,
    };
    (packet.len() >= at).then_some((at, ethertype))
}

/// An IP packet: addresses, identification, protocol of the payload, and its start and end on the wire.
struct Ip<'a> {
    addresses: &'a [u8],
    identification: u16,
    protocol: u8,
    start: usize,
    end: usize,
}

/// Return the IPv4 packet at a position; `wire`: position after the last byte on the wire, of which the capture may have cut some.
#[inline]
fn ipv4(data: &[u8], at: usize, wire: usize) -> Option<Ip<'_>> {
    let header = data.get(at..at + IPV4_BYTES)?;
    let header_bytes = usize::from(header[0] & 15) * 4;
    let end = at + usize::from(be16(header, 2)?);
    let is_plain = header[0] >> 4 == 4 && header_bytes >= IPV4_BYTES && be16(header, 6)? & 0x3FFF == 0;
    let is_complete = at + header_bytes <= end.min(data.len()) && end <= wire;
    let (addresses, identification) = (&header[12..20], be16(header, 4)?);
    (is_plain && is_complete).then_some(Ip { addresses, identification, protocol: header[9], start: at + header_bytes, end })
}

/// Return the IPv6 packet at a position, like `ipv4`.
fn ipv6(data: &[u8], at: usize, wire: usize) -> Option<Ip<'_>> {
    let header = data.get(at..at + IPV6_BYTES)?;
    let (payload_bytes, start) = (usize::from(be16(header, 4)?), at + IPV6_BYTES);
    let end = start + payload_bytes;
    let is_plain = header[0] >> 4 == 6 && payload_bytes > 0 && end <= wire;
    is_plain.then_some(Ip { addresses: &header[8..], identification: 0, protocol: header[6], start, end })
}

/// Return the segment in an IP packet.
#[inline]
fn segment(data: &[u8], ip: &Ip<'_>) -> Option<TcpPlace> {
    let end = ip.end.min(data.len());
    let header = data.get(ip.start..end)?;
    let header_bytes = usize::from(header.get(12)? >> 4) * 4;
    if header_bytes < TCP_BYTES || header_bytes > header.len() {
        return None;
    }
    let key = FlowKey::of(ip.addresses, &header[..PORTS_BYTES]);
    let (payload, missing, identification) = (ip.start + header_bytes, ip.end - end, ip.identification);
    Some(TcpPlace { key, tcp: ip.start, payload, end, missing, identification })
}

/// Payload of an IP packet other than TCP.
enum Payload {
    /// Ethertype of the first header in a tunnel, its position, and the end of the content on the wire.
    Tunnel(u16, usize, usize),
    Other,
}

fn payload(data: &[u8], ip: &Ip<'_>) -> Option<Payload> {
    let data = &data[..ip.end.min(data.len())];
    match ip.protocol {
        IPV4_IN_IP => Some(Payload::Tunnel(IPV4, ip.start, ip.end)),
        IPV6_IN_IP => Some(Payload::Tunnel(IPV6, ip.start, ip.end)),
        GRE => gre(data, ip.start, ip.end),
        UDP => udp(data, ip.start, ip.end),
        ICMP | ICMPV6 => Some(Payload::Other),
        _ => None,
    }
}

fn gre(data: &[u8], at: usize, wire: usize) -> Option<Payload> {
    let (flags, protocol) = (be16(data, at)?, be16(data, at + 2)?);
    if flags & !(GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE) != 0 {
        return None;
    }
    let start = at + 4 + 4 * flags.count_ones() as usize;
    match protocol {
        IPV4 | IPV6 | TRANSPARENT_ETHERNET => Some(Payload::Tunnel(protocol, start, wire)),
        ERSPAN => {
            let own_bytes = if flags & GRE_SEQUENCE == 0 { 0 } else { 8 };
            Some(Payload::Tunnel(TRANSPARENT_ETHERNET, start + own_bytes, wire))
        }
        _ => None,
    }
}

fn udp(data: &[u8], at: usize, wire: usize) -> Option<Payload> {
    let header = data.get(at..at + UDP_BYTES)?;
    let (port, length) = (be16(header, 2)?, usize::from(be16(header, 4)?));
    let (start, end) = (at + UDP_BYTES, if length == 0 { wire } else { wire.min(at + length) });
    let header = || data.get(start..end.min(data.len()))?.first_chunk::<8>();
    if VXLAN_PORTS.contains(&port) {
        return (header()?[0] & 0x08 != 0).then_some(Payload::Tunnel(TRANSPARENT_ETHERNET, start + 8, end));
    }
    if port == GENEVE_PORT {
        let [version, _, kind @ ..] = header()?;
        let (protocol, options_bytes) = (be16(kind, 0)?, usize::from(version & 0x3F) * 4);
        let is_known = version >> 6 == 0 && [IPV4, IPV6, TRANSPARENT_ETHERNET].contains(&protocol);
        return is_known.then_some(Payload::Tunnel(protocol, start + 8 + options_bytes, end));
    }
    (!OTHER_TUNNEL_PORTS.contains(&port)).then_some(Payload::Other)
}

/// Find the content of a packet that has `wire` bytes on the wire, from which the capture may have cut some.
pub fn content(packet: &[u8], wire: usize, link_type: u32) -> Content {
    find(packet, wire, link_type).unwrap_or(Content::Unknown)
}

fn find(packet: &[u8], mut wire: usize, link_type: u32) -> Option<Content> {
    let (mut at, mut ethertype) = behind_link(packet, link_type)?;
    let mut data = packet;
    for _ in 0..=TUNNELS_MAX {
        if ethertype == TRANSPARENT_ETHERNET {
            ethertype = be16(data, at + 12)?;
            at += ETHERNET_BYTES;
        }
        for _ in 0..TAGS_MAX {
            if VLAN.contains(&ethertype) {
                ethertype = be16(data, at + 2)?;
                at += 4;
            }
        }
        let ip = match ethertype {
            IPV4 => ipv4(data, at, wire)?,
            IPV6 => ipv6(data, at, wire)?,
            _ if ethertype == PPPOE || VLAN.contains(&ethertype) || MPLS.contains(&ethertype) => return None,
            _ => return Some(Content::Other),
        };
        if ip.protocol == TCP {
            return segment(data, &ip).map(Content::Tcp);
        }
        let Payload::Tunnel(within, start, end) = payload(data, &ip)? else { return Some(Content::Other) };
        (ethertype, at, data, wire) = (within, start, &data[..end.min(data.len())], end);
    }
    None
}
