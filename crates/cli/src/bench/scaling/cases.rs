//! The set-up of each simulated rank: a real pattern, bound to real fields.

use haloport::cpu::CpuDevice;
use haloport::device::Device;
use haloport::exchange::HaloOrder;
use haloport::{BindOptions, Communicator, DataPath, Field, Grid, Halo, HaloCells, IndexSet, Pattern, Split};
use haloport_mesh::{LocalMesh, Mesh, Neighbourhood, Partition};

use super::args::{PartitionMethod, ScalingArgs};
use super::loggp::Message;
use super::simulation::{Log, simulate};
use crate::command::failure::Failure;

/// The cost of one exchange and its set-up for one rank.
#[derive(Debug)]
pub(super) struct RankCost {
    /// Ranks from which it gets cells.
    pub(super) neighbours: usize,
    /// Entries of its largest table while the pattern was made.
    pub(super) largest_table: usize,
    /// The messages to other ranks if each piece of the pattern is one: on a grid, one for each direction.
    pub(super) pieces: Vec<Message>,
    /// Its messages during set-up, and those of the exchange.
    pub(super) log: Log,
}

/// Equal blocks of a grid that is periodic along every axis, one for each rank, split along all axes.
pub(super) struct Blocks {
    grid: Grid,
    split: Split,
    counts: Vec<usize>,
    local: Vec<usize>,
    halo: usize,
}

impl Blocks {
    /// Makes one block for each rank.
    ///
    /// # Errors
    /// [`Failure::BadInput`] if the grid is too large.
    pub(super) fn new(args: &ScalingArgs, ranks: usize) -> Result<Blocks, Failure> {
        let bad = |error: haloport::domain::GridError| Failure::BadInput(format!("--local: {error}"));
        let local = args.local.0.clone();
        let cube = Grid::new(vec![ranks; local.len()]).map_err(bad)?;
        let counts = Split::balanced(&cube, ranks).map_err(bad)?.parts_per_axis();
        let extents: Vec<usize> =
            local.iter().zip(&counts).map(|(cells, count)| cells.saturating_mul(*count)).collect();
        let grid = Grid::new(extents).and_then(|grid| grid.periodic(vec![true; local.len()])).map_err(bad)?;
        let split = Split::even(&grid, &counts).map_err(bad)?;
        Ok(Blocks { grid, split, counts, local, halo: args.halo as usize })
    }

    /// Simulates the ranks, and returns the cost of each.
    ///
    /// # Errors
    /// [`Failure`].
    pub(super) fn costs(&self) -> Result<Vec<RankCost>, Failure> {
        let device = one_thread()?;
        costs(self.counts.iter().product(), |comm| {
            let mine = self.split.part(comm.rank());
            let halo = Halo::uniform(self.halo);
            let pattern = Pattern::structured(comm, &self.grid, mine.as_slice(), &halo)?;
            let field = Field::<f64, CpuDevice>::new(&device, &pattern)?;
            set_up(&pattern, field, size_of::<f64>())
        })
    }

    /// Computes the messages of each rank if halos travel axis by axis, corners with the faces of later axes.
    pub(super) fn axis_after_axis(&self) -> Vec<Vec<Vec<Message>>> {
        let ranks: usize = self.counts.iter().product();
        let phase = |axis: usize| {
            let count = self.counts[axis];
            let stride: usize = self.counts[axis + 1..].iter().product();
            let across: usize = (0..self.local.len())
                .filter(|&other| other != axis)
                .map(|other| self.local[other] + if other < axis { 2 * self.halo } else { 0 })
                .product();
            let bytes = self.halo * across * size_of::<f64>();
            let sends = move |rank: usize| {
                let at = rank / stride % count;
                let peers =
                    [(at + count - 1) % count, (at + 1) % count].map(|to| rank - at * stride + to * stride);
                let messages = peers.into_iter().filter(|peer| *peer != rank).map(|peer| (peer, bytes));
                messages.collect::<Vec<Message>>()
            };
            (0..ranks).map(sends).collect()
        };
        (0..self.local.len()).map(phase).collect()
    }
}

