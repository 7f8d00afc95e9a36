//! Large fields, of which ranks of one node share only the parts that their neighbours read.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use haloport_conformance::drawn;
use haloport_core::device::Combine;
use haloport_core::transport::Reduction;
use haloport_core::{
    BindOptions, Communicator, ComponentPlace, DataPath, Exchange, Field, Grid, Halo, HaloCells, HaloOrder,
    IndexBox, IndexSet, Pattern,
};
use haloport_cpu::CpuDevice;

use crate::{Outcome, bare};

/// The number of planes of a slab, and of cells of a plane along each axis.
const PLANES: usize = 40;
const ROW: usize = 120;

/// All tests; if no ranks share memory, prints that they are skipped.
pub(crate) fn suite(comm: &Communicator) -> Outcome {
    let others = (0..comm.size()).filter(|&peer| peer != comm.rank());
    let mut alone = [u64::from(!others.clone().all(|peer| comm.is_near(peer)))];
    comm.all_reduce(&mut alone, Reduction::Max)?;
    if alone[0] == 1 || comm.size() == 1 {
        if comm.rank() == 0 && comm.size() > 1 {
            println!("skipped: these ranks share no memory");
        }
        return Ok(());
    }
    boxes(comm)?;
    wider_halo(comm)?;
    meshes(comm)?;
    spoilt_heads(comm)
}

/// The ends of slabs across the slowest axis are read from the neighbour's field; cells scattered over a field are
/// packed.
fn boxes(comm: &Communicator) -> Outcome {
    let device = CpuDevice::with_threads(1)?;
    for &slowest in drawn(&[0, 1, 2]) {
        let order = [slowest, (slowest + 1) % 3, (slowest + 2) % 3];
        let pattern = slabs(comm, slowest, 1)?;
        let plain = Field::builder(&pattern).axis_order(order).build(&device)?;
        // Two planes of two components, in a block with padding and a wider margin.
        let padded = Field::builder(&pattern)
            .axis_order(order)
            .padding([1, 2, 3])
            .wider_margin(2)
            .components(2, ComponentPlace::Slowest)
            .build(&device)?;
        let mut exchange = pattern.bind_with([plain, padded], straight())?;
        check(&mut exchange, slowest)?;
        let traffic = exchange.traffic();
        assert!(traffic.direct_bytes > 0 && traffic.shared_bytes == 0, "{traffic:?}");

        // The same ends with the halo around them: edges and corners travel with the faces.
        let in_turn = straight().order(HaloOrder::AxisByAxis);
        let mut exchange = pattern.bind_with(exchange.into_fields()?, in_turn)?;
        check(&mut exchange, slowest)?;
        let traffic = exchange.traffic();
        assert!(traffic.direct_bytes > 0 && traffic.shared_bytes == 0, "{traffic:?}");
        assert_eq!(traffic.steps, 3);

        // The slabs lie across the fastest axis.
        let across = Field::builder(&pattern).axis_order([order[1], order[2], slowest]).build(&device)?;
        let mut exchange = pattern.bind_with([across], straight())?;
        check(&mut exchange, slowest)?;
        let traffic = exchange.traffic();
        assert!(traffic.direct_bytes == 0 && traffic.shared_bytes > 0, "{traffic:?}");
    }
    Ok(())
}

/// If another pattern reads more cells, they are packed.
fn wider_halo(comm: &Communicator) -> Outcome {
    let device = CpuDevice::with_threads(1)?;
    let (near, far) = (slabs(comm, 0, 1)?, slabs(comm, 0, 3)?);
    let field = Field::builder(&near).wider_margin(2).build(&device)?;
    let mut exchange = far.bind_with([field], straight())?;
    check(&mut exchange, 0)?;
    let traffic = exchange.traffic();
    assert!(traffic.direct_bytes == 0 && traffic.shared_bytes > 0, "{traffic:?}");

    let mut exchange = near.bind_with(exchange.into_fields()?, straight())?;
    check(&mut exchange, 0)?;
    assert!(exchange.traffic().direct_bytes > 0, "{:?}", exchange.traffic());

    // Fewer cells than those that are shared are read from the field.
    let field = Field::<f64, _>::new(&device, &far)?;
    let mut exchange = near.bind_with([field], straight())?;
    check(&mut exchange, 0)?;
    assert!(exchange.traffic().direct_bytes > 0, "{:?}", exchange.traffic());
    Ok(())
}

