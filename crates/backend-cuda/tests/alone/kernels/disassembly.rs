//! Machine code as nvdisasm prints it: instructions, the ways between them, and loops.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The machine code of a kernel. Instructions are numbered from 0 on.
pub(crate) struct Code {
    instructions: Vec<Instruction>,
    loops: BTreeMap<usize, Loop>,
    /// The instructions in an order in which all come after those that lead to them, but for the ends of loops.
    order: Vec<usize>,
}

struct Instruction {
    /// Its name with modifiers, such as `LDG.E.128`.
    name: String,
    next: Vec<usize>,
}

/// A loop, known by its first instruction.
#[derive(Default)]
pub(crate) struct Loop {
    pub(crate) instructions: BTreeSet<usize>,
    /// Those that lead back to the first.
    ends: BTreeSet<usize>,
}

/// A way through the code: how many instructions a thread executes on it, and which ones.
pub(crate) struct Way {
    pub(crate) executed: usize,
    pub(crate) instructions: Vec<usize>,
}

impl Code {
    /// Reads what `nvdisasm -c` prints for a program with one kernel.
    pub(crate) fn new(text: &str) -> Code {
        let mut labels = HashMap::new();
        let mut lines: Vec<&str> = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(label) = line.strip_suffix(':') {
                labels.insert(label, lines.len());
            } else if let Some((_, instruction)) = line.split_once("*/").filter(|_| line.starts_with("/*")) {
                lines.push(instruction.trim());
            }
        }
        let targets = |line: &str| -> Vec<usize> {
            let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c)));
            words.filter_map(|word| labels.get(word)).copied().collect()
        };
        let instructions = lines.iter().enumerate().map(|(at, line)| {
            let (guard, rest) = match line.strip_prefix('@') {
                Some(guarded) => guarded.split_once(' ').map_or((true, ""), |(_, rest)| (true, rest)),
                None => (false, *line),
            };
            let mut words = rest.split_whitespace();
            let name = words.next().unwrap_or("").trim_end_matches(';');
            // A branch may have a condition before its target, too.
            let conditional = guard || words.next().is_some_and(|word| word.ends_with(','));
            let mut next = Vec::new();
            match name.split('.').next() {
                Some("BRA" | "BRX" | "BRXU" | "CALL") => {
                    next = targets(line);
                    assert!(!next.is_empty(), "no target is known: {line}");
                    if conditional {
                        next.push(at + 1);
                    }
                }
                Some("EXIT" | "RET") if !conditional => {}
                _ => next.push(at + 1),
            }
            next.retain(|next| *next < lines.len());
            Instruction { name: name.into(), next }
        });
        let mut code =
            Code { instructions: instructions.collect(), loops: BTreeMap::new(), order: Vec::new() };
        code.find_loops();
        code
    }

    pub(crate) fn name(&self, instruction: usize) -> &str {
        &self.instructions[instruction].name
    }

    /// The names of all instructions that a thread can reach.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|at| self.name(*at))
    }

    pub(crate) fn loops(&self) -> impl Iterator<Item = (usize, &Loop)> {
        self.loops.iter().map(|(first, found)| (*first, found))
    }

    /// Whether a loop has another one in it.
    pub(crate) fn has_loops(&self, first: usize) -> bool {
        self.loops.keys().any(|other| *other != first && self.loops[&first].instructions.contains(other))
    }

    /// The longest way once around a loop, on which exactly `count` instructions are `stores` and none is another store.
    /// Loops within it are gone around `inner` times.
    pub(crate) fn around(&self, first: usize, stores: &str, count: usize, inner: usize) -> Option<Way> {
        let Loop { instructions, ends } = &self.loops[&first];
        let weight = |at: usize| {
            let is_inner = |other: &usize| *other != first && instructions.contains(other);
            let nested =
                self.loops.iter().any(|(other, found)| is_inner(other) && found.instructions.contains(&at));
            if nested { inner } else { 1 }
        };
        let ways = self.longest(first, |at| instructions.contains(&at), weight, stores);
        let best = ends.iter().filter_map(|end| ways.get(&(*end, count)).map(|(length, _)| (*length, *end)));
        let (_, end) = best.max()?;
        Some(way(&ways, (end, count)))
    }

    /// The longest way from the first instruction to before another one, without stores. Loops on it are gone around
    /// once.
    pub(crate) fn until(&self, instruction: usize) -> Option<Way> {
        let ways = self.longest(0, |_| true, |_| 1, "no stores");
        let mut way = ways.get(&(instruction, 0)).map(|_| way(&ways, (instruction, 0)))?;
        way.instructions.pop();
        way.executed -= 1;
        Some(way)
    }

    /// For each instruction and number of stores up to it, the length of the longest way there, and the instruction
    /// before.
    fn longest(
        &self,
        first: usize,
        within: impl Fn(usize) -> bool,
        weight: impl Fn(usize) -> usize,
        stores: &str,
    ) -> Ways {
        let mut ways: Ways = HashMap::from([((first, 0), (weight(first), None))]);
        for &at in &self.order {
            let here: Vec<_> = ways
                .iter()
                .filter(|((place, _), _)| *place == at)
                .map(|(key, (length, _))| (*key, *length))
                .collect();
            for ((_, passed), length) in here {
                for &next in self.instructions[at].next.iter().filter(|next| within(**next)) {
                    let is_back = self.loops.get(&next).is_some_and(|found| found.ends.contains(&at));
                    let name = self.name(next);
                    if is_back || name.starts_with("STG") && name != stores {
                        continue;
                    }
                    let key = (next, passed + usize::from(name == stores));
                    let length = length + weight(next);
                    if ways.get(&key).is_none_or(|(known, _)| *known < length) {
                        ways.insert(key, (length, Some((at, passed))));
                    }
                }
            }
        }
        ways
    }

    /// Goes through the code depth first. A step to an instruction on the way to it closes a loop, which has all
    /// instructions that lead to its end without passing its first.
    fn find_loops(&mut self) {
        let count = self.instructions.len();
        let (mut seen, mut on_way, mut done) = (vec![false; count], vec![false; count], Vec::new());
        let mut way = vec![(0, 0)];
        seen[0] = true;
        on_way[0] = true;
        while let Some((at, branch)) = way.last_mut() {
            let Some(&next) = self.instructions[*at].next.get(*branch) else {
                on_way[*at] = false;
                done.push(*at);
                way.pop();
                continue;
            };
            *branch += 1;
            if on_way[next] {
                self.loops.entry(next).or_default().ends.insert(*at);
            } else if !seen[next] {
                seen[next] = true;
                on_way[next] = true;
                way.push((next, 0));
            }
        }
        done.reverse();
        self.order = done;
        let mut before = vec![Vec::new(); count];
        for &at in &self.order {
            for &next in &self.instructions[at].next {
                before[next].push(at);
            }
        }
        for (first, found) in &mut self.loops {
            found.instructions.insert(*first);
            let mut open: Vec<usize> = found.ends.iter().copied().collect();
            while let Some(at) = open.pop() {
                if found.instructions.insert(at) {
                    open.extend(&before[at]);
                }
            }
        }
    }
}

