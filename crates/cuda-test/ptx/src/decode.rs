//! The steps of a statement.

use crate::builder::Builder;
use crate::statement::{Statement, elements};
use crate::steps::{self, Run};
use crate::value::Kind;

/// The step of this name for the integers, numbers or values of a kind; `None` if there is none.
macro_rules! step {
    (integer $name:ident, $kind:expr) => {
        match $kind {
            Kind::Unsigned(2) => Some(steps::$name::<u16> as Run),
            Kind::Unsigned(4) => Some(steps::$name::<u32> as Run),
            Kind::Unsigned(8) => Some(steps::$name::<u64> as Run),
            Kind::Signed(2) => Some(steps::$name::<i16> as Run),
            Kind::Signed(4) => Some(steps::$name::<i32> as Run),
            Kind::Signed(8) => Some(steps::$name::<i64> as Run),
            _ => None,
        }
    };
    (float $name:ident, $kind:expr) => {
        match $kind {
            Kind::F32 => Some(steps::$name::<f32> as Run),
            Kind::F64 => Some(steps::$name::<f64> as Run),
            _ => None,
        }
    };
    (number $name:ident, $kind:expr) => {
        step!(integer $name, $kind).or(step!(float $name, $kind))
    };
    (bits $name:ident, $kind:expr) => {
        match $kind {
            Kind::Predicate => Some(steps::$name::<bool> as Run),
            _ => match $kind.bytes() {
                1 => Some(steps::$name::<u8> as Run),
                2 => Some(steps::$name::<u16> as Run),
                4 => Some(steps::$name::<u32> as Run),
                _ => Some(steps::$name::<u64> as Run),
            },
        }
    };
}

/// The conversion from a kind to another.
fn conversion(from: Kind, to: Kind) -> Option<Run> {
    macro_rules! to {
        ($from:ty) => {
            match to {
                Kind::Unsigned(1) => steps::convert::<$from, u8> as Run,
                Kind::Unsigned(2) => steps::convert::<$from, u16>,
                Kind::Unsigned(4) => steps::convert::<$from, u32>,
                Kind::Unsigned(8) => steps::convert::<$from, u64>,
                Kind::Signed(1) => steps::convert::<$from, i8>,
                Kind::Signed(2) => steps::convert::<$from, i16>,
                Kind::Signed(4) => steps::convert::<$from, i32>,
                Kind::Signed(8) => steps::convert::<$from, i64>,
                Kind::F32 => steps::convert::<$from, f32>,
                Kind::F64 => steps::convert::<$from, f64>,
                _ => return None,
            }
        };
    }
    Some(match from {
        Kind::Unsigned(1) => to!(u8),
        Kind::Unsigned(2) => to!(u16),
        Kind::Unsigned(4) => to!(u32),
        Kind::Unsigned(8) => to!(u64),
        Kind::Signed(1) => to!(i8),
        Kind::Signed(2) => to!(i16),
        Kind::Signed(4) => to!(i32),
        Kind::Signed(8) => to!(i64),
        Kind::F32 => to!(f32),
        Kind::F64 => to!(f64),
        _ => return None,
    })
}

/// The comparison of this name.
fn comparison(name: &str, kind: Kind) -> Option<Run> {
    // Those of integers that end with `u`, and the names of unsigned ones.
    match name {
        "eq" => step!(number equal, kind),
        "ne" => step!(number unequal, kind),
        "lt" | "lo" => step!(number less, kind),
        "le" | "ls" => step!(number at_most, kind),
        "gt" | "hi" => step!(number greater, kind),
        "ge" | "hs" => step!(number at_least, kind),
        "equ" => step!(float equal_or_nan, kind),
        "neu" => step!(float unequal_or_nan, kind),
        "ltu" => step!(float less_or_nan, kind),
        "leu" => step!(float at_most_or_nan, kind),
        "gtu" => step!(float greater_or_nan, kind),
        "geu" => step!(float at_least_or_nan, kind),
        "num" => step!(float no_nan, kind),
        "nan" => step!(float any_nan, kind),
        _ => None,
    }
}

/// The modifiers that change nothing here: spaces of memory that one address tells, the rounding that Rust has, caches, and
/// promises to the compiler.
const WITHOUT_EFFECT: [&str; 14] = [
    "global", "param", "local", "to", "uni", "rn", "lo", "nc", "cs", "L1", "weak", "ca", "relaxed",
    "volatile",
];

