//! Interfaces that are closed until the firewall is attached to them (`bpf/firewall/gate.h`).

use super::{Netfilter, Ports};
use crate::DataplaneError;
use crate::skeleton::types::sizes;
use libbpf_rs::{MapCore, MapFlags};
use std::collections::HashSet;

const NAME_BYTES: usize = sizes::INTERFACE_NAME_BYTES.0 as usize;

/// `struct interface_name`.
type Key = [u8; 4 + NAME_BYTES];

impl Ports {
    /// From now on interfaces with these names are closed for this machine until the firewall is attached to them; a name with a `*` at
    /// its end is that of all that begin so. Returns false on a kernel without such programs (before 6.4): there they stand open until
    /// [`Ports::attach`].
    ///
    /// # Errors
    /// There are too many names, or the kernel refuses.
    pub fn close_until_attached(&mut self, names: &[String]) -> Result<bool, DataplaneError> {
        let most = sizes::MAX_INTERFACE_NAMES.0;
        if names.len() > most as usize {
            return Err(DataplaneError::NoRoom { what: "names of interfaces".to_owned(), most });
        }
        let doing = || DataplaneError::bpf("closing interfaces that are yet to come");
        let wanted: HashSet<Key> = names.iter().map(|name| key(name)).collect();
        let there: HashSet<Vec<u8>> = self.interface_names.keys().collect();
        for key in wanted.iter().filter(|key| !there.contains(key.as_slice())) {
            self.interface_names.update(key, &1u32.to_ne_bytes(), MapFlags::ANY).map_err(doing())?;
        }
        let is_wanted = |key: &[u8]| Key::try_from(key).is_ok_and(|key| wanted.contains(&key));
        for key in there.iter().filter(|key| !is_wanted(key)) {
            self.interface_names.delete(key).map_err(doing())?;
        }
        let Some(program) = &self.programs.gate else { return Ok(names.is_empty()) };
        if !names.is_empty() && self.gate.is_none() {
            self.gate = Some(Netfilter::open(program, &Netfilter::LOCAL, self.outlives)?);
        }
        Ok(true)
    }

    /// Whether interfaces that are yet to come are closed.
    pub fn has_gate(&self) -> bool {
        self.gate.is_some()
    }

    /// Interfaces that are yet to come are no matter of the firewall any more.
    ///
    /// # Errors
    /// As the kernel refuses.
    pub fn open_gate(&mut self) -> Result<(), DataplaneError> {
        self.gate.take().map_or(Ok(()), Netfilter::close)
    }
}

fn key(name: &str) -> Key {
    let (begins, ends) = name.strip_suffix('*').map_or((name, true), |begins| (begins, false));
    // A policy's names are shorter than the kernel's room for them.
    let bytes = &begins.as_bytes()[..begins.len().min(NAME_BYTES - 1)];
    let mut key = [0; 4 + NAME_BYTES];
    let length = bytes.len() + usize::from(ends);
    key[..4].copy_from_slice(&(8 * length as u32).to_ne_bytes());
    key[4..4 + bytes.len()].copy_from_slice(bytes);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_and_a_pattern_goes_on() {
        for (name, bits, bytes) in [
            ("ppp*", 24, &b"ppp\0"[..]),
            ("ppp", 32, b"ppp\0"),
            ("a", 16, b"a\0"),
            ("abcdefghijklmno", 128, b"abcdefghijklmno\0"),
        ] {
            let key = key(name);
            assert_eq!(key[..4], u32::to_ne_bytes(bits), "{name}");
            assert!(key[4..].starts_with(bytes), "{name}");
        }
    }
}
