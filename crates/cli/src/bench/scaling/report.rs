//! The printed results.

use std::io::{self, Write};

use serde::Serialize;

use super::args::{PartitionMethod, ScalingArgs};
use super::cases::RankCost;
use super::loggp::{LogGp, Message};
use crate::command::print;

/// The results: the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    /// Ranks on one node.
    node: u32,
    loggp: LogGp,
    series: &'a [Series],
}

/// One kind of decomposition, for growing numbers of ranks.
#[derive(Debug, Serialize)]
pub(super) struct Series {
    pub(super) name: &'static str,
    what: String,
    pub(super) rows: Vec<Row>,
}

/// The figures of all ranks.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) ranks: usize,
    /// Ranks from which a rank gets cells.
    pub(super) neighbours: Spread,
    /// Messages that a rank sends in one exchange, if no ranks share memory, and their bytes.
    pub(super) messages: Spread,
    pub(super) bytes: Spread,
    /// Of these, those to other nodes.
    pub(super) messages_between_nodes: Spread,
    pub(super) bytes_between_nodes: Spread,
    /// Messages that a rank sends and receives during set-up, and the bytes that it sends.
    pub(super) setup_messages: Spread,
    pub(super) setup_received: Spread,
    pub(super) setup_bytes: Spread,
    /// Collective calls during set-up.
    pub(super) collectives: Spread,
    /// Entries of a rank's largest table while the pattern is made.
    pub(super) largest_table: Spread,
    /// The time of one exchange if each rank has a port of its own.
    pub(super) own_port: Times,
    /// The same if all ranks of a node share one port.
    pub(super) shared_port: Times,
}

/// A figure of all ranks: the mean and the largest.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Spread {
    pub(super) mean: f64,
    pub(super) largest: usize,
}

/// Times on the network until the last rank has its halo, in µs.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Times {
    /// One message for each neighbour (on a grid, for each direction), whether or not ranks share memory.
    pub(super) packed_us: f64,
    /// As the library sends, without messages to ranks that share memory with the sender.
    pub(super) haloport_us: f64,
    /// The same axis by axis; `None` if there are no axes.
    pub(super) axis_after_axis_us: Option<f64>,
}

impl Spread {
    fn of(figures: impl Iterator<Item = usize> + Clone) -> Spread {
        let count = figures.clone().count().max(1);
        let sum: usize = figures.clone().sum();
        Spread { mean: sum as f64 / count as f64, largest: figures.max().unwrap_or(0) }
    }
}

impl Series {
    /// The series of the study, still empty: the grid, the mesh, and the mesh whose ranks name the owners of their
    /// halos.
    pub(super) fn all(args: &ScalingArgs) -> [Series; 3] {
        let local: Vec<String> = args.local.0.iter().map(ToString::to_string).collect();
        let grid = format!(
            "blocks of {} cells, periodic, halo {}, split along all axes, one field of f64",
            local.join(" × "),
            args.halo
        );
        let mesh = format!(
            "an icosahedral mesh, about {} cells a rank, cut {}, {} levels, one field of f64",
            args.cells,
            match args.partition {
                PartitionMethod::Curve => "along Hilbert's curve",
                PartitionMethod::Metis => "by METIS",
            },
            args.levels
        );
        let named = format!("{mesh}; ranks name the owners of their halos");
        [("grid", grid), ("mesh", mesh), ("mesh, owners named", named)].map(|(name, what)| Series {
            name,
            what,
            rows: Vec::new(),
        })
    }
}

impl Row {
    /// The figures of `costs`, one for each rank, and of the phases of an exchange that goes axis by axis.
    pub(super) fn new(args: &ScalingArgs, costs: &[RankCost], axes: Option<&[Vec<Vec<Message>>]>) -> Row {
        let node_of = |rank: usize| rank / args.node as usize;
        let spread = |of: fn(&RankCost) -> usize| Spread::of(costs.iter().map(of));
        let all: Vec<Vec<Message>> = costs.iter().map(|cost| cost.log.sends.clone()).collect();
        let pieces: Vec<Vec<Message>> = costs.iter().map(|cost| cost.pieces.clone()).collect();
        // Ranks of a node read each other's cells from shared memory.
        let between_nodes = |sends: &Vec<Vec<Message>>| -> Vec<Vec<Message>> {
            let sends = sends.iter().enumerate();
            sends
                .map(|(rank, sends)| {
                    sends.iter().copied().filter(|(peer, _)| node_of(*peer) != node_of(rank)).collect()
                })
                .collect()
        };
        let between = between_nodes(&all);
        let axes: Option<Vec<_>> = axes.map(|phases| phases.iter().map(between_nodes).collect());
        let times = |port: &dyn Fn(usize) -> usize| Times {
            packed_us: args.loggp.exchange_ns(&pieces, port) / 1e3,
            haloport_us: args.loggp.exchange_ns(&between, port) / 1e3,
            axis_after_axis_us: axes.as_ref().map(|phases| args.loggp.phases_ns(phases, port) / 1e3),
        };
        Row {
            ranks: costs.len(),
            neighbours: spread(|cost| cost.neighbours),
            messages: Spread::of(all.iter().map(Vec::len)),
            bytes: Spread::of(all.iter().map(|sends| bytes(sends))),
            messages_between_nodes: Spread::of(between.iter().map(Vec::len)),
            bytes_between_nodes: Spread::of(between.iter().map(|sends| bytes(sends))),
            setup_messages: spread(|cost| cost.log.setup_messages),
            setup_received: spread(|cost| cost.log.setup_received),
            setup_bytes: spread(|cost| cost.log.setup_bytes),
            collectives: spread(|cost| cost.log.collectives),
            largest_table: spread(|cost| cost.largest_table),
            own_port: times(&|rank| rank),
            shared_port: times(&node_of),
        }
    }
}

