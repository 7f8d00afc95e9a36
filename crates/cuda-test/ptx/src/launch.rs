//! Running a kernel, one thread after the other.

use std::fmt;

use crate::builder::PLACES;
use crate::memory::{Fault, Memory};
use crate::module::Kernel;
use crate::steps::{Next, Step, Thread};

/// The shape of a launch: blocks, and threads of a block, along x, y and z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub blocks: [u32; 3],
    /// Threads of a block.
    pub threads: [u32; 3],
}

/// A fault, and where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultAt {
    /// The access.
    pub fault: Fault,
    /// The number of the line in the module, from 1 on.
    pub line: u32,
    /// The place of the block.
    pub block: [u32; 3],
    /// The place of the thread in its block.
    pub thread: [u32; 3],
}

impl fmt::Display for FaultAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FaultAt { fault, line, block, thread } = self;
        match fault {
            Fault::Address { address, bytes, writes } => {
                let done = if *writes { "writes" } else { "reads" };
                write!(f, "{done} {bytes} bytes at {address:#x}, where the device has no memory")?;
            }
            Fault::Misaligned { address, bytes } => {
                write!(f, "reads or writes {bytes} bytes at {address:#x}, which is no multiple of that")?;
            }
        }
        write!(f, " (line {line}, block {block:?}, thread {thread:?})")
    }
}

impl std::error::Error for FaultAt {}

impl Kernel {
    /// Runs all threads, block after block. `parameters` are laid out as [`parameters`](Kernel::parameters) says. Ends at the
    /// first fault.
    ///
    /// # Errors
    /// [`FaultAt`]; what was written before stays written.
    pub fn run(&self, grid: Grid, parameters: &[u8], memory: &mut dyn Memory) -> Result<(), FaultAt> {
        let mut thread = Thread {
            registers: self.registers.clone(),
            local: vec![0; self.local_bytes],
            parameters: parameters.to_vec(),
            memory,
        };
        let set = |thread: &mut Thread<'_>, name: &str, place: [u32; 3]| {
            let first = PLACES.iter().position(|known| *known == name).unwrap_or(0) * 3;
            for (register, number) in thread.registers[first..].iter_mut().zip(place) {
                *register = u64::from(number);
            }
        };
        set(&mut thread, "%ntid", grid.threads);
        set(&mut thread, "%nctaid", grid.blocks);
        for block in places(grid.blocks) {
            set(&mut thread, "%ctaid", block);
            for place in places(grid.threads) {
                set(&mut thread, "%tid", place);
                if let Err((fault, line)) = self.run_thread(&mut thread) {
                    return Err(FaultAt { fault, line, block, thread: place });
                }
            }
        }
        Ok(())
    }

    fn run_thread(&self, thread: &mut Thread<'_>) -> Result<(), (Fault, u32)> {
        let mut at = 0;
        while let Some(step) = self.steps.get(at) {
            at += 1;
            let Step { run, guard, .. } = step;
            if guard.is_some_and(|(register, inverse)| (thread.registers[register as usize] != 0) == inverse)
            {
                continue;
            }
            match run(step, thread).map_err(|fault| (fault, step.line))? {
                Next::Step => {}
                Next::At(place) => at = place as usize,
                Next::End => return Ok(()),
            }
        }
        Ok(())
    }
}

/// All places below these, along x first.
fn places([x, y, z]: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    (0..z).flat_map(move |k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k])))
}
