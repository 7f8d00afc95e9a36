//! The set-up of each simulated rank: a real pattern, bound to real fields.

use std::slice;

use haloport::cpu::CpuDevice;
use haloport::domain::GridError;
use haloport::exchange::HaloOrder;
use haloport::{BindOptions, DataPath, Field, Grid, Halo, HaloCells, IndexSet, Pattern, Split};
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

impl SetUp {
    /// Binds the pattern with all cells in messages between ranks, and counts what it has.
    fn new(pattern: &Pattern, field: Field<f64, CpuDevice>, levels: usize) -> Result<SetUp, Failure> {
        // The report distinguishes ranks that share memory; here none do.
        let options = BindOptions::default().path(DataPath::Messages).order(HaloOrder::AllNeighbours);
        // The transport notes the messages for which the exchange opens channels.
        pattern.bind_with(field, options)?;
        let is_other = |peer: &usize| *peer != pattern.comm().rank();
        let mut pieces = Vec::new();
        for (&peer, of_peer) in pattern.sends().iter().filter(|(peer, _)| is_other(peer)) {
            let bytes = |cells: u128| cells as usize * levels * size_of::<f64>();
            pieces.extend(of_peer.iter().map(|piece| (peer, bytes(piece.source.count()))));
        }
        Ok(SetUp {
            neighbours: pattern.receives().keys().filter(|peer| is_other(peer)).count(),
            largest_table: pattern.setup_cost().largest_table,
            pieces,
        })
    }
}

/// Simulates ranks with equal blocks of a grid that is periodic and split along all axes. Returns also the messages
/// [`axis_after_axis`].
///
/// # Errors
/// [`Failure`], [`Failure::BadInput`] if the grid is too large.
pub(super) fn blocks(args: &ScalingArgs, ranks: usize) -> Result<(Ranks, Vec<Sends>), Failure> {
    let bad = |error: GridError| Failure::BadInput(format!("--local: {error}"));
    let (local, halo) = (&args.local.0, args.halo as usize);
    let cube = Grid::new(vec![ranks; local.len()]).map_err(bad)?;
    let counts = Split::balanced(&cube, ranks).map_err(bad)?.parts_per_axis();
    let extents: Vec<usize> =
        local.iter().zip(&counts).map(|(cells, count)| cells.saturating_mul(*count)).collect();
    let grid = Grid::new(extents).and_then(|grid| grid.periodic(vec![true; local.len()])).map_err(bad)?;
    let split = Split::even(&grid, &counts).map_err(bad)?;
    let device = CpuDevice::with_threads(1)?;
    let simulated = simulate(ranks, |comm| {
        let mine = split.part(comm.rank());
        let pattern = Pattern::structured(comm, &grid, mine.as_slice(), &Halo::uniform(halo))?;
        SetUp::new(&pattern, Field::new(&device, &pattern)?, 1)
    })?;
    Ok((simulated, axis_after_axis(local, &counts, halo)))
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

/// Simulates ranks with parts of an icosahedral mesh, whose halos are the cells that share a vertex with them: first
/// the directory finds the owners of halos, then the ranks name them.
///
/// # Errors
/// [`Failure`], [`Failure::BadInput`] if the mesh is too large or cannot be cut.
pub(super) fn mesh_parts(args: &ScalingArgs, ranks: usize) -> Result<[Ranks; 2], Failure> {
    let divisions = (f64::from(args.cells) * ranks as f64 / 20.0).sqrt().round() as usize;
    let mesh = Mesh::icosahedral(divisions);
    let mesh = mesh.map_err(|error| Failure::BadInput(format!("--cells: {error}")))?;
    let partition = match args.partition {
        PartitionMethod::Curve => Partition::by_curve(&mesh, ranks),
        #[cfg(feature = "metis")]
        PartitionMethod::Metis => Partition::metis(&mesh, ranks),
        #[cfg(not(feature = "metis"))]
        PartitionMethod::Metis => {
            let advice =
                "--partition: this build has no METIS; build with `--features metis`, or choose `curve`";
            return Err(Failure::BadInput(advice.into()));
        }
    };
    let partition = partition.map_err(|error| Failure::BadInput(format!("--partition: {error}")))?;
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
    let simulated = |sets: &[IndexSet]| {
        simulate(ranks, |comm| {
            let set = slice::from_ref(&sets[comm.rank()]);
            let pattern = Pattern::unstructured(comm, set, &HaloCells::All)?;
            SetUp::new(&pattern, Field::builder(&pattern).levels(levels).build(&device)?, levels)
        })
    };
    Ok([simulated(&found)?, simulated(&named)?])
}
