//! The context of a packet that user space runs a program on, byte by byte as the kernel takes it.

/// Bytes of `struct xdp_md` and `struct __sk_buff` as the kernel takes them.
const XDP: usize = 24;
const TC: usize = 192;

/// `struct xdp_md`: data, end, metadata, interface, queue, egress interface.
pub(crate) fn xdp(length: usize, ifindex: u32) -> [u8; XDP] {
    let mut context = [0; XDP];
    context[4..8].copy_from_slice(&(length as u32).to_ne_bytes());
    context[12..16].copy_from_slice(&ifindex.to_ne_bytes());
    context
}

/// `struct __sk_buff`: `ingress_ifindex` and `ifindex` are its tenth and eleventh word.
pub(crate) fn tc(ifindex: u32) -> [u8; TC] {
    let mut context = [0; TC];
    context[36..40].copy_from_slice(&ifindex.to_ne_bytes());
    context[40..44].copy_from_slice(&ifindex.to_ne_bytes());
    context
}
