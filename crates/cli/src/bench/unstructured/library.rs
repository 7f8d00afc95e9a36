//! The contestant that this is about: Haloport's exchange.

use haloport::exchange::Choice;
use haloport::{Exchange, FieldSet, Pattern, Schedule};

use super::args::UnstructuredArgs;
use super::values::{check, fill};
use crate::bench::block::Block;
use crate::bench::contestant::Contestant;
use crate::command::failure::Failure;

/// Fields bound to the pattern.
pub(super) struct Library<'a, F> {
    exchange: Exchange<Vec<F>>,
    args: &'a UnstructuredArgs,
}

impl<'a, F: FieldSet + Block<f64>> Library<'a, F> {
    /// Collective: fills the fields and binds them.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn new(
        pattern: &Pattern,
        mut fields: Vec<F>,
        args: &'a UnstructuredArgs,
    ) -> Result<Self, Failure> {
        fill(&mut fields, pattern, args)?;
        Ok(Library { exchange: args.memory.bind(pattern, fields)?, args })
    }

    /// How the data travels between ranks, in words.
    pub(super) fn path(&self) -> String {
        self.exchange.traffic().path()
    }

    /// How that was chosen.
    pub(super) fn choice(&self) -> Choice {
        *self.exchange.choice()
    }
}

impl<F: FieldSet + Block<f64>> Contestant for Library<'_, F> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            self.exchange.run(Schedule::Blocking)?;
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        check(self.exchange.fields(), self.exchange.pattern(), self.args, "haloport")
    }
}