/// Cells in a row, of which the ends or every tenth one are sent: contiguous or scattered in memory.
fn meshes(comm: &Communicator) -> Outcome {
    let (rank, size) = (comm.rank() as i64, comm.size() as i64);
    let (cells, levels) = (20_000i64, 40);
    let device = CpuDevice::with_threads(1)?;
    let previous = (rank + size - 1) % size;
    let owned: Vec<i64> = (rank * cells..(rank + 1) * cells).collect();
    let ends: Vec<i64> = (previous * cells..previous * cells + 100).collect();
    let scattered: Vec<i64> = (previous * cells..(previous + 1) * cells).step_by(10).collect();
    for (halo, slowest) in [(&ends, 0), (&scattered, 0), (&ends, 1)] {
        let set = IndexSet::new(&owned, halo);
        let pattern = Pattern::unstructured(comm, &[set], &HaloCells::All)?;
        let field = Field::<f64, _>::builder(&pattern)
            .levels(levels)
            .axis_order([slowest, 1 - slowest])
            .build(&device)?;
        let mut exchange = pattern.bind_with(field, straight())?;
        let value = |id: i64, level: i64| (id * 100 + level) as f64;
        let here = owned.len() as i64;
        exchange
            .fields_mut()
            .view_mut(0)?
            .fill_with(|cell, _| if cell[0] < here { value(owned[cell[0] as usize], cell[1]) } else { -1.0 });
        exchange.run_blocking()?;
        let view = exchange.fields().view(0)?;
        for (at, &id) in halo.iter().enumerate() {
            for level in 0..levels as i64 {
                assert_eq!(view.get(&[here + at as i64, level]), Some(value(id, level)), "cell {id}");
            }
        }
        let traffic = exchange.traffic();
        assert!(traffic.direct_bytes > 0 && traffic.shared_bytes == 0, "{traffic:?}");

        // The other way round, each cell that the next rank has in its halo becomes twice its value.
        let mut back = pattern.bind_with(exchange.into_fields()?, straight().accumulate(Combine::Sum))?;
        back.run_blocking()?;
        let view = back.fields().view(0)?;
        let in_halo = halo.iter().map(|id| id - previous * cells);
        for at in in_halo.filter(|_| comm.size() > 1) {
            let expected = 2.0 * value(owned[at as usize], 1);
            assert_eq!(view.get(&[at, 1]), Some(expected), "cell {at}");
        }
        let traffic = back.traffic();
        assert!(traffic.direct_bytes > 0 && traffic.shared_bytes == 0, "{traffic:?}");
    }
    Ok(())
}

/// If the head of a file lists impossible parts, the file is not mapped.
fn spoilt_heads(comm: &Communicator) -> Outcome {
    let transport = bare(comm);
    let peer = (comm.rank() + 1) % comm.size();
    let page = 65536;
    let (bytes, parts) = (20 * page, [2 * page..3 * page, 7 * page..8 * page]);
    // The words of the head: a number, the size in bytes, the number of parts, and the start and the end of each.
    let words =
        |list: &[usize]| list.iter().flat_map(|word| (*word as u64).to_ne_bytes()).collect::<Vec<u8>>();
    let [a, b] = parts.clone();
    let spoilt: [(&str, usize, Vec<u8>); 10] = [
        ("nothing", 3, words(&[a.start])),
        ("a part that begins within a page", 3, words(&[a.start + 8])),
        ("a part that ends within a page", 6, words(&[b.end - 8])),
        ("a part that ends before it begins", 3, words(&[a.end, a.start])),
        ("parts in the wrong order", 3, words(&[b.start, b.end, a.start, a.end])),
        ("parts that overlap", 3, words(&[a.start, a.end, a.start, a.end])),
        ("parts that are longer than the file", 3, words(&[a.start, a.start + 4 * page])),
        ("a part beyond the end", 5, words(&[b.start + bytes, b.end + bytes])),
        ("more parts than fit into the head", 2, words(&[1 << 20])),
        ("more bytes than memory can have", 1, words(&[usize::MAX])),
    ];
    for (what, word, bytes_there) in spoilt {
        let lease = transport.share_parts(bytes, &parts).ok_or("no shared memory")?;
        let token: Vec<u64> = lease
            .token
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
            .collect();
        let file = OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", token[2]))?;
        file.write_all_at(&bytes_there, 8 * word as u64)?;
        let tokens = comm.sparse_exchange(&[(peer, lease.token.clone())])?;
        for (owner, token) in tokens {
            let mapped = transport.map(owner, &token)?;
            assert_eq!(mapped.is_some(), what == "nothing", "{what}: {mapped:?}");
        }
        comm.barrier()?;
    }
    Ok(())
}

