//! Exchanges through memory that the ranks of one node share.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use haloport_core::device::{Combine, Pointer};
use haloport_core::exchange::{BindOptions, Description, Obstacle};
use haloport_core::transport::{Reach, Reduction};
use haloport_core::{
    AnyField, BorrowedField, Communicator, DataPath, ElementType, ExchangeError, Field, FieldError, FieldSet,
    Grid, Halo, Pattern, Schedule, Split, TransportError, View, ViewMut,
};
use haloport_cpu::CpuDevice;

use crate::{Failure, Outcome};

/// The number of cells of each rank, in a ring.
const CELLS: i64 = 4;

/// If a rank has gone, each of its neighbours gets an error at once.
pub(crate) fn gone_neighbour(comm: &Communicator) -> Outcome {
    let (rank, size) = (comm.rank(), comm.size());
    let grid = Grid::new([4 * size])?.periodic([true])?;
    let mine = Split::even(&grid, [size])?.part(rank).ok_or("every rank has a part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    let mut exchange = pattern.bind(Field::<f64, _>::new(&CpuDevice::with_threads(1)?, &pattern)?)?;

    let mut shared = [exchange.traffic().shared_bytes as u64];
    comm.all_reduce(&mut shared, Reduction::Min)?;
    if shared[0] == 0 {
        if rank == 0 && size > 1 {
            println!("skipped: these ranks share no memory");
        }
        return Ok(());
    }
    let first = 4 * rank as i64;
    let value = |cell: i64| cell.rem_euclid(4 * size as i64) as f64;
    exchange
        .fields_mut()
        .view_mut(0)?
        .fill_with(|cell, _| if (first..first + 4).contains(&cell[0]) { value(cell[0]) } else { -1.0 });
    exchange.run_blocking()?;
    for cell in [first - 1, first + 4] {
        assert_eq!(exchange.fields().view(0)?.get(&[cell]), Some(value(cell)));
    }

    let exchange = Some(exchange).filter(|_| rank + 1 < size);
    comm.barrier()?;
    if let Some(mut exchange) = exchange {
        let began = Instant::now();
        let outcome = exchange.run_blocking();
        let neighbours = [(rank + 1) % size, (rank + size - 1) % size];
        let gone = matches!(&outcome, Err(ExchangeError::Transport(TransportError::PeerGaveUp { peer }))
            if neighbours.contains(peer));
        // Other ranks get an error, if any, from its neighbours.
        assert!(gone || outcome.is_ok() && !neighbours.contains(&(size - 1)), "{outcome:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    }
    comm.barrier()?;
    Ok(())
}

/// Cells that cannot be read from the field go through shared memory; without shared memory, they go in messages.
pub(crate) fn fallbacks(comm: &Communicator) -> Outcome {
    let size = comm.size();
    let grid = Grid::new([CELLS as usize * size])?.periodic([true])?;
    let mine = Split::even(&grid, [size])?.part(comm.rank()).ok_or("every rank has a part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    let device = CpuDevice::with_threads(1)?;
    let owned = |shared| Field::<f64, _>::builder(&pattern).node_shared(shared).build(&device);
    let travel = |field, path| travel(&pattern, field, path, Field::view, Field::view_mut);

    let [straight, shared, messages] = [[true, false, false], [false, true, false], [false, false, true]];
    let ways = |found: &Description| {
        let traffic = &found.traffic;
        [traffic.direct_bytes, traffic.shared_bytes, traffic.message_bytes].map(|bytes| bytes > 0)
    };
    // Why cells take no quicker way: the same for all neighbours, in both directions.
    let whys = |found: &Description| -> BTreeSet<Option<String>> {
        found.routes.iter().map(|route| route.why.map(|why: Obstacle| why.to_string())).collect()
    };
    let assert_found = |found: Description, expected, why: Option<Obstacle>| {
        assert_eq!(ways(&found), expected);
        assert_eq!(whys(&found), BTreeSet::from([why.map(|why| why.to_string())]));
    };

    let found = travel(owned(true)?, DataPath::Direct)?;
    // Some ranks of the node share no memory, for example with others in containers.
    let apart = !matches!(comm.info().reach, Reach::Node { apart: None, .. });
    if size == 1 || comm.all_reduce(u64::from(apart), Reduction::Max)? > 0 {
        return Ok(());
    }
    assert_found(found, straight, None);
    assert_found(travel(owned(true)?, DataPath::Shared)?, shared, Some(Obstacle::Asked));
    assert_found(travel(owned(true)?, DataPath::Messages)?, messages, Some(Obstacle::Asked));
    assert_found(travel(owned(false)?, DataPath::Direct)?, shared, Some(Obstacle::SenderMemory));
    let direct = || BindOptions::default().path(DataPath::Direct);
    let refused =
        pattern.bind_with(owned(false)?, direct()).map(|_| ()).err().ok_or("it was not refused")?.to_string();
    assert!(refused.contains("`direct`") && refused.contains("not allocated for sharing"), "{refused}");
    let refused = pattern
        .plan_with(&mut owned(true)?, direct())
        .map(|_| ())
        .err()
        .ok_or("it was not refused")?
        .to_string();
    assert!(refused.contains("memory is passed to each start"), "{refused}");

    let layout = owned(false)?.layout(0)?.clone();
    let mut memory = vec![0.0; CELLS as usize + 2];
    let blocks = vec![(Pointer::new(memory.as_mut_ptr().cast()), layout.clone())];
    // SAFETY: the memory is long enough, initialised and aligned, and its owner lives as long as the field; nothing
    // else uses it.
    let raw = unsafe { Field::from_raw(&device, blocks, true, Box::new(memory)) };
    assert_found(travel(raw, DataPath::Direct)?, shared, Some(Obstacle::SenderMemory));

    let lent = |path| {
        let mut memory = vec![0.0; CELLS as usize + 2];
        let field = BorrowedField::new(&device, vec![(&mut memory[..], layout.clone())])?;
        self::travel(&pattern, field, path, BorrowedField::view, BorrowedField::view_mut)
    };
    assert_found(lent(DataPath::Direct)?, shared, Some(Obstacle::ReceiverMemory));

    // From here on no rank can make files, so there is no shared memory.
    comm.barrier()?;
    let before = limit_of_files(None)?;
    limit_of_files(Some(0))?;
    let kinds = [DataPath::Quickest, DataPath::Direct, DataPath::Shared]
        .map(|path| Ok::<_, Failure>([travel(owned(true)?, path)?, lent(path)?]));
    limit_of_files(Some(before))?;
    for found in kinds.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        assert_found(found, messages, Some(Obstacle::Refused));
    }
    comm.barrier()?;

    // Only every other rank can make and open files: its neighbours learn that, and send messages too.
    for out in [0, 1] {
        let without = comm.rank() % 2 == out;
        if without {
            limit_of_files(Some(0))?;
        }
        let kinds = [DataPath::Quickest, DataPath::Direct, DataPath::Shared]
            .map(|path| Ok::<_, Failure>([travel(owned(true)?, path)?, lent(path)?]));
        limit_of_files(Some(before))?;
        for found in kinds.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            // In a ring of an even number of ranks, every neighbour of a rank that can is one that cannot.
            if without || size.is_multiple_of(2) {
                assert_eq!(found.traffic.path(), "messages");
                assert_found(found, messages, Some(Obstacle::Refused));
            }
        }
        comm.barrier()?;
    }
    // Shared memory is available again.
    assert_found(travel(owned(true)?, DataPath::Direct)?, straight, None);
    Ok(())
}

/// Processes that outnumber the cores pack few cells into shared memory, and copy many straight, unless they ask for a path.
pub(crate) fn in_turns(comm: &Communicator) -> Outcome {
    let apart = !matches!(comm.info().reach, Reach::Node { apart: None, .. });
    if !comm.info().crowded || comm.all_reduce(u64::from(apart), Reduction::Max)? > 0 {
        return Ok(());
    }
    let ranks = comm.size();
    let device = CpuDevice::with_threads(1)?;
    let routes = |cells: usize, options| {
        let grid = Grid::new([ranks, cells])?;
        let row = Split::even(&grid, [ranks, 1])?.part(comm.rank()).ok_or("every rank has a part")?;
        let pattern = Pattern::structured(comm, &grid, &[row], &Halo::per_axis([1, 0]))?;
        let exchange = pattern.bind_with(Field::<f64, _>::new(&device, &pattern)?, options)?;
        let routes = exchange.describe().routes;
        Ok::<_, Failure>(routes.iter().map(|route| (route.path, route.why)).collect::<Vec<_>>())
    };
    // So few that the distance of the cores does not count.
    let few = routes(1_000, BindOptions::default())?;
    assert!(few.iter().all(|it| *it == (DataPath::Shared, Some(Obstacle::Quicker))), "{few:?}");
    let asked = routes(16, BindOptions::default().path(DataPath::Direct))?;
    assert!(asked.iter().all(|it| *it == (DataPath::Direct, None)), "{asked:?}");
    // Between far cores, they are packed as well.
    let many = routes(50_000, BindOptions::default())?;
    let straight = |(path, why): &(DataPath, Option<Obstacle>)| *path == DataPath::Direct && why.is_none();
    assert!(many.iter().all(|it| straight(it) || it.0 == DataPath::Shared), "{many:?}");
    Ok(())
}

/// A field without levels: no rank waits for a neighbour that has started, though there is nothing to copy. Every
/// other rank starts before its neighbours, and calls nothing more before they have finished.
pub(crate) fn nothing_to_copy(comm: &Communicator, outside: &Communicator) -> Outcome {
    let grid = Grid::new([CELLS as usize * comm.size()])?.periodic([true])?;
    let mine = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("every rank has a part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    let field = Field::<f64, _>::builder(&pattern).further_axes([0]).build(&CpuDevice::with_threads(1)?)?;
    let mut exchange = pattern.bind(field)?;
    let limit = comm.time_limit();
    comm.set_time_limit(Some(Duration::from_secs(20)));
    for turn in 0..4 {
        if (comm.rank() + turn).is_multiple_of(2) {
            outside.barrier()?;
            exchange.run()?;
            outside.barrier()?;
        } else {
            let pending = exchange.start()?;
            outside.barrier()?;
            outside.barrier()?;
            pending.finish()?;
        }
    }
    comm.set_time_limit(limit);
    Ok(())
}

/// Two exchanges of one memory take turns, and read it in place.
pub(crate) fn handles(comm: &Communicator) -> Outcome {
    let (size, first) = (comm.size() as i64, CELLS * comm.rank() as i64);
    let grid = Grid::new([CELLS as usize * comm.size()])?.periodic([true])?;
    let mine = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("every rank has a part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    let device = CpuDevice::with_threads(1)?;
    let mut field = AnyField::builder(&pattern).build_any(&device, ElementType::F64)?;
    // SAFETY: no view lives while another handle is used, and no exchange is in flight while cells are.
    let (one, other) = unsafe { (field.share(), field.share()) };
    let direct = || BindOptions::default().prefer(DataPath::Direct);
    let mut exchanges = [pattern.bind_with(one, direct())?, pattern.bind_with(other, direct())?];
    let direct = exchanges.each_ref().map(|exchange| exchange.traffic().direct_bytes);
    assert_eq!(direct[0], direct[1], "both exchanges take the same path");
    let shared = exchanges.each_ref().map(|exchange| exchange.traffic().shared_bytes);
    assert_eq!(shared, [0; 2], "fields that neighbours can map are not packed");
    for round in 0..6 {
        let value = |cell: i64| (cell.rem_euclid(CELLS * size) + 1000 * round) as f64;
        let inside = first..first + CELLS;
        field
            .view_mut::<f64>(0)?
            .fill_with(|cell, _| if inside.contains(&cell[0]) { value(cell[0]) } else { f64::NAN });
        let [one, other] = &mut exchanges;
        let (now, later) = if round % 2 == 0 { (one, other) } else { (other, one) };
        let ticket = now.start_detached(Schedule::Blocking)?;
        assert_eq!(later.start_detached(Schedule::Blocking), Err(ExchangeError::InFlightElsewhere));
        now.finish(ticket, Schedule::Blocking)?;
        for cell in first - 1..=first + CELLS {
            assert_eq!(field.view::<f64>(0)?.get(&[cell]), Some(value(cell)), "round {round}");
        }
    }
    comm.barrier()?;
    Ok(())
}

/// The number of cells of a rank in memory of the program, and of its halo on either side: several pages, which have up to 64 KiB.
const MANY: i64 = 1 << 16;
const WIDE: i64 = 1 << 14;

/// Neighbours copy straight from memory of the program, whose pages a bound exchange moves, and several exchanges of it. Afterwards
/// it is memory of this process alone again.
pub(crate) fn moved(comm: &Communicator) -> Outcome {
    let apart = !matches!(comm.info().reach, Reach::Node { apart: None, .. });
    if comm.size() == 1 || comm.all_reduce(u64::from(apart), Reduction::Max)? > 0 {
        return Ok(());
    }
    let (size, first) = (comm.size() as i64, MANY * comm.rank() as i64);
    let grid = Grid::new([MANY as usize * comm.size()])?.periodic([true])?;
    let mine = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("every rank has a part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(WIDE as usize))?;
    let device = CpuDevice::with_threads(1)?;
    let layout = AnyField::builder(&pattern).build_any(&device, ElementType::F64)?.layout(0)?.clone();
    let mut memory = vec![0.0; (MANY + 2 * WIDE) as usize];
    let value = |cell: i64, round: i64| (cell.rem_euclid(MANY * size) + 10_000_000 * round) as f64;
    // Other threads of the program may have moved memory next to this.
    let pages = (memory.as_ptr().addr() + (1 << 16), memory.as_ptr_range().end.addr() - (1 << 16));
    let field = |memory: &mut Vec<f64>| {
        let blocks = vec![(Pointer::new(memory.as_mut_ptr().cast()), layout.clone())];
        // SAFETY: the memory is as long as the layout, initialised and aligned, and outlives the exchanges; nothing uses it while
        // they are made, started or dropped.
        unsafe { AnyField::from_raw_movable(&device, ElementType::F64, blocks, true, Box::new(())) }
    };
    let fill = |memory: &mut Vec<f64>, round: i64| {
        for (cell, place) in (first - WIDE..).zip(memory.iter_mut()) {
            *place = if (first..first + MANY).contains(&cell) { value(cell, round) } else { f64::NAN };
        }
    };
    let check = |memory: &[f64], round: i64| {
        let wrong = (first - WIDE..).zip(memory).find(|(cell, found)| **found != value(*cell, round));
        assert_eq!(wrong, None, "round {round}");
    };
    fill(&mut memory, 0);
    let direct = || BindOptions::default().path(DataPath::Direct);
    let mut one = pattern.bind_with(field(&mut memory), direct())?;
    let mut other = pattern.bind_with(field(&mut memory), direct())?;
    // The content has stayed.
    assert_eq!(memory[WIDE as usize], value(first, 0));
    for round in 0..3 {
        fill(&mut memory, round);
        let exchange = if round == 1 { &mut other } else { &mut one };
        exchange.run_blocking()?;
        check(&memory, round);
    }
    assert_eq!(mappings(pages)?, ["/memfd:haloport (deleted)"]);
    drop(one);
    assert_eq!(mappings(pages)?, ["/memfd:haloport (deleted)"]);
    drop(other);
    assert!(mappings(pages)?.iter().all(|name| !name.contains("memfd")), "{:?}", mappings(pages)?);
    check(&memory, 2);

    // Rank 0 has memory of a file, which is not moved: all ranks get the reason, and what they have moved goes back.
    let path = std::env::temp_dir().join(format!("haloport-moved-{}", std::process::id()));
    let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.set_len(size_of_val(&memory[..]) as u64)?;
    let (read_write, bytes) = (libc::PROT_READ | libc::PROT_WRITE, size_of_val(&memory[..]));
    // SAFETY: the system chooses addresses that are not in use.
    let of_file = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, read_write, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
    };
    assert_ne!(of_file, libc::MAP_FAILED);
    let blocks = vec![(Pointer::new(of_file.cast()), layout.clone())];
    // SAFETY: the memory is as long as the layout, and is unmapped below.
    let of_file_field =
        unsafe { AnyField::from_raw_movable(&device, ElementType::F64, blocks, true, Box::new(())) };
    let refused = match comm.rank() {
        0 => pattern.bind(of_file_field),
        _ => pattern.bind(field(&mut memory)),
    };
    let refused = refused.err().ok_or("it was not refused")?.to_string();
    let expected = "field 0 has memory that neighbours cannot map: it is memory of the file ";
    assert!(refused.contains(expected), "{refused}");
    // SAFETY: nothing uses the mapping any more.
    unsafe { libc::munmap(of_file, bytes) };
    assert!(mappings(pages)?.iter().all(|name| !name.contains("memfd")), "{:?}", mappings(pages)?);
    check(&memory, 2);
    Ok(())
}

/// Of a large array, only pages that neighbours read in either direction are moved: those of the planes at both ends and of the halo
/// beside them.
pub(crate) fn moved_in_part(comm: &Communicator) -> Outcome {
    const PLANES: usize = 128;
    const CELLS: usize = 8192;
    let apart = !matches!(comm.info().reach, Reach::Node { apart: None, .. });
    if comm.size() == 1 || comm.all_reduce(u64::from(apart), Reduction::Max)? > 0 {
        return Ok(());
    }
    let grid = Grid::new([PLANES * comm.size(), CELLS])?.periodic([true, false])?;
    let mine = Split::even(&grid, [comm.size(), 1])?.part(comm.rank()).ok_or("every rank has a part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::per_axis([1, 0]))?;
    let device = CpuDevice::with_threads(1)?;
    let layout = AnyField::builder(&pattern).build_any(&device, ElementType::F64)?.layout(0)?.clone();
    let mut memory = vec![comm.rank() as f64; (PLANES + 3) * CELLS];
    // At the first byte of a page of up to 64 KiB, since neighbours read the first cell of the halo, too.
    let aligned = memory.as_ptr().align_offset(1 << 16);
    let memory = &mut memory[aligned..aligned + (PLANES + 2) * CELLS];
    let begin = memory.as_mut_ptr();
    let field = || {
        let blocks = vec![(Pointer::new(begin.cast()), layout.clone())];
        // SAFETY: the memory is as long as the layout, initialised and aligned, and outlives the exchanges; nothing uses it while
        // they are made, started or dropped.
        unsafe { AnyField::from_raw_movable(&device, ElementType::F64, blocks, true, Box::new(())) }
    };
    let mut fill = pattern.bind_with(field(), BindOptions::default().path(DataPath::Direct))?;
    let add = BindOptions::default().path(DataPath::Direct).accumulate(Combine::Sum);
    let mut add = pattern.bind_with(field(), add)?;
    fill.run_blocking()?;
    add.run_blocking()?;
    let (before, after) = (comm.rank() + comm.size() - 1, comm.rank() + 1);
    let expected = |plane: usize| match plane {
        0 => before % comm.size(),
        1 | PLANES => 2 * comm.rank(),
        _ if plane > PLANES => after % comm.size(),
        _ => comm.rank(),
    };
    for (plane, found) in memory.chunks(CELLS).enumerate() {
        assert!(found.iter().all(|value| *value == expected(plane) as f64), "plane {plane}: {}", found[0]);
    }
    let plane = |number: usize| memory[number * CELLS..].as_ptr().addr();
    for (planes, moved) in [(1..2, true), (8..PLANES - 8, false)] {
        let found = mappings((plane(planes.start), plane(planes.end)))?;
        let as_expected = found.iter().all(|name| name.starts_with("/memfd:haloport") == moved);
        assert!(as_expected && !found.is_empty(), "{planes:?}: {found:?}");
    }
    Ok(())
}

/// The names of the files that are mapped at some of these addresses; "" for memory without one.
fn mappings((begin, end): (usize, usize)) -> Result<Vec<String>, Failure> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mapping = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let (from, to) = (usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?);
        (from < end && begin < to).then(|| words.skip(4).collect::<Vec<_>>().join(" "))
    };
    Ok(maps.lines().filter_map(mapping).collect())
}

/// Exchanges a field of the ring three times, and checks its halo each time.
fn travel<F: FieldSet>(
    pattern: &Pattern,
    field: F,
    path: DataPath,
    view: impl Fn(&F, usize) -> Result<View<'_, f64>, FieldError>,
    view_mut: impl Fn(&mut F, usize) -> Result<ViewMut<'_, f64>, FieldError>,
) -> Result<Description, Failure> {
    let (first, all) = (CELLS * pattern.comm().rank() as i64, CELLS * pattern.comm().size() as i64);
    let mut exchange = pattern.bind_with(field, BindOptions::default().prefer(path))?;
    for round in 0..3 {
        let value = |cell: i64| (cell.rem_euclid(all) + 1000 * round) as f64;
        let inside = first..first + CELLS;
        view_mut(exchange.fields_mut(), 0)?
            .fill_with(|cell, _| if inside.contains(&cell[0]) { value(cell[0]) } else { f64::NAN });
        exchange.run_blocking()?;
        for cell in first - 1..=first + CELLS {
            assert_eq!(view(exchange.fields(), 0)?.get(&[cell]), Some(value(cell)), "{path}");
        }
    }
    Ok(exchange.describe())
}

/// Returns the number of files that this process may open, and sets it to `to`.
fn limit_of_files(to: Option<u64>) -> Result<u64, Failure> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is written to a variable of its type.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let before = limit.rlim_cur;
    if let Some(to) = to {
        limit.rlim_cur = to;
        // SAFETY: the limit is read from a variable of its type.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
    }
    Ok(before)
}
