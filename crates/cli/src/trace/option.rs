//! The option `--trace` of commands that run on ranks.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use haloport::Communicator;
use haloport::trace::{DEFAULT_SPANS, TraceError};

use crate::command::endings::named;
use crate::command::failure::Failure;
use crate::command::output::{self, Output};

/// The file of the time line.
#[derive(Debug, Clone, Args)]
pub(crate) struct TraceArgs {
    /// Write a time line of all ranks to this file, for `haloport trace`, Perfetto and Chrome
    #[arg(long = "trace", value_name = "FILE", value_parser = named("json"))]
    file: Option<PathBuf>,
}

impl TraceArgs {
    /// Collective: starts the time line of each rank, if `--trace` is given.
    ///
    /// # Errors
    /// [`Failure::BadInput`], on every rank, if rank 0 cannot write the file.
    pub(crate) fn begin(&self, comm: &Communicator) -> Result<(), Failure> {
        let Some(path) = &self.file else { return Ok(()) };
        let complaint = if comm.rank() == 0 { output::check(path).err() } else { None };
        if let Some(found) = comm.broadcast(0, &complaint.map(|error| error.to_string()))? {
            let path = path.display();
            return Err(Failure::BadInput(format!(
                "--trace: expected a file that can be written, found {path}: {found}"
            )));
        }
        comm.begin_trace(DEFAULT_SPANS);
        Ok(())
    }

    /// Collective: writes the time lines so far, if they were started.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(crate) fn write(&self, comm: &Communicator) -> Result<(), Failure> {
        let (Some(path), trace) = (&self.file, comm.trace()) else { return Ok(()) };
        let failed = |error: &dyn std::fmt::Display| {
            Failure::Run(format!("--trace: cannot write {}: {error}", path.display()))
        };
        if comm.rank() > 0 {
            return trace.write(comm, &mut io::sink()).map_err(|error| failed(&error));
        }
        // The other ranks finish in any case.
        let mut file = Output::create(path);
        let written = match &mut file {
            Ok(file) => trace.write(comm, file),
            Err(error) => trace.write(comm, &mut Refusing(error)),
        };
        match (written, file) {
            (Err(TraceError::Write(error)), _) => Err(failed(&error)),
            (Err(error), _) => Err(failed(&error)),
            (Ok(()), Err(error)) => Err(failed(&error)),
            (Ok(()), Ok(file)) => file.finish().map_err(|error| failed(&error)),
        }
    }
}

/// The failure to make a file.
struct Refusing<'e>(&'e io::Error);

impl Write for Refusing<'_> {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::Error::new(self.0.kind(), self.0.to_string()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
