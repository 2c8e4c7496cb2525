//! x
mod skeleton;
#[cfg(test)]
mod tests {
    use crate::skeleton::*;
    use libbpf_rs::skel::{OpenSkel, SkelBuilder};
    #[test]
    fn load() {
        let mut o = Box::new(std::mem::MaybeUninit::uninit());
        let mut b = FirewallSkelBuilder::default();
        b.obj_builder.debug(false);
        let mut s = b.open(&mut o).unwrap();
        s.maps.rodata_data.as_mut().unwrap().record_count = 1024;
        let s = s.load().unwrap();
        drop(s);
    }
}
