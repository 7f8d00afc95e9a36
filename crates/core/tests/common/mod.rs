//! Shared by the tests of exchanges: a small periodic domain, and refusals that all ranks agree on.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod one_thread;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haloport_core::*;
use haloport_cpu::CpuDevice;

pub(crate) type Failure = haloport_core::Error;
pub(crate) type Numbers = Field<f64, CpuDevice>;

pub(crate) fn device() -> Result<CpuDevice, Failure> {
    Ok(CpuDevice::with_threads(1)?)
}

/// A periodic line with 4 cells on each rank and a halo of 1.
pub(crate) fn line(comm: &Communicator) -> Result<Pattern, Failure> {
    let grid = Grid::new([4 * comm.size()])?.periodic([true])?;
    let split = Split::even(&grid, [comm.size()])?;
    let domain = split.part(comm.rank()).ok_or("no part")?;
    Ok(Pattern::structured(comm, &grid, &[domain], &Halo::uniform(1))?)
}

/// A field on [`line`] whose owned cells hold `round` and their index, the halo -1.
pub(crate) fn prepare(field: &mut Numbers, round: usize) -> Result<(), Failure> {
    let owned = field.layout(0)?.owned();
    field.view_mut(0)?.fill_with(|cell, _| {
        if owned.contains(cell) { (1000 * round) as f64 + cell[0] as f64 } else { -1.0 }
    });
    Ok(())
}

/// Whether the halo holds what the neighbours had in `round`.
pub(crate) fn verify(field: &Numbers, round: usize, ranks: usize) -> Result<(), Failure> {
    let view = field.view(0)?;
    let (lower, upper) = (view.region().lower()[0], view.region().upper()[0]);
    for cell in lower..upper {
        let expected = (1000 * round) as f64 + cell.rem_euclid(4 * ranks as i64) as f64;
        if view.get(&[cell]) != Some(expected) {
            return Err(format!("cell {cell} holds {:?}, expected {expected}", view.get(&[cell])).into());
        }
    }
    Ok(())
}

pub(crate) fn bound(comm: &Communicator, path: DataPath) -> Result<Exchange<Numbers>, Failure> {
    let pattern = line(comm)?;
    let field = Numbers::new(&device()?, &pattern)?;
    Ok(pattern.bind_with(field, BindOptions::default().prefer(path))?)
}

/// Runs `body` on each rank and returns the one text that all of them must end with.
pub(crate) fn refused(ranks: usize, body: impl Fn(&Communicator) -> Result<(), Failure> + Sync) -> String {
    let texts = run_ranks(ranks, |comm| -> Result<String, Failure> {
        let text = body(&comm).expect_err("it was not refused").to_string();
        // Nothing is half done: the next collective call of all ranks is right.
        assert_eq!(comm.all_reduce([1_i64], Reduction::Sum)?, [ranks as i64], "after: {text}");
        Ok(text)
    })
    .unwrap();
    let texts: BTreeSet<String> = texts.into_iter().collect();
    assert_eq!(texts.len(), 1, "the ranks disagree about what is wrong: {texts:#?}");
    texts.into_iter().next().unwrap()
}

/// Lets other ranks stay until one rank has done its work, or has panicked.
#[derive(Default)]
pub(crate) struct Over(AtomicBool);

impl Over {
    /// Runs `work`, and lets [`wait`](Over::wait) return.
    pub(crate) fn after<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Set<'o>(&'o Over);
        impl Drop for Set<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Release);
            }
        }
        let _set = Set(self);
        work()
    }

    pub(crate) fn wait(&self) {
        while !self.0.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
