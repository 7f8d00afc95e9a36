//! Finds races: two accesses to the same byte of memory, at least one of which writes, in works that do not wait for each
//! other. A run that makes both accesses shows the race, whichever comes first. For tests of the CUDA backend without a GPU.
//!
//! - `clock`: [`Clock`], the works that must have ended at some point of a run;
//! - `works`: [`Work`], a kernel, a copy or an access of the host, and sets of works;
//! - `lines`: [`Line`], a stream, a network adapter or a thread of the host; [`Lines`] opens them;
//! - `shadow`: [`Shadow`], the works that last wrote and read each byte of a block of memory;
//! - `race`: [`Race`], the two accesses;
//! - `reports`: [`Reports`], races without repetitions;
//! - `words`: [`Words`], words of memory by which lines wait for each other;
//! - `table`, `lock`: a list that grows while others read it, and locks.
//!
//! The works of a line are ordered. A line waits for another by [`Line::join`], with the clock that the other one had when it
//! recorded an event, wrote a word or made a call. All clocks, works and shadows of a run belong to one [`Lines`].
//!
//! ```text
//! let lines = Lines::default();
//! let shadow = Shadow::new("field", 64);
//! let mut stream = lines.open(&Clock::default());
//! let copy = stream.work("copy of the halo");
//! shadow.access(0..64, true, &copy);      // None
//! let event = stream.clock().clone();
//!
//! let mut other = lines.open(&Clock::default());
//! other.join(&event);                     // Without it, the access below is a race.
//! let kernel = other.work("kernel of the interior");
//! shadow.access(8..16, false, &kernel);   // None
//! ```

#![warn(missing_docs)]

mod clock;
mod lines;
mod lock;
mod race;
mod reports;
mod shadow;
mod table;
mod words;
mod works;

pub use clock::Clock;
pub use lines::{Line, Lines};
pub use race::{Access, Race};
pub use reports::Reports;
pub use shadow::Shadow;
pub use words::Words;
pub use works::Work;
