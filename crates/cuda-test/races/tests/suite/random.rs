//! Random histories, beside a simple oracle: works as the nodes of a graph, with an edge to each from those that it directly
//! follows. One work follows another if a path leads to it.
//!
//! The oracle keeps all accesses to each byte. The shadow must find a race at an access exactly if, at one of its bytes, the
//! last write or a read since then races with it. The oracle also compares with all earlier accesses, and checks that the two
//! agree until the first race of a byte: so the first one is always found.

use std::collections::BTreeSet;
use std::ops::Range;

use haloport_cuda_races::{Clock, Line, Lines, Shadow, Words, Work};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The works that the next work of a line directly follows.
type Follows = BTreeSet<usize>;

/// By work, those that it directly follows.
#[derive(Default)]
struct Graph(Vec<Follows>);

impl Graph {
    /// Whether a path leads from one work to another, or they are the same.
    fn leads(&self, from: usize, to: usize) -> bool {
        // A work follows only works with smaller numbers.
        from == to || from < to && self.0[to].iter().any(|&before| self.leads(from, before))
    }
}

/// An access to a byte, in the order of the run.
struct Accessed {
    node: usize,
    writes: bool,
}

/// Those of these accesses that race with one of `node`.
fn racing<'a>(graph: &Graph, earlier: &'a [Accessed], node: usize, writes: bool) -> Vec<&'a Accessed> {
    earlier.iter().filter(|it| (it.writes || writes) && !graph.leads(it.node, node)).collect()
}

/// The last write, and all accesses since then.
fn since_last_write(earlier: &[Accessed]) -> &[Accessed] {
    &earlier[earlier.iter().rposition(|it| it.writes).unwrap_or(0)..]
}

/// A line, and the same for the oracle.
struct Pair {
    line: Line,
    follows: Follows,
    /// The work that runs, and its node.
    running: Option<(Work, usize)>,
}

impl Pair {
    fn new(lines: &Lines, clock: &Clock, follows: Follows) -> Pair {
        Pair { line: lines.open(clock), follows, running: None }
    }

    /// The clock of the line, after its last work.
    fn clock(&mut self) -> (Clock, Follows) {
        self.running = None;
        (self.line.clock().clone(), self.follows.clone())
    }

    fn join(&mut self, (clock, follows): &(Clock, Follows)) {
        self.running = None;
        self.line.join(clock);
        self.follows.extend(follows);
    }

    /// The work that runs; if there is none, a new one.
    fn work(&mut self, graph: &mut Graph) -> (&Work, usize) {
        let Pair { line, follows, running } = self;
        let (work, node) = running.get_or_insert_with(|| {
            let node = graph.0.len();
            graph.0.push(std::mem::replace(follows, [node].into()));
            (line.work(node.to_string()), node)
        });
        (work, *node)
    }
}

/// A range with sides at multiples of powers of 2, or anywhere, often over the end of a page.
fn range(random: &mut StdRng, bytes: usize) -> Range<usize> {
    let step = 1 << random.random_range(0..5);
    let size = step * random.random_range(1..5);
    let near = if bytes > 16_384 && random.random_bool(0.5) { 16_384 } else { random.random_range(0..bytes) };
    let begin = (near.saturating_sub(random.random_range(0..48)) / step * step).min(bytes - 1);
    begin..(begin + size).min(bytes)
}

/// Returns the number of accesses with a race, and without.
fn history(seed: u64) -> [usize; 2] {
    let mut random = StdRng::seed_from_u64(seed);
    let bytes = if random.random_bool(0.1) { 16_384 + 40 } else { random.random_range(1..80) };
    let lines = Lines::default();
    let shadow = Shadow::new("block", bytes);
    let words = Words::default();
    let mut word = Follows::new();
    let mut event = (Clock::default(), Follows::new());
    let mut graph = Graph::default();
    let mut earlier: Vec<Vec<Accessed>> = (0..bytes).map(|_| Vec::new()).collect();
    let mut clean = vec![true; bytes];
    let mut pairs: Vec<Pair> = Vec::new();
    for _ in 0..random.random_range(2..6) {
        pairs.push(Pair::new(&lines, &Clock::default(), Follows::new()));
    }
    // Few joins make many races; with many, the first race is late.
    let joins = random.random_range(0.1..0.9);
    let mut counts = [0; 2];
    for step in 0..random.random_range(4..60) {
        let at = random.random_range(0..pairs.len());
        if random.random_bool(joins) {
            let from = random.random_range(0..pairs.len());
            match random.random_range(0..8) {
                0 => event = pairs[from].clock(),
                1 => pairs[at].join(&event),
                2 => {
                    let (clock, follows) = pairs[from].clock();
                    words.release(8, 1, &clock);
                    word.extend(follows);
                }
                3 => pairs[at].join(&(words.acquire(8), word.clone())),
                4 => {
                    // Ends one line, and opens another that follows a third.
                    pairs[at].running = None;
                    let (clock, follows) = pairs[from].clock();
                    drop(pairs.swap_remove(at));
                    pairs.push(Pair::new(&lines, &clock, follows));
                }
                5 => pairs[at].running = None,
                _ => {
                    let other = pairs[from].clock();
                    pairs[at].join(&other);
                }
            }
            continue;
        }
        let writes = random.random_bool(0.5);
        let range = range(&mut random, bytes);
        let (work, node) = pairs[at].work(&mut graph);
        let found = shadow.access(range.clone(), writes, work);
        let what = format!("history {seed}, step {step}, {range:?}, {found:?}");

        let mut expected = None;
        for byte in range {
            let races = racing(&graph, since_last_write(&earlier[byte]), node, writes);
            if clean[byte] {
                clean[byte] = racing(&graph, &earlier[byte], node, writes).is_empty();
                assert_eq!(clean[byte], races.is_empty(), "{what}: byte {byte}");
            }
            if expected.is_none() && !races.is_empty() {
                let names: Vec<_> = races.iter().map(|it| (it.node.to_string(), it.writes)).collect();
                expected = Some((byte, names));
            }
            earlier[byte].push(Accessed { node, writes });
        }
        counts[usize::from(found.is_none())] += 1;
        match (found, expected) {
            (None, None) => {}
            (Some(found), Some((byte, names))) => {
                assert_eq!(found.offset, byte, "{what}");
                assert!(names.contains(&(found.earlier.work.to_string(), found.earlier.writes)), "{what}");
                assert_eq!((&*found.later.work, found.later.writes), (&*node.to_string(), writes), "{what}");
            }
            (found, expected) => panic!("{what}: found {found:?}, expected {expected:?}"),
        }
    }
    counts
}

#[test]
fn random_histories_agree_with_a_simple_oracle() {
    let mut counts = [0; 2];
    for seed in 0..20_000 {
        let [with, without] = history(seed);
        counts[0] += with;
        counts[1] += without;
    }
    // Both are frequent.
    assert!(counts.iter().all(|&count| count > 50_000), "{counts:?}");
}
