//! Accesses that are ordered, and those that are not.

use haloport_cuda_races::{Access, Clock, Line, Lines, Race, Reports, Shadow, Words};

const READ: bool = false;
const WRITE: bool = true;

/// Lines that begin without an order.
fn lines<const N: usize>() -> [Line; N] {
    let lines = Lines::default();
    std::array::from_fn(|_| lines.open(&Clock::default()))
}

/// The race of these two accesses.
fn race(offset: usize, earlier: (&str, bool), later: (&str, bool)) -> Option<Race> {
    let access = |(work, writes): (&str, bool)| Access { work: work.into(), writes };
    Some(Race { block: "field".into(), offset, earlier: access(earlier), later: access(later) })
}

#[test]
fn accesses_without_an_order_are_found_if_one_writes() {
    for (first, second) in [(WRITE, WRITE), (WRITE, READ), (READ, WRITE), (READ, READ)] {
        let [mut a, mut b] = lines();
        let shadow = Shadow::new("field", 64);
        assert_eq!(shadow.access(8..16, first, &a.work("a")), None);
        let found = shadow.access(8..16, second, &b.work("b"));
        let expected = if first || second { race(8, ("a", first), ("b", second)) } else { None };
        assert_eq!(found, expected, "{first} {second}");
    }
}

#[test]
fn accesses_of_one_line_are_ordered() {
    let [mut a] = lines();
    let shadow = Shadow::new("field", 64);
    for writes in [WRITE, READ, WRITE, WRITE, READ, READ, WRITE] {
        assert_eq!(shadow.access(0..64, writes, &a.work("a")), None);
    }
}

#[test]
fn a_join_orders_the_works_until_then() {
    for (first, second) in [(WRITE, WRITE), (WRITE, READ), (READ, WRITE)] {
        let [mut a, mut b, mut c] = lines();
        let shadow = Shadow::new("field", 64);
        assert_eq!(shadow.access(0..8, first, &a.work("before")), None);
        let event = a.clock().clone();
        assert_eq!(shadow.access(8..16, first, &a.work("after")), None);
        b.join(&event);
        // By way of another line, whose work touches nothing.
        b.work("between");
        c.join(b.clock());
        let work = c.work("c");
        assert_eq!(shadow.access(0..8, second, &work), None);
        assert_eq!(shadow.access(8..16, second, &work), race(8, ("after", first), ("c", second)));
    }
}

#[test]
fn a_writer_must_follow_every_reader() {
    for followed in [0, 1] {
        let [first, second, mut writer] = lines();
        let mut readers = [first, second];
        let shadow = Shadow::new("field", 64);
        for (line, name) in readers.iter_mut().zip(["reader 0", "reader 1"]) {
            assert_eq!(shadow.access(0..4, READ, &line.work(name)), None);
        }
        writer.join(readers[followed].clock());
        let other = ["reader 1", "reader 0"][followed];
        assert_eq!(
            shadow.access(0..4, WRITE, &writer.work("writer")),
            race(0, (other, READ), ("writer", WRITE))
        );

        let shadow = Shadow::new("field", 64);
        for (line, name) in readers.iter_mut().zip(["reader 0", "reader 1"]) {
            assert_eq!(shadow.access(0..4, READ, &line.work(name)), None);
            writer.join(line.clock());
        }
        assert_eq!(shadow.access(0..4, WRITE, &writer.work("writer")), None);
    }
}

#[test]
fn many_readers_are_told_apart() {
    for left_out in 0..6 {
        let lines = Lines::default();
        let shadow = Shadow::new("field", 8);
        let mut writer = lines.open(&Clock::default());
        for number in 0..6 {
            let mut line = lines.open(&Clock::default());
            assert_eq!(shadow.access(0..8, READ, &line.work(format!("{number}"))), None);
            if number != left_out {
                writer.join(line.clock());
            }
        }
        let found = shadow.access(0..8, WRITE, &writer.work("writer"));
        assert_eq!(found, race(0, (&left_out.to_string(), READ), ("writer", WRITE)));
    }
}

#[test]
fn of_several_readers_the_first_is_named_that_no_other_follows() {
    let [mut a, mut b, mut c, mut writer] = lines();
    let shadow = Shadow::new("field", 8);
    let works = [a.work("a"), b.work("b")];
    c.join(a.clock());
    for work in [&works[1], &works[0]] {
        assert_eq!(shadow.access(0..8, READ, work), None);
    }
    assert_eq!(shadow.access(0..4, READ, &c.work("c")), None);
    let work = writer.work("writer");
    assert_eq!(shadow.access(4..8, WRITE, &work), race(4, ("a", READ), ("writer", WRITE)));
    assert_eq!(shadow.access(0..4, WRITE, &work), race(0, ("b", READ), ("writer", WRITE)));
}

#[test]
fn ranges_that_overlap_in_part_race_where_they_do() {
    // The first byte of both, if there is one. The block is longer than a page of the shadow, and its size is odd.
    let ranges =
        [0..70_001, 0..8, 4..8, 7..9, 3..40_000, 16_380..16_390, 32_768..49_152, 69_999..70_001, 5..5];
    for first in ranges.clone() {
        for second in ranges.clone() {
            let [mut a, mut b] = lines();
            let shadow = Shadow::new("field", 70_001);
            assert_eq!(shadow.access(first.clone(), WRITE, &a.work("a")), None);
            let found = shadow.access(second.clone(), READ, &b.work("b"));
            let begin = first.start.max(second.start);
            let overlap = begin < first.end.min(second.end);
            let expected = if overlap { race(begin, ("a", WRITE), ("b", READ)) } else { None };
            assert_eq!(found, expected, "{first:?} {second:?}");
        }
    }
}

