//! Ranks as threads of a program on an asynchronous device: a rank ends while others wait behind gates for its halos, or
//! copy them.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use haloport_conformance::queued::Queued;
use haloport_core::device::{Device as _, Priority};
use haloport_core::{
    BindOptions, Communicator, DataPath, Exchange, Field, Grid, Halo, Pattern, Split, TransportError, threads,
};
use haloport_cpu::CpuDevice;

type Numbers = Field<i64, Queued<CpuDevice>>;

const SOON: Duration = Duration::from_secs(20);

/// Runs `body` on ranks 0 and 1, each a thread of its own; `true` if rank 1 panicked. No wait ends by its time limit.
fn on_two_threads(body: impl Fn(Communicator) + Sync) -> bool {
    let (began, body) = (Instant::now(), &body);
    let panicked = thread::scope(|scope| {
        let start = |comm: Communicator| {
            comm.set_time_limit(Some(Duration::from_secs(60)));
            scope.spawn(move || body(comm))
        };
        let started: Vec<_> = threads(2).unwrap().into_iter().map(start).collect();
        let mut ended = started.into_iter().map(|rank| rank.join());
        ended.next().unwrap().unwrap();
        ended.next().unwrap().is_err()
    });
    assert!(began.elapsed() < SOON, "it took {:?}", began.elapsed());
    panicked
}

/// A periodic line of `cells` cells on each rank, with halos of half as many.
fn bound(comm: &Communicator, device: &Queued<CpuDevice>, path: DataPath, cells: usize) -> Exchange<Numbers> {
    let grid = Grid::new([2 * cells]).unwrap().periodic([true]).unwrap();
    let mine = Split::even(&grid, [2]).unwrap().part(comm.rank()).unwrap();
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(cells / 2)).unwrap();
    let mut field = Numbers::new(device, &pattern).unwrap();
    field.view_mut(0).unwrap().fill_with(|_, _| comm.rank() as i64);
    pattern.bind_with(field, BindOptions::default().prefer(path)).unwrap()
}

/// Whether the halo of rank 0 holds the number of rank 1.
fn is_filled(exchange: &Exchange<Numbers>, cells: usize) -> bool {
    let values = exchange.fields().to_vec(0).unwrap();
    let (below, above) = (&values[..cells / 2], &values[cells / 2 + cells..]);
    below.iter().chain(above).all(|value| *value == 1)
}

#[test]
fn an_exchange_behind_gates_ends_with_a_neighbour() {
    let device = Queued::new(&CpuDevice::with_threads(1).unwrap()).unwrap();
    for path in [DataPath::Messages, DataPath::Direct] {
        for later in [false, true] {
            on_two_threads(|comm| {
                let stream = device.create_stream(Priority::Normal).unwrap();
                let mut exchange = bound(&comm, &device, path, 1024);
                let run = |exchange: &mut Exchange<Numbers>| exchange.start_on(&stream)?.finish_on(&stream);
                run(&mut exchange).unwrap();
                if comm.rank() == 1 {
                    // Dropped behind the gate: it is completed first.
                    if later {
                        exchange.synchronize().unwrap();
                        thread::sleep(Duration::from_millis(30));
                    }
                    return;
                }
                device.synchronize(&stream).unwrap();
                assert!(is_filled(&exchange, 1024));
                let ended = run(&mut exchange);
                device.synchronize(&stream).unwrap();
                let error = ended.and_then(|()| exchange.complete()).unwrap_err();
                assert!(error.to_string().contains("rank 1"), "{path:?}: {error}");
                assert_eq!(comm.barrier().unwrap_err(), TransportError::PeerEnded { rank: 1 });
            });
        }
    }
}

/// Rank 1 panics while rank 0 may be copying from its field, which is freed: rank 0 has all of the halo, or an error.
#[test]
fn the_field_of_a_rank_that_ends_is_copied_whole_or_not_at_all() {
    const CELLS: usize = 1 << 16;
    let device = Queued::new(&CpuDevice::with_threads(1).unwrap()).unwrap();
    let mut filled = 0;
    for case in 0..40u64 {
        let path = [DataPath::Messages, DataPath::Direct][case as usize % 2];
        let (begin, outcome) = (Barrier::new(2), std::sync::Mutex::new(None));
        let panicked = on_two_threads(|comm| {
            let mut exchange = bound(&comm, &device, path, CELLS);
            begin.wait();
            if comm.rank() == 1 {
                let _pending = exchange.start().unwrap();
                thread::sleep(Duration::from_micros(case / 2 * 20));
                // Drops the pending exchange, the exchange with its field, and the communicator.
                resume_unwind(Box::new("out of fish"));
            }
            let ended = exchange.run_blocking();
            if let Err(error) = &ended {
                assert!(error.to_string().contains("rank 1"), "{error}");
            } else {
                assert!(is_filled(&exchange, CELLS));
            }
            *outcome.lock().unwrap() = Some(ended.is_ok());
        });
        assert!(panicked);
        filled += usize::from(outcome.lock().unwrap().unwrap());
    }
    println!("{filled} of 40 exchanges were completed");
}
