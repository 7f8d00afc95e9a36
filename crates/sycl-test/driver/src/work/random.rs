//! Random numbers that a seed determines.

/// A sequence of random numbers (Marsaglia, "Xorshift RNGs", 2003).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Each `sequence` of a seed has numbers of its own.
    pub(crate) fn new(seed: u64, sequence: u64) -> Random {
        let mixed = (seed ^ sequence.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = Random(mixed | 1);
        // The first numbers of similar states are similar.
        for _ in 0..8 {
            random.next();
        }
        random
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