#[test]
fn bytes_past_the_end_are_left_out() {
    let [mut a, mut b] = lines();
    let shadow = Shadow::new("field", 10);
    assert_eq!(shadow.access(8..20, WRITE, &a.work("a")), None);
    assert_eq!(shadow.access(12..usize::MAX, WRITE, &b.work("b")), None);
    assert_eq!(shadow.access(9..20, WRITE, &b.work("b")), race(9, ("a", WRITE), ("b", WRITE)));
    assert_eq!(Shadow::new("nothing", 0).access(0..8, WRITE, &b.work("b")), None);
}

#[test]
fn a_line_with_the_number_of_another_misses_no_race() {
    let lines = Lines::default();
    let mut ended = lines.open(&Clock::default());
    let shadow = Shadow::new("field", 64);
    assert_eq!(shadow.access(0..8, WRITE, &ended.work("ended")), None);
    let clock = ended.clock().clone();
    drop(ended);

    let mut stranger = lines.open(&Clock::default());
    let found = shadow.access(0..8, READ, &stranger.work("stranger"));
    assert_eq!(found, race(0, ("ended", WRITE), ("stranger", READ)));

    let mut heir = lines.open(&clock);
    assert_eq!(shadow.access(0..8, READ, &heir.work("heir")), None);
    // What follows the line that has ended does not follow the one with its number.
    stranger.join(&clock);
    assert_eq!(shadow.access(8..16, WRITE, &heir.work("heir, later")), None);
    let found = shadow.access(8..16, READ, &stranger.work("stranger"));
    assert_eq!(found, race(8, ("heir, later", WRITE), ("stranger", READ)));
}

#[test]
fn a_clock_stays_small_if_lines_follow_those_that_have_ended() {
    let lines = Lines::default();
    let mut ended = Clock::default();
    for _ in 0..1000 {
        let mut line = lines.open(&ended);
        line.work("work");
        ended.join(line.clock());
    }
    let numbers = format!("{ended:?}").matches(',').count();
    assert!(numbers < 10, "{ended:?}");
}

#[test]
fn a_word_orders_what_was_released_before() {
    let [mut a, mut b, mut c, mut d] = lines();
    let (shadow, words) = (Shadow::new("field", 64), Words::default());
    assert_eq!(shadow.access(0..8, WRITE, &a.work("a")), None);
    words.release(0x1000, 1, a.clock());
    assert_eq!(shadow.access(8..16, WRITE, &a.work("a, later")), None);
    assert!(words.is_from_line(0x1000, 1));
    assert!(!words.is_from_line(0x1000, 2) && !words.is_from_line(0x1008, 1));
    b.join(&words.acquire(0x1008));
    assert_eq!(shadow.access(0..8, READ, &b.work("b")), race(0, ("a", WRITE), ("b", READ)));
    b.join(&words.acquire(0x1000));
    assert_eq!(shadow.access(0..8, READ, &b.work("b")), None);
    assert_eq!(shadow.access(8..16, READ, &b.work("b")), race(8, ("a, later", WRITE), ("b", READ)));

    // The line that releases the word next has not acquired it.
    d.work("d");
    words.release(0x1000, 2, d.clock());
    assert_eq!(shadow.access(0..8, READ, &c.work("c")), race(0, ("a", WRITE), ("c", READ)));
    c.join(&words.acquire(0x1000));
    assert_eq!(shadow.access(0..8, READ, &c.work("c")), None);
}

#[test]
fn a_word_that_is_freed_orders_nothing() {
    let [mut a, mut b, c, d] = lines();
    let (shadow, words) = (Shadow::new("field", 64), Words::default());
    assert_eq!(shadow.access(0..8, WRITE, &a.work("a")), None);
    for address in [0xff8, 0x1000, 0x1008] {
        words.release(address, 1, a.clock());
    }
    words.forget(0x1000..0x1008);
    b.join(&words.acquire(0x1000));
    assert_eq!(shadow.access(0..8, READ, &b.work("b")), race(0, ("a", WRITE), ("b", READ)));
    for (address, mut line) in [(0xff8, c), (0x1008, d)] {
        line.join(&words.acquire(address));
        assert_eq!(shadow.access(0..8, READ, &line.work("neighbour")), None);
    }
}

#[test]
fn a_race_is_reported_once() {
    let [mut a, mut b] = lines();
    let shadow = Shadow::new("field", 64);
    let reports = Reports::new(2);
    shadow.access(40..64, WRITE, &a.work("a"));
    let mut new = Vec::new();
    for (byte, name) in [(40, "b"), (41, "b"), (42, "c"), (43, "b"), (44, "d"), (45, "e")] {
        let race = shadow.access(byte..byte + 1, READ, &b.work(name)).expect("a race");
        new.push(reports.add(race));
    }
    // The same two works, in the other order.
    let found = shadow.access(40..41, WRITE, &a.work("a")).expect("a race");
    assert_eq!(Some(&found), race(40, ("b", READ), ("a", WRITE)).as_ref());
    new.push(reports.add(found));
    assert_eq!(new, [true, false, true, false, true, true, false]);
    assert_eq!(reports.count(), 4);
    let kept: Vec<_> = reports.kept().into_iter().map(Some).collect();
    assert_eq!(kept, [race(40, ("a", WRITE), ("b", READ)), race(42, ("a", WRITE), ("c", READ))]);
    assert_eq!(
        reports.to_string(),
        "`b` reads byte 40 of field, which `a` has written, and neither waits for the other\n\
         `c` reads byte 42 of field, which `a` has written, and neither waits for the other\n\
         and 2 more\n"
    );
    reports.clear();
    assert_eq!((reports.count(), reports.to_string().as_str()), (0, ""));
}