/// Parts of an icosahedral mesh; their halos are the cells that share a vertex with them.
pub(super) struct MeshParts {
    sets: Vec<IndexSet>,
    levels: usize,
}

impl MeshParts {
    /// Makes one part for each rank, with about as many cells as the arguments say.
    ///
    /// # Errors
    /// [`Failure::BadInput`] if the mesh is too large.
    pub(super) fn new(args: &ScalingArgs, ranks: usize) -> Result<MeshParts, Failure> {
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
        let set = |part| {
            let local = LocalMesh::new(&mesh, &partition, part, 1, Neighbourhood::Vertices);
            let cells = local.cells();
            let (owned, halo) = cells.ids().split_at(cells.owned());
            let owners: Vec<usize> = cells.halo().map(|cell| cells.owner(cell)).collect();
            IndexSet::new(owned, halo).with_owners(owners)
        };
        Ok(MeshParts { sets: (0..ranks).map(set).collect(), levels: args.levels as usize })
    }

    /// Simulates the ranks, and returns the cost of each. If `owners_named`, ranks name the owners of their halos;
    /// otherwise the directory finds them.
    ///
    /// # Errors
    /// [`Failure`].
    pub(super) fn costs(&self, owners_named: bool) -> Result<Vec<RankCost>, Failure> {
        let device = one_thread()?;
        costs(self.sets.len(), |comm| {
            let named = &self.sets[comm.rank()];
            let set =
                if owners_named { named.clone() } else { IndexSet::in_order(named.ids(), named.owned()) };
            let pattern = Pattern::unstructured(comm, &[set], &HaloCells::All)?;
            let field = Field::<f64, CpuDevice>::builder(&pattern).levels(self.levels).build(&device)?;
            set_up(&pattern, field, self.levels * size_of::<f64>())
        })
    }
}

/// The result of `set_up`.
type Found = (usize, usize, Vec<Message>);

/// Binds the pattern with all cells in messages between ranks, and counts them.
fn set_up<D: Device>(pattern: &Pattern, field: Field<f64, D>, cell_bytes: usize) -> Result<Found, Failure> {
    // The report distinguishes ranks that share memory; here none do.
    let options = BindOptions::default().path(DataPath::Messages).order(HaloOrder::AllNeighbours);
    let exchange = pattern.bind_with(field, options)?;
    let me = pattern.comm().rank();
    let others = |peer: &usize| *peer != me;
    let pieces: Vec<Message> = pattern
        .sends()
        .iter()
        .filter(|(peer, _)| others(peer))
        .flat_map(|(&peer, pieces)| {
            pieces.iter().map(move |piece| (peer, piece.source.count() as usize * cell_bytes))
        })
        .collect();
    let (packed, sent) = (pieces.iter().map(|(_, bytes)| bytes).sum(), exchange.traffic().message_bytes);
    if sent < packed {
        return Err(Failure::Run(format!("rank {me} sends {sent} bytes, expected at least {packed}")));
    }
    let neighbours = pattern.receives().keys().filter(|peer| others(peer)).count();
    Ok((neighbours, pattern.setup_cost().largest_table, pieces))
}

fn costs(
    ranks: usize,
    body: impl Fn(&Communicator) -> Result<Found, Failure> + Sync,
) -> Result<Vec<RankCost>, Failure> {
    let found = simulate(ranks, body)?.into_iter();
    let cost =
        |((neighbours, largest_table, pieces), log)| RankCost { neighbours, largest_table, pieces, log };
    Ok(found.map(cost).collect())
}

fn one_thread() -> Result<CpuDevice, Failure> {
    CpuDevice::with_threads(1).map_err(|error| Failure::Run(error.to_string()))
}
