//! The time that several spans cover together.

/// Intervals that do not touch, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Intervals(Vec<(u64, u64)>);

impl Intervals {
    /// The union of intervals, each given by its start and its end.
    pub(super) fn covering(intervals: impl IntoIterator<Item = (u64, u64)>) -> Intervals {
        let mut sorted: Vec<(u64, u64)> = intervals.into_iter().collect();
        sorted.sort_unstable();
        let mut covered: Vec<(u64, u64)> = Vec::new();
        for (begin, end) in sorted {
            match covered.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => covered.push((begin, end)),
            }
        }
        Intervals(covered)
    }

    /// The intersection with `other`.
    pub(super) fn intersection(&self, other: &Intervals) -> Intervals {
        let mut both = Vec::new();
        let (mut mine, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(&&(begin, end)), Some(&&(other_begin, other_end))) = (mine.peek(), others.peek()) {
            let common = (begin.max(other_begin), end.min(other_end));
            if common.0 < common.1 {
                both.push(common);
            }
            if end < other_end {
                mine.next()
            } else {
                others.next()
            };
        }
        Intervals(both)
    }

    /// The covered time of each window.
    pub(super) fn lengths_in(&self, windows: &[(u64, u64)]) -> Vec<u64> {
        let of_window = |&(begin, end): &(u64, u64)| {
            let first = self.0.partition_point(|interval| interval.1 <= begin);
            let inside = self.0[first..].iter().take_while(|interval| interval.0 < end);
            inside.map(|interval| interval.1.min(end) - interval.0.max(begin)).sum()
        };
        windows.iter().map(of_window).collect()
    }

    /// Whether a moment is covered.
    pub(super) fn contains(&self, at: u64) -> bool {
        let first = self.0.partition_point(|interval| interval.1 <= at);
        self.0.get(first).is_some_and(|interval| interval.0 <= at)
    }

    /// The total length.
    pub(super) fn length(&self) -> u64 {
        self.0.iter().map(|(begin, end)| end - begin).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The covered points, one by one.
    fn points(intervals: &Intervals) -> Vec<u64> {
        (0..40).filter(|at| intervals.0.iter().any(|(begin, end)| begin <= at && at < end)).collect()
    }

    #[test]
    fn unions_and_intersections_are_those_of_points() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let mut some = || -> Vec<(u64, u64)> {
                let count = random(6);
                (0..count)
                    .map(|_| (random(30), random(10)))
                    .map(|(begin, length)| (begin, begin + length))
                    .collect()
            };
            let (one, other) = (some(), some());
            let inside =
                |all: &[(u64, u64)], at: u64| all.iter().any(|(begin, end)| (*begin..*end).contains(&at));
            let (covered, others) = (Intervals::covering(one.clone()), Intervals::covering(other.clone()));
            let expected: Vec<u64> = (0..40).filter(|&at| inside(&one, at)).collect();
            assert_eq!(points(&covered), expected, "{one:?}");
            assert_eq!(covered.length(), expected.len() as u64);
            let window = (random(20), 25);
            let in_window = expected.iter().filter(|at| (window.0..window.1).contains(*at)).count() as u64;
            assert_eq!(covered.lengths_in(&[window]), [in_window], "{one:?} {window:?}");
            assert!((0..40).all(|at| covered.contains(at) == expected.contains(&at)), "{one:?}");
            let both: Vec<u64> = expected.into_iter().filter(|&at| inside(&other, at)).collect();
            let common = covered.intersection(&others);
            assert_eq!(
                (points(&common), common.length()),
                (both.clone(), both.len() as u64),
                "{one:?} {other:?}"
            );
        }
    }
}
