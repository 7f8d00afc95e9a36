//! Measures what it costs to note an access. Run it with `cargo bench -p haloport-cuda-races`.
#![allow(missing_docs, reason = "a benchmark has no interface")]

use std::time::Instant;

use haloport_cuda_races::{Clock, Line, Lines, Shadow, Work};

const BYTES: usize = 1 << 22;

fn main() {
    let mut run = Run { lines: Lines::default(), before: Clock::default(), ended: Vec::new() };
    println!("| size of an access | access | ns | GB/s |");
    println!("| --- | --- | --- | --- |");
    for size in [1, 4, 8, 16] {
        let shadow = Shadow::new("block", BYTES);
        pass(&shadow, "first write", size, true, &run.work());
        pass(&shadow, "write after a write", size, true, &run.work());
        pass(&shadow, "read after a write", size, false, &run.work());
        let work = run.work();
        pass(&shadow, "read after a read", size, false, &work);
        pass(&shadow, "the same read again", size, false, &work);
        let works = [run.unordered(), run.unordered()];
        pass(&shadow, "second read in no order", size, false, &works[0]);
        pass(&shadow, "third read in no order", size, false, &works[1]);
        let work = run.work();
        pass(&shadow, "write after three reads", size, true, &work);
        pass(&shadow, "the same write again", size, true, &work);
        two_arrays(&shadow, size, &run.work());
    }
    for group in [BYTES, 8, 1] {
        let shadow = Shadow::new("block", BYTES);
        let name = if group == BYTES { "16 KiB" } else { &format!("{group} B") };
        pass(&shadow, "(before the next two)", group, true, &run.work());
        pass(&shadow, &format!("write of all, in groups of {name}"), BYTES, true, &run.work());
        pass(&shadow, &format!("read of all, in groups of {name}"), BYTES, false, &run.work());
    }
}

/// Works on lines of their own, which share the places of clocks only as far as they follow each other.
struct Run {
    lines: Lines,
    before: Clock,
    ended: Vec<Line>,
}

impl Run {
    /// A work that follows all works before.
    fn work(&mut self) -> Work {
        for line in &self.ended {
            self.before.join(line.clock());
        }
        self.unordered()
    }

    /// A work that follows those before the last [`work`](Run::work).
    fn unordered(&mut self) -> Work {
        let mut line = self.lines.open(&self.before);
        let work = line.work("work");
        self.ended.push(line);
        work
    }
}

/// Times accesses to the whole block, from its beginning on: the shortest of several times would be one without changes, so
/// it is the only one.
fn pass(shadow: &Shadow, name: &str, size: usize, writes: bool, work: &Work) {
    let start = Instant::now();
    for begin in (0..BYTES).step_by(size) {
        assert!(shadow.access(begin..begin + size, writes, work).is_none());
    }
    report(start, name, size, BYTES / size);
}

/// Times a kernel that reads three elements of one half and writes one of the other half, which are not in one page.
fn two_arrays(shadow: &Shadow, size: usize, work: &Work) {
    let start = Instant::now();
    let half = BYTES / 2;
    for begin in (size..half - size).step_by(size) {
        for from in [begin - size, begin, begin + size] {
            assert!(shadow.access(from..from + size, false, work).is_none());
        }
        assert!(shadow.access(half + begin..half + begin + size, true, work).is_none());
    }
    report(start, "stencil of 3 from one half to the other", size, 4 * (half / size - 2));
}

fn report(start: Instant, name: &str, size: usize, accesses: usize) {
    let nanoseconds = start.elapsed().as_nanos() as f64 / accesses as f64;
    println!("| {size} | {name} | {nanoseconds:.1} | {:.2} |", size as f64 / nanoseconds);
}
