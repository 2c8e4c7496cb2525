//! An object's global state: memory that its programs write at the same time. Every read is of one aligned word, so a
//! value may be some frames old but is never torn.

use crate::TrafficError;

/// The global state `T` of a loaded object. Valid for as long as the skeleton that it was taken out of, beside which an
/// engine keeps it.
pub(crate) struct Memory<T>(*mut T);

impl<T> Clone for Memory<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Memory<T> {}

// SAFETY: the mapping is the same for every thread, and whoever reads or writes it does so word by word, or while no
// program and no other thread uses the place.
unsafe impl<T> Send for Memory<T> {}

impl<T> Memory<T> {
    /// Takes the state out of a skeleton.
    ///
    /// # Errors
    /// The object has none.
    pub(crate) fn take(state: &mut Option<&'static mut T>) -> Result<Self, TrafficError> {
        let missing = || TrafficError::Impossible("the kernel maps no global state of the object".to_owned());
        state.take().map(|state| Self(std::ptr::from_mut(state))).ok_or_else(missing)
    }

    pub(crate) fn as_ptr(self) -> *mut T {
        self.0
    }

    /// Changes what only user space writes. Not to be called where a run's programs write the same places.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the mapping is valid and aligned for T, of which any bytes are a value; a second caller would need the
        // exclusive borrow.
        change(unsafe { &mut *self.0 })
    }
}

/// A volatile read of one place in a [`Memory`], which a program may be writing.
macro_rules! peek {
    ($memory:expr => $($place:tt)+) => {
        // SAFETY: the place is inside the mapped global state, aligned, and always initialised; concurrent writes by the
        // BPF programs are single aligned words.
        unsafe { std::ptr::addr_of!((*$memory.as_ptr()).$($place)+).read_volatile() }
    };
}

/// Clears a place in a [`Memory`] that no program writes now.
macro_rules! clear {
    ($memory:expr => $($place:tt)+) => {
        // SAFETY: nobody else uses the place, which is inside the mapped state, and zero is a value of it.
        unsafe { std::ptr::addr_of_mut!((*$memory.as_ptr()).$($place)+).write_bytes(0, 1) }
    };
}

pub(crate) use {clear, peek};
