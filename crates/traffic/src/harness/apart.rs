//! Programs of an object that are loaded apart from the others, over the same maps: when they are needed, and side by side, because
//! the kernel verifies programs on as many cores as load them.

use crate::TrafficError;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Object, ProgramMut};
use std::os::fd::AsFd as _;
use std::panic::resume_unwind;
use std::thread;

/// Programs by name, each within an object of which nothing else is loaded.
pub(crate) struct Apart<S>(Vec<(String, S)>);

impl<S> Default for Apart<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Skel<'static> + Send> Apart<S> {
    /// Loads these programs, as far as they are not there, over the maps of an object that is `loaded` already.
    ///
    /// # Errors
    /// The kernel refuses a program.
    pub(crate) fn load<B: SkelBuilder<'static>>(
        &mut self,
        builder: fn() -> B,
        loaded: &Object,
        names: &[&str],
    ) -> Result<(), TrafficError>
    where
        B::Output: OpenSkel<'static, Output = S>,
    {
        let missing = names.iter().filter(|name| self.find(name).is_none());
        let done: Vec<Result<(String, S), TrafficError>> = thread::scope(|scope| {
            let load = |name| move || load_one(builder(), loaded, name);
            let threads: Vec<_> = missing.map(|name| scope.spawn(load(name))).collect();
            threads.into_iter().map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        done.into_iter().try_for_each(|program| program.map(|program| self.0.push(program)))
    }

    /// A program that was loaded.
    ///
    /// # Errors
    /// It was not.
    pub(crate) fn program(&self, name: &str) -> Result<ProgramMut<'_>, TrafficError> {
        let found = self.find(name).and_then(|skel| skel.object().progs_mut().find(|it| it.name() == name));
        found.ok_or_else(|| TrafficError::Impossible(format!("the program {name} is not loaded")))
    }

    fn find(&self, name: &str) -> Option<&S> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, skel)| skel)
    }
}

fn load_one<B: SkelBuilder<'static>>(
    builder: B,
    loaded: &Object,
    name: &str,
) -> Result<(String, <B::Output as OpenSkel<'static>>::Output), TrafficError> {
    let doing = || format!("loading the program {name}");
    let mut open = super::open(builder, name)?;
    for (mut map, shared) in open.open_object_mut().maps_mut().zip(loaded.maps()) {
        map.reuse_fd(shared.as_fd()).map_err(TrafficError::bpf(doing()))?;
    }
    super::choose(&mut open, |program| program == name);
    let loaded = open.load().map_err(TrafficError::bpf(doing()))?;
    Ok((name.to_owned(), loaded))
}
