//! The printed results.

use std::io::{self, Write};
use std::slice;

use serde::Serialize;

use super::args::{PartitionMethod, ScalingArgs};
use super::cases::{Ranks, SetUp};
use super::loggp::{LogGp, Message, Sends};
use super::transport::Log;
use crate::command::print;

/// The results: the object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Ranks on one node.
    node: u32,
    loggp: LogGp,
    /// The grid; the same with halos that are added to their owners; its cells that go to new blocks; the mesh; the mesh whose
    /// ranks name the owners of their halos; the same with halos that are added to their owners; its cells that go to new parts.
    pub(super) series: [Series; 7],
}

/// One kind of decomposition, for growing numbers of ranks.
#[derive(Debug, Serialize)]
pub(super) struct Series {
    name: &'static str,
    what: String,
    pub(super) rows: Vec<Row>,
}

/// The figures of all ranks.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    ranks: usize,
    /// Ranks from which a rank gets cells.
    neighbours: Spread,
    /// Messages that a rank sends in one exchange, if no ranks share memory, and their bytes.
    messages: Spread,
    bytes: Spread,
    /// Of these, those to other nodes.
    messages_between_nodes: Spread,
    bytes_between_nodes: Spread,
    /// Messages that a rank sends and receives during set-up, and the bytes that it sends.
    setup_messages: Spread,
    setup_received: Spread,
    setup_bytes: Spread,
    /// Collective calls during set-up.
    collectives: Spread,
    /// Entries of a rank's largest table while the pattern is made.
    largest_table: Spread,
    /// The time of one exchange if each rank has a port of its own.
    own_port: Times,
    /// The same if all ranks of a node share one port.
    shared_port: Times,
}

/// A figure of all ranks: the mean and the largest.
#[derive(Debug, Clone, Copy, Serialize)]
struct Spread {
    mean: f64,
    largest: usize,
}

/// Times on the network until the last rank has its halo, in µs.
#[derive(Debug, Clone, Copy, Serialize)]
struct Times {
    /// One message for each neighbour (on a grid, for each direction), whether or not ranks share memory.
    packed_us: f64,
    /// As the library sends, without messages to ranks that share memory with the sender.
    haloport_us: f64,
    /// The same axis by axis; `None` if there are no axes.
    axis_after_axis_us: Option<f64>,
}

impl Report {
    /// The report of the study, still without rows.
    pub(super) fn new(args: &ScalingArgs) -> Report {
        let local: Vec<String> = args.local.0.iter().map(ToString::to_string).collect();
        let grid = format!(
            "blocks of {} cells, periodic, halo {}, split along all axes, one field of f64",
            local.join(" × "),
            args.halo
        );
        let cut = match args.partition {
            PartitionMethod::Curve => "along Hilbert's curve",
            PartitionMethod::Metis => "by METIS",
        };
        let mesh = format!(
            "an icosahedral mesh, about {} cells a rank, cut {cut}, {} levels, one field of f64",
            args.cells, args.levels
        );
        let named = format!("{mesh}; ranks name the owners of their halos");
        let mesh_summed = format!("{named}, to which halos are added");
        let mesh_moved = format!("{mesh}; half of each part goes to the next rank");
        let summed = format!("{grid}; halos are added to their owners");
        let moved = format!(
            "{grid}; all ends of blocks within the grid move by half a block, and cells go to their new owners"
        );
        let series = [
            ("grid", grid),
            ("grid, halos added", summed),
            ("grid, new blocks", moved),
            ("mesh", mesh),
            ("mesh, owners named", named),
            ("mesh, halos added", mesh_summed),
            ("mesh, new parts", mesh_moved),
        ]
        .map(|(name, what)| Series { name, what, rows: Vec::new() });
        Report { node: args.node, loggp: args.loggp, series }
    }
}

impl Row {
    /// The figures of all ranks; `axes` are the phases of an exchange that goes axis by axis.
    pub(super) fn new(args: &ScalingArgs, ranks: &Ranks, axes: &[Sends]) -> Row {
        let node_of = |rank: usize| rank / args.node as usize;
        // Ranks of a node read each other's cells from shared memory.
        let between_nodes = |sends: &Sends| -> Sends {
            let of_rank = |(rank, sends): (usize, &Vec<Message>)| {
                sends.iter().copied().filter(|(peer, _)| node_of(*peer) != node_of(rank)).collect()
            };
            sends.iter().enumerate().map(of_rank).collect()
        };
        let all: Sends = ranks.iter().map(|(_, log)| log.sends.clone()).collect();
        let pieces: Sends = ranks.iter().map(|(set_up, _)| set_up.pieces.clone()).collect();
        let between = between_nodes(&all);
        let axes: Vec<Sends> = axes.iter().map(between_nodes).collect();
        let times = |port: &dyn Fn(usize) -> usize| {
            let us = |phases: &[Sends]| args.loggp.exchange_ns(phases, port) / 1e3;
            Times {
                packed_us: us(slice::from_ref(&pieces)),
                haloport_us: us(slice::from_ref(&between)),
                axis_after_axis_us: (!axes.is_empty()).then(|| us(&axes)),
            }
        };
        let set_up = |of: fn(&SetUp) -> usize| Spread::of(ranks.iter().map(|(set_up, _)| of(set_up)));
        let log = |of: fn(&Log) -> usize| Spread::of(ranks.iter().map(|(_, log)| of(log)));
        let bytes = |sends: &Sends| {
            Spread::of(sends.iter().map(|sends| sends.iter().map(|(_, bytes)| bytes).sum::<usize>()))
        };
        Row {
            ranks: ranks.len(),
            neighbours: set_up(|set_up| set_up.neighbours),
            messages: Spread::of(all.iter().map(Vec::len)),
            bytes: bytes(&all),
            messages_between_nodes: Spread::of(between.iter().map(Vec::len)),
            bytes_between_nodes: bytes(&between),
            setup_messages: log(|log| log.setup_messages),
            setup_received: log(|log| log.setup_received),
            setup_bytes: log(|log| log.setup_bytes),
            collectives: log(|log| log.collectives),
            largest_table: set_up(|set_up| set_up.largest_table),
            own_port: times(&|rank| rank),
            shared_port: times(&node_of),
        }
    }
}

