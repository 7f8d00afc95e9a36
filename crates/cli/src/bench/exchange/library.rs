//! The contestant that this is about: Haloport's exchange.

use std::marker::PhantomData;

use haloport::exchange::{Choice, Traffic};
use haloport::{Element, Exchange, FieldSet, Pattern, Schedule};

use super::cells::{check, fill};
use crate::bench::block::{Block, MemoryArgs};
use crate::bench::contestant::Contestant;
use crate::command::failure::Failure;

/// Fields bound to the pattern.
pub(super) struct Library<T, F> {
    exchange: Exchange<Vec<F>>,
    element: PhantomData<T>,
}

impl<T: Element, F: FieldSet + Block<T>> Library<T, F> {
    /// Collective: binds the fields, which hold the values of the grid and sentinels afterwards.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(super) fn new(
        pattern: &Pattern,
        mut fields: Vec<F>,
        memory: &MemoryArgs,
    ) -> Result<Library<T, F>, Failure> {
        fill(&mut fields, pattern)?;
        Ok(Library { exchange: memory.bind(pattern, fields)?, element: PhantomData })
    }

    /// What one exchange moves, and how.
    pub(super) fn traffic(&self) -> Traffic {
        self.exchange.traffic()
    }

    /// How that was chosen.
    pub(super) fn choice(&self) -> Choice {
        *self.exchange.choice()
    }
}

impl<T: Element, F: FieldSet + Block<T>> Contestant for Library<T, F> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        for _ in 0..batch {
            self.exchange.run(Schedule::Blocking)?;
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        check(self.exchange.fields(), self.exchange.pattern(), "haloport")
    }
}
