//! The set-up of each simulated rank: a real pattern, bound to real fields.

use std::collections::BTreeMap;
use std::slice;

use haloport::cpu::CpuDevice;
use haloport::domain::GridError;
use haloport::exchange::{Combine, HaloOrder, SourceTarget};
use haloport::pattern::Piece;
use haloport::{
    BindOptions, Communicator, DataPath, Field, Grid, Halo, HaloCells, IndexBox, IndexSet, Pattern, Split,
};
use haloport_mesh::{LocalMesh, Mesh, Neighbourhood, Partition};

use super::args::{PartitionMethod, ScalingArgs};
use super::loggp::{Message, Sends};
use super::simulation::simulate;
use super::transport::Log;
use crate::command::failure::Failure;

/// The set-up of each rank, and its messages.
pub(super) type Ranks = Vec<(SetUp, Log)>;

/// The set-up of one rank.
#[derive(Debug)]
pub(super) struct SetUp {
    /// Ranks from which it gets cells.
    pub(super) neighbours: usize,
    /// Entries of its largest table while the pattern was made.
    pub(super) largest_table: usize,
    /// The messages to other ranks if each piece of the pattern is one: on a grid, one for each direction.
    pub(super) pieces: Vec<Message>,
}

/// The pieces of cells from each rank, or to each.
type Pieces = BTreeMap<usize, Vec<Piece>>;

impl SetUp {
    /// What a rank has that gets and sends these pieces of cells with `levels` values each.
    fn new(rank: usize, received: &Pieces, sent: &Pieces, levels: usize, largest_table: usize) -> SetUp {
        let is_other = |peer: &usize| *peer != rank;
        let mut pieces = Vec::new();
        for (&peer, of_peer) in sent.iter().filter(|(peer, _)| is_other(peer)) {
            let bytes = |cells: u128| cells as usize * levels * size_of::<f64>();
            pieces.extend(of_peer.iter().map(|piece| (peer, bytes(piece.source.count()))));
        }
        let neighbours = received.keys().filter(|peer| is_other(peer)).count();
        SetUp { neighbours, largest_table, pieces }
    }

    /// Binds a pattern, which fills halos of a field with `levels`, and counts what the rank has.
    fn of_halos(pattern: &Pattern, device: &CpuDevice, levels: usize) -> Result<SetUp, Failure> {
        pattern.bind_with(field(pattern, device, levels)?, in_messages())?;
        let (rank, table) = (pattern.comm().rank(), pattern.setup_cost().largest_table);
        Ok(SetUp::new(rank, pattern.receives(), pattern.sends(), levels, table))
    }

    /// Binds a pattern for exchanges that add halos to their owners, and counts what the rank has.
    fn of_sums(pattern: &Pattern, device: &CpuDevice, levels: usize) -> Result<SetUp, Failure> {
        pattern.bind_with(field(pattern, device, levels)?, in_messages().accumulate(Combine::Sum))?;
        let (rank, table) = (pattern.comm().rank(), pattern.setup_cost().largest_table);
        Ok(SetUp::new(rank, pattern.sends(), pattern.receives(), levels, table))
    }

    /// Binds a redistribution from one pattern to another, and counts what the rank has.
    fn of_moves(old: &Pattern, new: &Pattern, device: &CpuDevice, levels: usize) -> Result<SetUp, Failure> {
        let moving = old.redistribute(new)?;
        let (source, target) = (field(old, device, levels)?, field(new, device, levels)?);
        moving.bind_with(SourceTarget { source, target }, in_messages())?;
        let costs = [old.setup_cost(), new.setup_cost(), moving.setup_cost()];
        let table = costs.map(|cost| cost.largest_table).into_iter().max().unwrap_or(0);
        Ok(SetUp::new(old.comm().rank(), moving.receives(), moving.sends(), levels, table))
    }
}

/// Binds a pattern to a field with that many levels, and counts what the rank has.
type OfPattern = fn(&Pattern, &CpuDevice, usize) -> Result<SetUp, Failure>;

fn field(pattern: &Pattern, device: &CpuDevice, levels: usize) -> Result<Field<f64, CpuDevice>, Failure> {
    Ok(Field::builder(pattern).levels(levels).build(device)?)
}

/// All cells in messages between ranks: the report distinguishes ranks that share memory; here none do. The transport notes the
/// messages for which the exchange opens channels.
fn in_messages() -> BindOptions {
    BindOptions::default().path(DataPath::Messages).order(HaloOrder::AllNeighbours)
}

/// The grid of a number of ranks, and its blocks.
struct Blocks {
    grid: Grid,
    counts: Vec<usize>,
    split: Split,
}

