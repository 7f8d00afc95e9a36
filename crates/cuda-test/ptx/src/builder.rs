//! A kernel while it is read: its registers, constants, labels and steps.

use std::collections::HashMap;

use crate::steps::{self, LOCAL_BEGIN, PARAMETERS_BEGIN, Run, Step};
use crate::value::Kind;

/// The registers of a thread's place, in their order: three axes each.
pub(crate) const PLACES: [&str; 4] = ["%tid", "%ntid", "%ctaid", "%nctaid"];

pub(crate) struct Builder<'t> {
    /// The number of each register, and its size in bytes.
    registers: HashMap<&'t str, (u32, u32)>,
    /// Registers declared as `%name<count>`: the prefix, the number of the first, the count and the size.
    ranges: Vec<(&'t str, u32, u32, u32)>,
    /// What each register holds at the start.
    values: Vec<u64>,
    constants: HashMap<u64, u32>,
    /// The addresses of parameters and of local memory.
    addresses: HashMap<&'t str, u64>,
    labels: HashMap<&'t str, u32>,
    /// The branches, by the numbers of their steps.
    branches: Vec<(usize, &'t str)>,
    steps: Vec<Step>,
    local_bytes: usize,
    line: u32,
    guard: Option<(u32, bool)>,
}

impl<'t> Builder<'t> {
    pub(crate) fn new() -> Builder<'t> {
        Builder {
            registers: HashMap::new(),
            ranges: Vec::new(),
            values: vec![0; 3 * PLACES.len()],
            constants: HashMap::new(),
            addresses: HashMap::new(),
            labels: HashMap::new(),
            branches: Vec::new(),
            steps: Vec::new(),
            local_bytes: 0,
            line: 0,
            guard: None,
        }
    }

    pub(crate) fn begin_line(&mut self, line: usize) {
        self.line = line as u32;
        self.guard = None;
    }

    pub(crate) fn add_parameter(&mut self, name: &'t str, offset: usize) {
        self.addresses.insert(name, PARAMETERS_BEGIN + offset as u64);
    }

    /// Reads `.reg .TYPE %NAME<COUNT>` or `.reg .TYPE %NAME, %NAME`.
    pub(crate) fn add_registers(&mut self, text: &'t str) -> Result<(), String> {
        let mut words = text.splitn(3, char::is_whitespace).skip(1);
        let kind = words.next().and_then(|word| Kind::named(word.strip_prefix('.')?));
        let (Some(kind), Some(names)) = (kind, words.next()) else {
            return Err("expected .reg .TYPE %NAME<COUNT>".into());
        };
        for name in names.split(',').map(str::trim) {
            let first = self.values.len() as u32;
            let count = match name.split_once('<') {
                Some((prefix, count)) => {
                    let count = count.trim_end_matches('>').parse::<u32>().map_err(|_| "expected a count")?;
                    self.ranges.push((prefix, first, count, kind.bytes()));
                    count
                }
                None => {
                    self.registers.insert(name, (first, kind.bytes()));
                    1
                }
            };
            self.values.resize(self.values.len() + count as usize, 0);
        }
        Ok(())
    }

    /// Reads `.local .align N .b8 NAME[BYTES]`.
    pub(crate) fn add_local(&mut self, text: &'t str) -> Result<(), String> {
        let array = text.split_whitespace().next_back().and_then(|word| word.strip_suffix(']'));
        let array = array.and_then(|word| word.split_once('['));
        let Some((name, bytes)) = array.and_then(|(name, bytes)| Some((name, bytes.parse::<usize>().ok()?)))
        else {
            return Err("expected .local .align N .b8 NAME[BYTES]".into());
        };
        let begin = self.local_bytes.next_multiple_of(16);
        self.addresses.insert(name, LOCAL_BEGIN + begin as u64);
        self.local_bytes = begin + bytes;
        Ok(())
    }

    pub(crate) fn add_label(&mut self, label: &'t str) -> Result<(), String> {
        match self.labels.insert(label, self.steps.len() as u32) {
            None => Ok(()),
            Some(_) => Err("expected a label of its own, found it twice".into()),
        }
    }

    /// The next steps are done if this register holds true, or false if `inverse`.
    pub(crate) fn set_guard(&mut self, register: &str, inverse: bool) -> Result<(), String> {
        self.guard = Some((self.register(register)?.0, inverse));
        Ok(())
    }

    /// Adds a step.
    pub(crate) fn push(&mut self, run: Run, target: u32, sources: &[u32], number: i64) {
        let mut all = [0; 3];
        all[..sources.len()].copy_from_slice(sources);
        self.steps.push(Step { run, guard: self.guard, target, sources: all, number, line: self.line });
    }

    pub(crate) fn push_branch(&mut self, label: &'t str) {
        self.branches.push((self.steps.len(), label));
        self.push(steps::branch, 0, &[], 0);
    }

    /// The number of a register, and its size in bytes.
    pub(crate) fn register(&self, name: &str) -> Result<(u32, u32), String> {
        if let Some(found) = self.registers.get(name) {
            return Ok(*found);
        }
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        let prefix = &name[..name.len() - digits.len()];
        let number: u32 = digits.parse().map_err(|_| format!("expected a register, found {name}"))?;
        let range = self.ranges.iter().rev().find(|range| range.0 == prefix && number < range.2);
        range
            .map(|(_, first, _, bytes)| (first + number, *bytes))
            .ok_or_else(|| format!("expected a register that is declared, found {name}"))
    }

    /// The register that holds an operand: a register, the place of a thread, a number or an address.
    pub(crate) fn operand(&mut self, text: &str, kind: Kind) -> Result<u32, String> {
        if let Some(place) = place(text) {
            return Ok(place);
        }
        if let Some(address) = self.addresses.get(text).copied() {
            return Ok(self.constant(address));
        }
        if text.starts_with('%') {
            return Ok(self.register(text)?.0);
        }
        let bits =
            number(text, kind).ok_or_else(|| format!("expected a register or a number, found {text}"))?;
        Ok(self.constant(bits))
    }

    /// The register and the offset of `[BASE+OFFSET]`.
    pub(crate) fn address(&mut self, text: &str) -> Result<(u32, i64), String> {
        let expected = || format!("expected an address in brackets, found {text}");
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or_else(expected)?;
        let (base, offset) = match inner.split_once('+') {
            Some((base, offset)) => (base, offset.trim().parse::<i64>().map_err(|_| expected())?),
            None => (inner, 0),
        };
        Ok((self.operand(base.trim(), Kind::Unsigned(8))?, offset))
    }

    fn constant(&mut self, bits: u64) -> u32 {
        *self.constants.entry(bits).or_insert_with(|| {
            self.values.push(bits);
            self.values.len() as u32 - 1
        })
    }

    /// The steps, the registers at the start, and the bytes of local memory.
    pub(crate) fn end(mut self) -> Result<(Vec<Step>, Vec<u64>, usize), String> {
        for (step, label) in self.branches {
            let place =
                self.labels.get(label).ok_or_else(|| format!("expected a label {label}, found none"))?;
            self.steps[step].number = i64::from(*place);
        }
        Ok((self.steps, self.values, self.local_bytes))
    }
}

/// The register of `%tid.x` and the like.
fn place(text: &str) -> Option<u32> {
    let (name, axis) = text.split_once('.')?;
    let first = PLACES.iter().position(|place| *place == name)? as u32 * 3;
    Some(first + ["x", "y", "z"].iter().position(|known| *known == axis)? as u32)
}

/// The bits of a number: in decimal, `0x` in hexadecimal, or `0f` and `0d`, the bits of a floating-point number.
fn number(text: &str, kind: Kind) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    if let Some(bits) = lower.strip_prefix("0f").or_else(|| lower.strip_prefix("0d")) {
        return u64::from_str_radix(bits, 16).ok();
    }
    let digits = lower.trim_end_matches('u');
    let value = match digits.strip_prefix("0x") {
        Some(bits) => i128::from_str_radix(bits, 16).ok()?,
        None => digits.parse::<i128>().ok()?,
    };
    let unused = 64 - 8 * kind.bytes();
    Some((value as u64) << unused >> unused)
}