/// Straight from the neighbour's field, if that is possible: between far cores, packing would be quicker.
fn straight() -> BindOptions {
    BindOptions::default().prefer(DataPath::Direct)
}

/// Slabs of a periodic grid across one axis, one for each rank.
fn slabs(comm: &Communicator, axis: usize, halo: usize) -> Result<Pattern, crate::Failure> {
    let mut extents = [ROW; 3];
    extents[axis] = PLANES * comm.size();
    let grid = Grid::new(extents)?.periodic([true; 3])?;
    let whole = IndexBox::new([0; 3], extents.map(|extent| extent as i64));
    let (lower, upper) = (PLANES * comm.rank(), PLANES * (comm.rank() + 1));
    let mine = whole.with_axis(axis, lower as i64, upper as i64);
    Ok(Pattern::structured(comm, &grid, &[mine], &Halo::uniform(halo))?)
}

/// Exchanges twice, and checks every cell around the domain.
fn check<const N: usize>(exchange: &mut Exchange<[Field<f64, CpuDevice>; N]>, axis: usize) -> Outcome {
    let pattern = exchange.pattern().clone();
    let owned = pattern.boxes()[0];
    let mut extents = [ROW as i64; 3];
    extents[axis] = (PLANES * pattern.comm().size()) as i64;
    let filled: Vec<_> =
        pattern.receives().values().flatten().filter_map(|piece| piece.target.as_box()).collect();
    for round in 0..2 {
        let value = |cell: &[i64], component: usize, field: usize| {
            let wrapped = (0..3).map(|axis| cell[axis].rem_euclid(extents[axis]));
            let number = wrapped.fold(round, |number, index| number * 1000 + index);
            (number * 10 + (2 * field + component) as i64) as f64
        };
        for (number, field) in exchange.fields_mut().iter_mut().enumerate() {
            field.view_mut(0)?.fill_with(|cell, component| {
                if owned.contains(cell) { value(cell, component, number) } else { -1.0 }
            });
        }
        exchange.run_blocking()?;
        for (number, field) in exchange.fields().iter().enumerate() {
            let view = field.view(0)?;
            let mut wrong = None;
            for_each_cell(&view.region(), |cell| {
                let there = owned.contains(cell) || filled.iter().any(|target| target.contains(cell));
                for component in 0..view.layout().components() {
                    let expected = if there { value(cell, component, number) } else { -1.0 };
                    if view.component(cell, component) != Some(expected) {
                        wrong = Some((cell.to_vec(), component, view.component(cell, component), expected));
                    }
                }
            });
            assert_eq!(wrong, None, "field {number}, round {round}");
        }
    }
    Ok(())
}

fn for_each_cell(region: &IndexBox, mut visit: impl FnMut(&[i64])) {
    let (lower, upper) = (region.lower(), region.upper());
    for x in lower[0]..upper[0] {
        for y in lower[1]..upper[1] {
            for z in lower[2]..upper[2] {
                visit(&[x, y, z]);
            }
        }
    }
}
