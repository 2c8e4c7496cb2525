//! The reading end of a ring that the programs fill. What was read is gone from it.

use crate::DataplaneError;
use crate::shared::{Plain, descriptor_of, from_bytes};
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct Ring<T> {
    ring: RingBuffer<'static>,
    read: Arc<Mutex<Vec<T>>>,
    /// How messages call it: `the ring of events`.
    name: &'static str,
}

impl<T: Plain + Send + 'static> Ring<T> {
    pub(crate) fn new(map: &dyn MapCore, name: &'static str) -> Result<Self, DataplaneError> {
        let doing = format!("reaching {name}");
        let read = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&read);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |bytes| {
                to.lock().unwrap_or_else(PoisonError::into_inner).extend(from_bytes::<T>(bytes));
                0
            })
            .map_err(DataplaneError::bpf(doing.as_str()))?;
        Ok(Self { ring: builder.build().map_err(DataplaneError::bpf(doing.as_str()))?, read, name })
    }

    /// What can be waited for until something comes.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        descriptor_of(&self.ring)
    }

    /// What came since the last call, in the order in which it came on each core.
    pub(crate) fn take(&self) -> Result<Vec<T>, DataplaneError> {
        let taken = self.ring.consume_raw();
        if taken < 0 {
            let source = std::io::Error::from_raw_os_error(-taken);
            return Err(DataplaneError::System { doing: format!("reading {}", self.name), source });
        }
        Ok(std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
