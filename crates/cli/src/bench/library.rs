//! The contestant under test: Haloport's exchange.

use haloport::exchange::{Choice, FieldSet, Traffic};
use haloport::{Exchange, Pattern, Schedule};

use super::block::MemoryArgs;
use super::contestant::Contestant;
use super::uneven::Uneven;
use crate::command::failure::Failure;

/// Writes owned cells of fields.
type Write<F> = Box<dyn FnMut(&mut [F]) -> Result<(), Failure>>;

/// Fields bound to the pattern.
pub(super) struct Library<F, C> {
    exchange: Exchange<Vec<F>>,
    check: C,
    write: Option<Write<F>>,
    uneven: Option<Uneven>,
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
        Ok(Library::of(memory.bind(pattern, fields)?, check))
    }

    /// The same, of fields that are bound.
    pub(super) fn of(exchange: Exchange<Vec<F>>, check: C) -> Library<F, C> {
        Library { exchange, check, write: None, uneven: None }
    }

    /// The same, with work between the start of each exchange and its end.
    pub(super) fn with_work(self, uneven: Option<Uneven>) -> Library<F, C> {
        Library { uneven, ..self }
    }

    /// The same, with what is written before exchanges.
    pub(super) fn with_writes(self, write: Write<F>) -> Library<F, C> {
        Library { write: Some(write), ..self }
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
            match &mut self.uneven {
                None => self.exchange.run_blocking()?,
                Some(uneven) => {
                    let pending = self.exchange.start_on(Schedule::Blocking)?;
                    uneven.work();
                    pending.finish_blocking()?;
                }
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Failure> {
        self.write.as_mut().map_or(Ok(()), |write| write(self.exchange.fields_mut()))
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        (self.check)(self.exchange.fields())
    }
}