impl Blocks {
    fn new(args: &ScalingArgs, ranks: usize) -> Result<Blocks, Failure> {
        let bad = |error: GridError| Failure::BadInput(format!("--local: {error}"));
        let local = &args.local.0;
        let cube = Grid::new(vec![ranks; local.len()]).map_err(bad)?;
        let counts = Split::balanced(&cube, ranks).map_err(bad)?.parts_per_axis();
        let extents: Vec<usize> =
            local.iter().zip(&counts).map(|(cells, count)| cells.saturating_mul(*count)).collect();
        let grid = Grid::new(extents).and_then(|grid| grid.periodic(vec![true; local.len()])).map_err(bad)?;
        let split = Split::even(&grid, &counts).map_err(bad)?;
        Ok(Blocks { grid, counts, split })
    }

    fn pattern(&self, comm: &Communicator, block: &IndexBox, halo: usize) -> Result<Pattern, Failure> {
        Ok(Pattern::structured(comm, &self.grid, slice::from_ref(block), &Halo::uniform(halo))?)
    }

    /// The block of a rank, whose ends within the grid are half a block further on.
    fn moved(&self, block: &IndexBox, local: &[usize]) -> IndexBox {
        let end = |axis: usize, at: i64| {
            let cells = self.grid.extent(axis) as i64;
            if at == 0 || at == cells { at } else { at + local[axis] as i64 / 2 }
        };
        let ends = |corner: &[i64]| -> Vec<i64> {
            corner.iter().enumerate().map(|(axis, &at)| end(axis, at)).collect()
        };
        IndexBox::new(ends(block.lower()), ends(block.upper()))
    }

    fn simulate(
        &self,
        body: impl Fn(&Communicator, &IndexBox, &CpuDevice) -> Result<SetUp, Failure> + Sync,
    ) -> Result<Ranks, Failure> {
        let device = CpuDevice::with_threads(1)?;
        simulate(self.counts.iter().product(), |comm| {
            let mine = self.split.part(comm.rank());
            let mine = mine.ok_or_else(|| Failure::Run(format!("rank {} has no block", comm.rank())))?;
            body(comm, &mine, &device)
        })
    }
}

/// Simulates ranks with equal blocks of a grid that is periodic and split along all axes. Returns also the messages
/// [`axis_after_axis`].
///
/// # Errors
/// [`Failure`], [`Failure::BadInput`] if the grid is too large.
pub(super) fn blocks(args: &ScalingArgs, ranks: usize) -> Result<(Ranks, Vec<Sends>), Failure> {
    let (blocks, halo) = (Blocks::new(args, ranks)?, args.halo as usize);
    let simulated = blocks
        .simulate(|comm, mine, device| SetUp::of_halos(&blocks.pattern(comm, mine, halo)?, device, 1))?;
    Ok((simulated, axis_after_axis(&args.local.0, &blocks.counts, halo)))
}

/// Simulates the same ranks, whose halos are added to their owners.
///
/// # Errors
/// As for [`blocks`].
pub(super) fn sums(args: &ScalingArgs, ranks: usize) -> Result<Ranks, Failure> {
    let blocks = Blocks::new(args, ranks)?;
    blocks.simulate(|comm, mine, device| {
        SetUp::of_sums(&blocks.pattern(comm, mine, args.halo as usize)?, device, 1)
    })
}

/// Simulates the same ranks, whose cells go to new blocks: all ends within the grid are half a block further on.
///
/// # Errors
/// As for [`blocks`].
pub(super) fn new_parts(args: &ScalingArgs, ranks: usize) -> Result<Ranks, Failure> {
    let blocks = Blocks::new(args, ranks)?;
    blocks.simulate(|comm, mine, device| {
        let old = blocks.pattern(comm, mine, 0)?;
        let new = blocks.pattern(comm, &blocks.moved(mine, &args.local.0), 0)?;
        SetUp::of_moves(&old, &new, device, 1)
    })
}

/// Computes the messages along each axis if halos travel axis by axis, corners with the faces of later axes. `counts`
/// are the numbers of blocks along each axis.
fn axis_after_axis(local: &[usize], counts: &[usize], halo: usize) -> Vec<Sends> {
    let along = |axis: usize| -> Sends {
        let (count, stride) = (counts[axis], counts[axis + 1..].iter().product::<usize>());
        let with_corners = local[..axis].iter().map(|cells| cells + 2 * halo);
        let across: usize = with_corners.chain(local[axis + 1..].iter().copied()).product();
        let bytes = halo * across * size_of::<f64>();
        let sends = |rank: usize| {
            let at = rank / stride % count;
            let peers =
                [(at + count - 1) % count, (at + 1) % count].map(|to| rank - at * stride + to * stride);
            peers.into_iter().filter(|peer| *peer != rank).map(|peer| (peer, bytes)).collect()
        };
        (0..counts.iter().product::<usize>()).map(sends).collect()
    };
    (0..local.len()).map(along).collect()
}

