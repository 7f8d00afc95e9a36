//! The contestant under test: Haloport's exchange.

use haloport::{Choice, Traffic};
use haloport::{Exchange, FieldSet, Pattern, Schedule};

use super::block::MemoryArgs;
use super::contestant::Contestant;
use crate::command::failure::Failure;

/// Fields bound to the pattern.
pub(super) struct Library<F, C> {
    exchange: Exchange<Vec<F>>,
    check: C,
}

impl<F: FieldSet, C: Fn(&[F]) -> Result<(), Failure>> Library<F, C> {
    /// Collective: binds filled fields. `check` refuses fields whose halos are wrong after an exchange.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn new(
        pattern: &Pattern,
        fields: Vec<F>,
        memory: &MemoryArgs,
        check: C,
    ) -> Result<Library<F, C>, Failure> {
        Ok(Library { exchange: memory.bind(pattern, fields)?, check })
    }

    /// The bytes that one exchange moves, by path.
    pub(super) fn traffic(&self) -> Traffic {
        self.exchange.traffic()
    }

    /// The path and the order of halos, and the reasons.
    pub(super) fn choice(&self) -> Choice {
        *self.exchange.choice()
    }
}

impl<F: FieldSet, C: Fn(&[F]) -> Result<(), Failure>> Contestant for Library<F, C> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            self.exchange.run(Schedule::Blocking)?;
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        (self.check)(self.exchange.fields())
    }
}
