//! The command line.

use clap::{Args, ValueEnum};
use haloport::ElementType;
use serde::Serialize;

use crate::bench::block::MemoryArgs;
use crate::bench::boundary::BoundaryArgs;
use crate::command::device::DeviceArgs;
use crate::command::launch::RankArgs;
use crate::command::values::at_least;
use crate::trace::TraceArgs;

const EXAMPLES: &str = "\
Examples:
  haloport bench exchange --local 64,64,64 --ranks 2
  haloport bench exchange --halo 2 --fields 4 --dtype f32 --path messages
  haloport bench exchange --split balanced --json";

/// Arguments of `haloport bench exchange`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExchangeArgs {
    /// Cells that each rank owns along each of 1 to 4 axes, all periodic
    #[arg(long, value_name = "N,N,N", default_value = "128,128,128", value_parser = Extents::parse)]
    pub(super) local: Extents,
    /// Halo width in cells, on every side
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = at_least::<usize, 1>, allow_negative_numbers = true)]
    pub(super) halo: usize,
    /// Number of fields in one exchange
    #[arg(long, value_name = "F", default_value_t = 1, value_parser = at_least::<usize, 1>, allow_negative_numbers = true)]
    pub(super) fields: usize,
    /// Element type of the fields, such as f64, f32, f16, i32 or complex64
    #[arg(long, value_name = "TYPE", default_value = "f64", value_parser = element_type)]
    pub(super) dtype: ElementType,
    #[command(flatten)]
    pub(super) ranks: RankArgs,
    /// Axis along which ranks are neighbours: the slowest in memory, the fastest, or all axes
    #[arg(long, default_value = "slowest")]
    pub(super) split: SplitChoice,
    /// Add halo cells to those of their owners, in place of the exchange that fills halos; of f32 or f64
    #[arg(long, conflicts_with = "uneven")]
    pub(super) accumulate: bool,
    /// Number of samples of each contestant
    #[arg(long, value_name = "S", default_value_t = 200, value_parser = at_least::<usize, 1>, allow_negative_numbers = true)]
    pub(super) samples: usize,
    /// Work on half of the ranks, in turns, for this number of microseconds between the start of each exchange and its end
    #[arg(long, value_name = "MICROSECONDS", value_parser = at_least::<u64, 1>, allow_negative_numbers = true)]
    pub(super) uneven: Option<u64>,
    #[command(flatten)]
    pub(super) boundary: BoundaryArgs,
    #[command(flatten)]
    pub(super) memory: MemoryArgs,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    #[command(flatten)]
    pub(super) trace: TraceArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// The arrangement of the ranks' blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SplitChoice {
    /// In a row along the first axis.
    Slowest,
    /// In a row along the last axis.
    Fastest,
    /// As nearly the same number along each axis as possible.
    Balanced,
}

/// Cells along each axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bench) struct Extents(pub(in crate::bench) Vec<usize>);

impl Extents {
    pub(in crate::bench) fn parse(text: &str) -> Result<Extents, String> {
        let extents: Result<Vec<usize>, _> = text.split(',').map(|cells| cells.trim().parse()).collect();
        let wanted = "expected 1 to 4 numbers of cells, each at least 1, such as 128,128,128";
        match extents {
            Ok(extents) if extents.len() > 4 => Err(format!("{wanted}; found {} axes", extents.len())),
            Ok(extents) if !extents.contains(&0) => Ok(Extents(extents)),
            Ok(_) => Err(format!("{wanted}; found an axis of 0 cells")),
            Err(_) => Err(format!("{wanted}; found `{text}`")),
        }
    }
}

fn element_type(text: &str) -> Result<ElementType, String> {
    use ElementType::*;
    let all = [F64, F32, F16, Bf16, I8, I16, I32, I64, I128, U8, U16, U32, U64, U128, Complex32, Complex64];
    all.into_iter().find(|known| known.to_string() == text).ok_or_else(|| {
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        format!("expected one of {}; found `{text}`", names.join(", "))
    })
}