/// The icosahedral mesh of a number of ranks.
///
/// # Errors
/// [`Failure::BadInput`] if it is too large.
fn mesh_of(args: &ScalingArgs, ranks: usize) -> Result<Mesh, Failure> {
    let divisions = (f64::from(args.cells) * ranks as f64 / 20.0).sqrt().round() as usize;
    Mesh::icosahedral(divisions).map_err(|error| Failure::BadInput(format!("--cells: {error}")))
}

/// Cuts the mesh into parts.
///
/// # Errors
/// [`Failure::BadInput`] if it cannot be cut, or this build lacks the method.
fn cut(args: &ScalingArgs, mesh: &Mesh, parts: usize) -> Result<Partition, Failure> {
    let partition = match args.partition {
        PartitionMethod::Curve => Partition::by_curve(mesh, parts),
        #[cfg(feature = "metis")]
        PartitionMethod::Metis => Partition::metis(mesh, parts),
        #[cfg(not(feature = "metis"))]
        PartitionMethod::Metis => {
            let advice =
                "--partition: this build has no METIS; build with `--features metis`, or choose `curve`";
            return Err(Failure::BadInput(advice.into()));
        }
    };
    partition.map_err(|error| Failure::BadInput(format!("--partition: {error}")))
}

/// Simulates ranks with parts of an icosahedral mesh, whose halos are the cells that share a vertex with them: first
/// the directory finds the owners of halos, then the ranks name them, and last named halos are added to their owners.
///
/// # Errors
/// [`Failure`], [`Failure::BadInput`] if the mesh is too large or cannot be cut.
pub(super) fn mesh_parts(args: &ScalingArgs, ranks: usize) -> Result<[Ranks; 3], Failure> {
    let mesh = mesh_of(args, ranks)?;
    let partition = cut(args, &mesh, ranks)?;
    let named = |part| {
        let local = LocalMesh::new(&mesh, &partition, part, 1, Neighbourhood::Vertices);
        let cells = local.cells();
        let (owned, halo) = cells.ids().split_at(cells.owned());
        let owners: Vec<usize> = cells.halo().map(|cell| cells.owner(cell)).collect();
        IndexSet::new(owned, halo).with_owners(owners)
    };
    let named: Vec<IndexSet> = (0..ranks).map(named).collect();
    let found: Vec<IndexSet> = named.iter().map(|set| IndexSet::in_order(set.ids(), set.owned())).collect();
    let (device, levels) = (CpuDevice::with_threads(1)?, args.levels as usize);
    let simulated = |sets: &[IndexSet], set_up: OfPattern| {
        simulate(ranks, |comm| {
            let set = slice::from_ref(&sets[comm.rank()]);
            let pattern = Pattern::unstructured(comm, set, &HaloCells::All)?;
            set_up(&pattern, &device, levels)
        })
    };
    Ok([
        simulated(&found, SetUp::of_halos)?,
        simulated(&named, SetUp::of_halos)?,
        simulated(&named, SetUp::of_sums)?,
    ])
}

/// Simulates ranks whose parts of the mesh are two pieces each, of which the second one goes to the next rank in exchange
/// for the first one of the rank before: so the new part of a rank is half of its old one and half of its neighbour's.
///
/// # Errors
/// As for [`mesh_parts`].
pub(super) fn new_mesh_parts(args: &ScalingArgs, ranks: usize) -> Result<Ranks, Failure> {
    let mesh = mesh_of(args, ranks)?;
    let pieces = cut(args, &mesh, 2 * ranks)?;
    let device = CpuDevice::with_threads(1)?;
    simulate(ranks, |comm| {
        let of_pieces = |both: [usize; 2]| -> Result<Pattern, Failure> {
            let cells = both.into_iter().flat_map(|piece| pieces.cells_of(piece % (2 * ranks)));
            let ids: Vec<i64> = cells.map(|&cell| cell as i64).collect();
            Ok(Pattern::unstructured(comm, &[IndexSet::new(&ids, &[])], &HaloCells::All)?)
        };
        let first = 2 * comm.rank();
        SetUp::of_moves(
            &of_pieces([first, first + 1])?,
            &of_pieces([first + 1, first + 2])?,
            &device,
            args.levels as usize,
        )
    })
}