type Key = (usize, usize);
type Ways = HashMap<Key, (usize, Option<Key>)>;

fn way(ways: &Ways, last: Key) -> Way {
    let mut instructions = Vec::new();
    let mut at = Some(last);
    while let Some(key) = at {
        instructions.push(key.0);
        at = ways[&key].1;
    }
    instructions.reverse();
    Way { executed: ways[&last].0, instructions }
}

#[test]
fn loops_and_ways_are_found() {
    let text = "
        /*0000*/ S2R R0 ;
    .L_x_0:
        /*0010*/ LDG.E R1 ;
    .L_x_1:
        /*0020*/ FADD R1, R1 ;
        /*0030*/ @P0 BRA `(.L_x_1) ;
        /*0040*/ BRA P1, `(.L_x_2) ;
        /*0050*/ STG.E.64 R1 ;
        /*0060*/ BRA `(.L_x_3) ;
    .L_x_2:
        /*0070*/ @!P0 STG.E R1 ;
        /*0080*/ NOP ;
    .L_x_3:
        /*0090*/ @P1 BRA `(.L_x_0) ;
        /*00a0*/ EXIT ;
    .L_x_4:
        /*00b0*/ BRA `(.L_x_4) ;";
    let code = Code::new(text);
    assert_eq!(code.loops().map(|(first, _)| first).collect::<Vec<_>>(), [1, 2]);
    assert!(code.has_loops(1) && !code.has_loops(2));
    assert_eq!(code.around(1, "STG.E", 1, 1).unwrap().instructions, [1, 2, 3, 4, 7, 8, 9]);
    assert_eq!(code.around(1, "STG.E", 1, 3).unwrap().executed, 11);
    assert_eq!(code.around(1, "STG.E.64", 1, 1).unwrap().executed, 7);
    assert!(code.around(1, "STG.E.128", 1, 1).is_none());
    assert_eq!(code.until(1).unwrap().instructions, [0]);
    assert!(code.names().all(|name| name != "EXIT.X") && code.names().count() == 11);
}