/// Adds the steps of a statement.
pub(crate) fn decode<'t>(statement: &Statement<'t>, builder: &mut Builder<'t>) -> Result<(), String> {
    if let Some((register, inverse)) = statement.guard {
        builder.set_guard(register, inverse)?;
    }
    let (mut kinds, mut words) = (Vec::new(), Vec::new());
    for modifier in &statement.modifiers {
        match Kind::named(modifier) {
            Some(kind) => kinds.push(kind),
            None if !WITHOUT_EFFECT.contains(modifier) => words.push(*modifier),
            None => {}
        }
    }
    let reader = Reader { statement, words: &words, kinds: &kinds };
    reader.read(builder)
}

/// A statement, its modifiers that have an effect, and its types.
struct Reader<'s, 't> {
    statement: &'s Statement<'t>,
    words: &'s [&'t str],
    kinds: &'s [Kind],
}

impl<'t> Reader<'_, 't> {
    fn read(&self, builder: &mut Builder<'t>) -> Result<(), String> {
        let kind = self.kinds.first().copied();
        let of = |step: fn(Kind) -> Option<Run>| kind.and_then(step);
        let run = match (self.statement.name, self.words) {
            ("bra", []) => {
                builder.push_branch(self.operand(0)?);
                return Ok(());
            }
            ("ret" | "exit", []) => {
                builder.push(steps::end, 0, &[], 0);
                return Ok(());
            }
            ("ld", words) => return self.load(builder, words),
            ("st", words) => return self.store(builder, words),
            ("setp", [name]) => {
                let run = kind.and_then(|kind| comparison(name, kind)).ok_or_else(|| self.refused())?;
                return self.compute(builder, run, Kind::Predicate, &self.kinds[..1].repeat(2));
            }
            ("selp", []) => {
                let kind = kind.ok_or_else(|| self.refused())?;
                let run = step!(bits select, kind).ok_or_else(|| self.refused())?;
                return self.compute(builder, run, kind, &[kind, kind, Kind::Predicate]);
            }
            ("mov", []) => return self.move_value(builder),
            ("cvta", []) => step!(bits copy, Kind::Unsigned(8)),
            ("cvt", words) => return self.convert(builder, words),
            ("mul" | "mad", ["wide"]) => return self.wide(builder),
            ("bfi", []) => return self.insert_bits(builder),
            ("shl", []) => return self.shift(builder, of(|kind| step!(bits shl, kind))),
            ("shr", []) => return self.shift(builder, of(|kind| step!(integer shr, kind))),
            ("shf", ["l", "wrap"]) => return self.funnel(builder, steps::funnel_left),
            ("shf", ["r", "wrap"]) => return self.funnel(builder, steps::funnel_right),
            ("add", []) => of(|kind| step!(number add, kind)),
            ("sub", []) => of(|kind| step!(number sub, kind)),
            ("mul", []) => of(|kind| step!(number mul, kind)),
            ("mul", ["hi"]) => of(|kind| step!(integer mul_high, kind)),
            ("mad" | "fma", []) => of(|kind| step!(number mul_add, kind)),
            ("div", []) => of(|kind| step!(number div, kind)),
            ("rem", []) => of(|kind| step!(integer rem, kind)),
            ("min", []) => of(|kind| step!(number min, kind)),
            ("max", []) => of(|kind| step!(number max, kind)),
            ("neg", []) => of(|kind| step!(number neg, kind)),
            ("abs", []) => of(|kind| step!(number abs, kind)),
            ("sqrt", []) => of(|kind| step!(float square_root, kind)),
            ("rcp", []) => of(|kind| step!(float reciprocal, kind)),
            ("and", []) => of(|kind| step!(bits and, kind)),
            ("or", []) => of(|kind| step!(bits or, kind)),
            ("xor", []) => of(|kind| step!(bits xor, kind)),
            ("not", []) => of(|kind| step!(bits not, kind)),
            _ => None,
        };
        let (Some(run), Some(kind)) = (run, kind) else {
            return Err(self.refused());
        };
        let sources = match self.statement.name {
            "not" | "neg" | "abs" | "sqrt" | "rcp" | "cvta" => 1,
            "mad" | "fma" => 3,
            _ => 2,
        };
        self.compute(builder, run, kind, &[kind; 3][..sources])
    }

    /// Adds a step that computes the first operand from the others, which are of these types.
    fn compute(
        &self,
        builder: &mut Builder<'t>,
        run: Run,
        target: Kind,
        sources: &[Kind],
    ) -> Result<(), String> {
        let found = self.statement.operands.len();
        if found != 1 + sources.len() || sources.len() > 3 {
            return Err(format!("expected {} operands, found {found}", 1 + sources.len()));
        }
        let (target, _) = self.target(builder, self.operand(0)?, target)?;
        let sources: Vec<u32> = (1..)
            .zip(sources)
            .map(|(place, kind)| builder.operand(self.operand(place)?, *kind))
            .collect::<Result<_, String>>()?;
        builder.push(run, target, &sources, 0);
        Ok(())
    }

    /// The register that is written, and its size: as large as the type, or larger for values that are extended.
    fn target(&self, builder: &Builder<'t>, name: &str, kind: Kind) -> Result<(u32, u32), String> {
        let (register, bytes) = builder.register(name)?;
        match bytes >= kind.bytes() {
            true => Ok((register, bytes)),
            false => Err(format!("expected a register of {} bytes, found {name} of {bytes}", kind.bytes())),
        }
    }

    /// A shift by the third operand, a number of 32 bits.
    fn shift(&self, builder: &mut Builder<'t>, run: Option<Run>) -> Result<(), String> {
        let (Some(run), [kind]) = (run, self.kinds) else {
            return Err(self.refused());
        };
        self.compute(builder, run, *kind, &[*kind, Kind::Unsigned(4)])
    }

    fn funnel(&self, builder: &mut Builder<'t>, run: Run) -> Result<(), String> {
        let word = Kind::Unsigned(4);
        if self.kinds != [word] {
            return Err(self.refused());
        }
        self.compute(builder, run, word, &[word; 3])
    }

    /// Products of 32-bit numbers in 64 bits, and sums with them.
    fn wide(&self, builder: &mut Builder<'t>) -> Result<(), String> {
        let adds = self.statement.name == "mad";
        let (run, half, whole): (Run, _, _) = match (self.kinds, adds) {
            ([half @ Kind::Unsigned(4)], false) => (steps::mul_wide::<u32, u64>, half, Kind::Unsigned(8)),
            ([half @ Kind::Signed(4)], false) => (steps::mul_wide::<i32, i64>, half, Kind::Signed(8)),
            ([half @ Kind::Unsigned(4)], true) => (steps::mul_add_wide::<u32, u64>, half, Kind::Unsigned(8)),
            ([half @ Kind::Signed(4)], true) => (steps::mul_add_wide::<i32, i64>, half, Kind::Signed(8)),
            _ => return Err(self.refused()),
        };
        let sources = [*half, *half, whole];
        self.compute(builder, run, whole, &sources[..if adds { 3 } else { 2 }])
    }

    /// Some of the lowest bits of a value in another one, from a place on; both numbers are literals.
    fn insert_bits(&self, builder: &mut Builder<'t>) -> Result<(), String> {
        let ([kind], [target, inserted, into, begin, count]) = (self.kinds, &self.statement.operands[..])
        else {
            return Err(self.refused());
        };
        let [begin, count]: [u32; 2] = [begin, count].map(|text| text.parse().unwrap_or(u32::MAX));
        if begin.saturating_add(count) > 8 * kind.bytes() {
            return Err(self.refused());
        }
        let run = step!(bits insert, *kind).ok_or_else(|| self.refused())?;
        let (target, _) = self.target(builder, target, *kind)?;
        let sources = [builder.operand(inserted, *kind)?, builder.operand(into, *kind)?];
        builder.push(run, target, &sources, i64::from(begin) << 8 | i64::from(count));
        Ok(())
    }

    /// A copy of a register or an address, or two 32-bit words as one of 64 bits and the reverse.
    fn move_value(&self, builder: &mut Builder<'t>) -> Result<(), String> {
        let ([kind], [target, source]) = (self.kinds, &self.statement.operands[..]) else {
            return Err(self.refused());
        };
        let word = Kind::Unsigned(4);
        if let [low, high] = elements(source)[..] {
            let words = [builder.operand(low, word)?, builder.operand(high, word)?];
            let (target, _) = self.target(builder, target, Kind::Unsigned(8))?;
            builder.push(steps::join, target, &words, 0);
            return Ok(());
        }
        if let [low, high] = elements(target)[..] {
            let source = builder.operand(source, *kind)?;
            for (target, run) in [(low, steps::copy::<u32> as Run), (high, steps::upper_half)] {
                let (target, _) = self.target(builder, target, word)?;
                builder.push(run, target, &[source], 0);
            }
            return Ok(());
        }
        let run = step!(bits copy, *kind).ok_or_else(|| self.refused())?;
        self.compute(builder, run, *kind, &[*kind])
    }

    fn convert(&self, builder: &mut Builder<'t>, words: &[&str]) -> Result<(), String> {
        let [to, from] = self.kinds else {
            return Err(self.refused());
        };
        let is_float = |kind: &Kind| matches!(kind, Kind::F32 | Kind::F64);
        let rounds_to_zero = is_float(from) && !is_float(to);
        let fits = match words {
            [] => !rounds_to_zero,
            ["rzi"] => rounds_to_zero,
            _ => false,
        };
        let run = conversion(*from, *to).filter(|_| fits).ok_or_else(|| self.refused())?;
        self.compute(builder, run, *to, &[*from])?;
        self.extend(builder, self.operand(0)?, *to)
    }

    /// Extends the value of a signed type to the size of its register.
    fn extend(&self, builder: &mut Builder<'t>, name: &str, kind: Kind) -> Result<(), String> {
        let (register, bytes) = builder.register(name)?;
        if let Kind::Signed(size) = kind
            && size < bytes
        {
            let run = conversion(kind, Kind::Signed(bytes)).ok_or_else(|| self.refused())?;
            builder.push(run, register, &[register], 0);
        }
        Ok(())
    }

    fn load(&self, builder: &mut Builder<'t>, words: &[&str]) -> Result<(), String> {
        let ([kind], [targets, address]) = (self.kinds, &self.statement.operands[..]) else {
            return Err(self.refused());
        };
        let targets = self.elements(targets, words)?;
        let (base, offset) = builder.address(address)?;
        self.check_alignment(builder, (base, offset), targets.len(), *kind);
        let run =
            step!(bits load, *kind).filter(|_| *kind != Kind::Predicate).ok_or_else(|| self.refused())?;
        for (place, name) in targets.into_iter().enumerate() {
            let (target, _) = self.target(builder, name, *kind)?;
            builder.push(run, target, &[base], offset + i64::from(kind.bytes()) * place as i64);
            self.extend(builder, name, *kind)?;
        }
        Ok(())
    }

    fn store(&self, builder: &mut Builder<'t>, words: &[&str]) -> Result<(), String> {
        let ([kind], [address, sources]) = (self.kinds, &self.statement.operands[..]) else {
            return Err(self.refused());
        };
        let sources = self.elements(sources, words)?;
        let (base, offset) = builder.address(address)?;
        self.check_alignment(builder, (base, offset), sources.len(), *kind);
        let run =
            step!(bits store, *kind).filter(|_| *kind != Kind::Predicate).ok_or_else(|| self.refused())?;
        for (place, name) in sources.into_iter().enumerate() {
            let source = builder.operand(name, *kind)?;
            builder.push(run, 0, &[base, source], offset + i64::from(kind.bytes()) * place as i64);
        }
        Ok(())
    }

    /// The registers of a load or a store: one, or the two or four of a vector.
    fn elements(&self, operand: &'t str, words: &[&str]) -> Result<Vec<&'t str>, String> {
        let found = elements(operand);
        let expected = match words {
            [] => 1,
            ["v2"] => 2,
            ["v4"] => 4,
            _ => return Err(self.refused()),
        };
        match found.len() == expected {
            true => Ok(found),
            false => Err(format!("expected {expected} registers, found {operand}")),
        }
    }

    fn check_alignment(
        &self,
        builder: &mut Builder<'t>,
        (base, offset): (u32, i64),
        count: usize,
        kind: Kind,
    ) {
        if count > 1 {
            builder.push(steps::check_alignment, kind.bytes() * count as u32, &[base], offset);
        }
    }

    fn operand(&self, place: usize) -> Result<&'t str, String> {
        let found = self.statement.operands.get(place).copied();
        found.ok_or_else(|| format!("expected an operand {place}, found none"))
    }

    fn refused(&self) -> String {
        "expected an instruction that exists here, found another".into()
    }
}