fn bytes(sends: &[Message]) -> usize {
    sends.iter().map(|(_, bytes)| bytes).sum()
}

impl<'a> Report<'a> {
    pub(super) fn new(args: &ScalingArgs, series: &'a [Series]) -> Report<'a> {
        Report { node: args.node, loggp: args.loggp, series }
    }
}

impl print::Report for Report<'_> {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let LogGp { latency_ns, overhead_ns, gap_ns, gap_per_byte_ns } = self.loggp;
        writeln!(
            out,
            "L = {latency_ns} ns, o = {overhead_ns} ns, g = {gap_ns} ns, G = {gap_per_byte_ns} ns; {} ranks on a node",
            self.node
        )?;
        for series in self.series {
            writeln!(out, "\n**{}**: {}\n", series.name, series.what)?;
            write_exchange(out, &series.rows)?;
            writeln!(out)?;
            write_setup(out, &series.rows)?;
            writeln!(out)?;
            write_times(out, &series.rows)?;
        }
        Ok(())
    }
}

/// A figure as text: one number if it is the same for all ranks, otherwise the mean and the largest.
fn text(figure: Spread, unit: f64) -> String {
    let (mean, largest) = (figure.mean / unit, figure.largest as f64 / unit);
    let decimals = usize::from(unit > 1.0);
    if figure.mean == figure.largest as f64 {
        format!("{largest:.decimals$}")
    } else {
        format!("{mean:.1} / {largest:.decimals$}")
    }
}

const COUNT: f64 = 1.0;
const KIB: f64 = 1024.0;

fn write_exchange(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    head(out, &["ranks", "neighbours", "messages", "KiB", "messages between nodes", "KiB between nodes"])?;
    for row in rows {
        let figures = [
            text(row.neighbours, COUNT),
            text(row.messages, COUNT),
            text(row.bytes, KIB),
            text(row.messages_between_nodes, COUNT),
            text(row.bytes_between_nodes, KIB),
        ];
        writeln!(out, "| {} | {} |", row.ranks, figures.join(" | "))?;
    }
    Ok(())
}

fn write_setup(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    head(out, &["ranks", "messages sent", "KiB sent", "messages received", "collectives", "largest table"])?;
    for row in rows {
        let figures = [
            text(row.setup_messages, COUNT),
            text(row.setup_bytes, KIB),
            text(row.setup_received, COUNT),
            text(row.collectives, COUNT),
            text(row.largest_table, COUNT),
        ];
        writeln!(out, "| {} | {} |", row.ranks, figures.join(" | "))?;
    }
    Ok(())
}

fn write_times(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    let ways = ["one message for each neighbour", "Haloport", "axis after axis"];
    let ports = ["own port", "shared port"];
    let names = ports.iter().flat_map(|port| ways.iter().map(move |way| format!("{port}: {way}, µs")));
    let names: Vec<String> = std::iter::once("ranks".to_string()).chain(names).collect();
    head(out, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    for row in rows {
        let times = [row.own_port, row.shared_port]
            .map(|times| [Some(times.packed_us), Some(times.haloport_us), times.axis_after_axis_us]);
        let times = times.as_flattened().iter();
        let times: Vec<String> = times.map(|time| time.map_or("–".into(), |us| format!("{us:.1}"))).collect();
        writeln!(out, "| {} | {} |", row.ranks, times.join(" | "))?;
    }
    Ok(())
}

fn head(out: &mut impl Write, names: &[&str]) -> io::Result<()> {
    writeln!(out, "| {} |", names.join(" | "))?;
    writeln!(out, "|{}", " ---: |".repeat(names.len()))
}
