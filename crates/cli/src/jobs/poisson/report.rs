//! The printed results.

use std::io::{self, Write};

use haloport::Communicator;
use serde::Serialize;

use super::args::PoissonArgs;
use super::ladder::Rung;
use crate::command::print;
use crate::command::text::counted;
use crate::jobs::common::checks::{Check, write_checks};

/// The results of a run: the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    degree: u32,
    ranks: usize,
    transport: &'static str,
    /// The solutions, that of the coarsest mesh first.
    ladder: Vec<Rung>,
    /// Null without `--verify`.
    pub(super) checks: Option<Vec<Check>>,
}

impl Report {
    pub(super) fn new(
        args: &PoissonArgs,
        comm: &Communicator,
        ladder: Vec<Rung>,
        checks: Option<Vec<Check>>,
    ) -> Report {
        Report { degree: args.degree, ranks: comm.size(), transport: comm.info().name, ladder, checks }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let ranks = counted(self.ranks, "rank");
        writeln!(out, "Poisson's equation on the sphere, {ranks} ({})\n", self.transport)?;
        writeln!(
            out,
            "  -Δu = f by linear finite elements; the exact u is a harmonic of degree {}\n",
            self.degree
        )?;
        writeln!(
            out,
            "  {:<18}{:>10}{:>10}{:>8}{:>7}{:>10}{:>11}{:>11}   order",
            "", "triangles", "vertices", "halo", "steps", "ms", "l2", "linf"
        )?;
        for rung in &self.ladder {
            rung.write(out)?;
        }
        self.checks.as_deref().map_or(Ok(()), |checks| write_checks(out, checks))
    }
}

impl Rung {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Rung { mesh, triangles, vertices, halo_vertices, iterations, seconds, l2, linf, order } = self;
        let order = order.map_or("-".to_owned(), |order| format!("{order:.2}"));
        writeln!(
            out,
            "  {mesh:<18}{triangles:>10}{vertices:>10}{halo_vertices:>8}{iterations:>7}{:>10.1}{l2:>11.2e}{linf:>11.2e}   {order}",
            1e3 * seconds
        )
    }
}
