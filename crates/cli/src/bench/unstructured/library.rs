//! The contestant that this is about: Haloport's exchange.

use haloport::device::Device;
use haloport::{Exchange, Field, Pattern, Schedule};

use super::args::UnstructuredArgs;
use super::values::{check, fields};
use crate::bench::contestant::Contestant;
use crate::failure::Failure;

/// Fields bound to the pattern.
pub(super) struct Library<'a, D: Device> {
    exchange: Exchange<Vec<Field<f64, D>>>,
    args: &'a UnstructuredArgs,
}

impl<'a, D: Device> Library<'a, D> {
    /// Collective: binds fields of its own.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn new(device: &D, pattern: &Pattern, args: &'a UnstructuredArgs) -> Result<Self, Failure> {
        Ok(Library { exchange: pattern.bind(fields(device, pattern, args)?)?, args })
    }

    /// How the data travels between ranks, in words.
    pub(super) fn path(&self) -> String {
        self.exchange.traffic().path()
    }
}

impl<D: Device> Contestant for Library<'_, D> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            self.exchange.exchange(Schedule::Blocking)?;
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        check(self.exchange.fields(), self.exchange.pattern(), self.args, "haloport")
    }
}