impl Spread {
    fn of(figures: impl ExactSizeIterator<Item = usize> + Clone) -> Spread {
        let (count, sum) = (figures.len(), figures.clone().sum::<usize>());
        Spread { mean: sum as f64 / count as f64, largest: figures.max().unwrap_or(0) }
    }

    /// One number if it is the same for all ranks, otherwise the mean and the largest.
    fn text(self, unit: f64) -> String {
        let (mean, largest) = (self.mean / unit, self.largest as f64 / unit);
        let decimals = usize::from(unit > 1.0);
        if self.mean == self.largest as f64 {
            format!("{largest:.decimals$}")
        } else {
            format!("{mean:.1} / {largest:.decimals$}")
        }
    }
}

impl print::Report for Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let LogGp { latency_ns, overhead_ns, gap_ns, gap_per_byte_ns } = self.loggp;
        writeln!(
            out,
            "L = {latency_ns} ns, o = {overhead_ns} ns, g = {gap_ns} ns, G = {gap_per_byte_ns} ns; {} ranks on a node",
            self.node
        )?;
        for Series { name, what, rows } in &self.series {
            writeln!(out, "\n**{name}**: {what}\n")?;
            write_figures(out, rows, &EXCHANGE)?;
            writeln!(out)?;
            write_figures(out, rows, &SETUP)?;
            writeln!(out)?;
            write_times(out, rows)?;
        }
        Ok(())
    }
}

/// A column of a table: its title, its figure and the unit.
type Column = (&'static str, fn(&Row) -> Spread, f64);

const COUNT: f64 = 1.0;
const KIB: f64 = 1024.0;

const EXCHANGE: [Column; 5] = [
    ("neighbours", |row| row.neighbours, COUNT),
    ("messages", |row| row.messages, COUNT),
    ("KiB", |row| row.bytes, KIB),
    ("messages between nodes", |row| row.messages_between_nodes, COUNT),
    ("KiB between nodes", |row| row.bytes_between_nodes, KIB),
];

const SETUP: [Column; 5] = [
    ("messages sent", |row| row.setup_messages, COUNT),
    ("KiB sent", |row| row.setup_bytes, KIB),
    ("messages received", |row| row.setup_received, COUNT),
    ("collectives", |row| row.collectives, COUNT),
    ("largest table", |row| row.largest_table, COUNT),
];

fn write_figures(out: &mut impl Write, rows: &[Row], columns: &[Column]) -> io::Result<()> {
    let titles: Vec<String> = columns.iter().map(|(title, ..)| title.to_string()).collect();
    write_table(out, rows, &titles, |row| {
        columns.iter().map(|(_, figure, unit)| figure(row).text(*unit)).collect()
    })
}

fn write_times(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    let ways = ["one message for each neighbour", "Haloport", "axis after axis"];
    let titles = ["own port", "shared port"].map(|port| ways.map(|way| format!("{port}: {way}, µs")));
    write_table(out, rows, titles.as_flattened(), |row| {
        let times = [row.own_port, row.shared_port]
            .map(|times| [Some(times.packed_us), Some(times.haloport_us), times.axis_after_axis_us]);
        times.as_flattened().iter().map(|time| time.map_or("–".into(), |us| format!("{us:.1}"))).collect()
    })
}

/// Writes a table in Markdown. Its first column is the number of ranks.
fn write_table(
    out: &mut impl Write,
    rows: &[Row],
    titles: &[String],
    cells: impl Fn(&Row) -> Vec<String>,
) -> io::Result<()> {
    writeln!(out, "| ranks | {} |", titles.join(" | "))?;
    writeln!(out, "|{}", " ---: |".repeat(1 + titles.len()))?;
    rows.iter().try_for_each(|row| writeln!(out, "| {} | {} |", row.ranks, cells(row).join(" | ")))
}
