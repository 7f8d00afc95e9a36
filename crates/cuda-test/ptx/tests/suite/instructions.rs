//! Each instruction computes as the manual of PTX says, on values at the ends of its types and on random ones.

use crate::common::{Host, values};
use haloport_cuda_ptx::{Grid, Kernel, kernels};

/// A kernel that does `instruction` with the values of `kind` in `%a`, `%b` and `%c`, whose result of the type `result` is in
/// `%d`, or `%p` for `pred`. `%n` has the low bits of `%b`.
fn kernel(kind: &str, result: &str, instruction: &str) -> Kernel {
    let (register, store) = match result {
        "pred" => ("b64".into(), "selp.b64 %w, 1, 0, %p;\nst.global.b64 [%to], %w;".into()),
        _ => (result.to_string(), format!("st.global.{result} [%to], %d;")),
    };
    let text = format!(
        ".version 8.0\n.target sm_90\n.visible .entry k(\n.param .u64 k_param_0,\n.param .u64 k_param_1\n)\n{{\n\
         .reg .{kind} %a, %b, %c;\n.reg .{register} %d;\n.reg .b32 %n;\n.reg .pred %p;\n.reg .b64 %w, %to, %from;\n\
         ld.param.u64 %to, [k_param_0];\nld.param.u64 %from, [k_param_1];\n\
         ld.global.{kind} %a, [%from];\nld.global.{kind} %b, [%from+8];\nld.global.{kind} %c, [%from+16];\n\
         ld.global.b32 %n, [%from+8];\n{instruction}\n{store}\nret;\n}}\n"
    );
    kernels(&text).unwrap_or_else(|error| panic!("{error}")).remove(0)
}

/// Runs the kernel on three values; returns the bits of the result.
fn run(kernel: &Kernel, sources: [u64; 3]) -> u64 {
    let mut host = Host::new(64);
    for (place, value) in sources.into_iter().enumerate() {
        host.write(16 + 8 * place, &value.to_ne_bytes());
    }
    let addresses = [host.address(0), host.address(16)];
    let parameters: Vec<u8> = addresses.iter().flat_map(|at| at.to_ne_bytes()).collect();
    kernel
        .run(Grid { blocks: [1; 3], threads: [1; 3] }, &parameters, &mut host)
        .unwrap_or_else(|fault| panic!("{fault}"));
    u64::from_ne_bytes(host.read(0, 8).try_into().expect("8 bytes"))
}

/// Checks an instruction on triples of these values, which become bits by `bits`; `of` makes the result of bits.
fn check<T: Copy, R: PartialEq + std::fmt::Debug>(
    (kind, result, instruction): (&str, &str, &str),
    (values, bits, of): (&[T], impl Fn(T) -> u64, impl Fn(u64) -> R),
    expected: impl Fn(T, T, T) -> R,
) {
    let kernel = kernel(kind, result, instruction);
    for (place, &a) in values.iter().enumerate() {
        for (next, &b) in values.iter().enumerate() {
            let c = values[(place + 3 * next + 1) % values.len()];
            let found = of(run(&kernel, [bits(a), bits(b), bits(c)]));
            assert_eq!(
                found,
                expected(a, b, c),
                "{instruction} of {:#x}, {:#x}, {:#x}",
                bits(a),
                bits(b),
                bits(c)
            );
        }
    }
}

macro_rules! integers {
    ($($type:ident $unsigned:ident $name:literal $bits:literal;)+) => {
        $({
            let numbers: Vec<$type> = values().into_iter().map(|value| value as $type).collect();
            let test = |instruction: &str, expected: &dyn Fn($type, $type, $type) -> $type| {
                let text = instruction.replace("TYPE", $name).replace("BITS", $bits);
                let of = |bits| bits as $type;
                check(($bits, $bits, &text), (&numbers, |value| u64::from(value as $unsigned), of), expected);
            };
            test("add.TYPE %d, %a, %b;", &|a, b, _| a.wrapping_add(b));
            test("sub.TYPE %d, %a, %b;", &|a, b, _| a.wrapping_sub(b));
            test("mul.lo.TYPE %d, %a, %b;", &|a, b, _| a.wrapping_mul(b));
            test("mul.hi.TYPE %d, %a, %b;", &|a, b, _| {
                ((a as u128).wrapping_mul(b as u128) >> $type::BITS) as $type
            });
            test("mad.lo.TYPE %d, %a, %b, %c;", &|a, b, c| a.wrapping_mul(b).wrapping_add(c));
            test("min.TYPE %d, %a, %b;", &|a, b, _| a.min(b));
            test("max.TYPE %d, %a, %b;", &|a, b, _| a.max(b));
            test("div.TYPE %d, %a, %b;", &|a, b, _| a.checked_div(b).unwrap_or(if b == 0 { $unsigned::MAX as $type } else { a }));
            test("rem.TYPE %d, %a, %b;", &|a, b, _| a.checked_rem(b).unwrap_or(if b == 0 { a } else { 0 }));
            test("and.BITS %d, %a, %b;", &|a, b, _| a & b);
            test("or.BITS %d, %a, %b;", &|a, b, _| a | b);
            test("xor.BITS %d, %a, %b;", &|a, b, _| a ^ b);
            test("not.BITS %d, %a;", &|a, _, _| !a);
            test("shl.BITS %d, %a, %n;", &|a, b, _| a.checked_shl(b as u32).unwrap_or(0));
            test("shr.TYPE %d, %a, %n;", &|a, b, _| {
                a.checked_shr(b as u32).unwrap_or(if i128::from(a) < 0 { $unsigned::MAX as $type } else { 0 })
            });
            for (name, holds) in [
                ("eq", (|a, b| a == b) as fn($type, $type) -> bool),
                ("ne", |a, b| a != b),
                ("lt", |a, b| a < b),
                ("le", |a, b| a <= b),
                ("gt", |a, b| a > b),
                ("ge", |a, b| a >= b),
            ] {
                let text = format!("setp.{name}.{} %p, %a, %b;", $name);
                check(
                    ($bits, "pred", &text),
                    (&numbers, |value| u64::from(value as $unsigned), |bits| bits != 0),
                    |a, b, _| holds(a, b),
                );
            }
        })+
    };
}

#[test]
fn integers_compute() {
    integers! {
        u32 u32 "u32" "b32";
        i32 u32 "s32" "b32";
        u64 u64 "u64" "b64";
        i64 u64 "s64" "b64";
    }
}

#[test]
fn floating_point_numbers_compute() {
    let numbers: Vec<f64> =
        [0.0, -0.0, 1.0, -1.5, 3.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 1e300, 0.1].into();
    let test = |instruction: &str, expected: &dyn Fn(f64, f64, f64) -> f64| {
        // Any number that is none equals any other.
        let same = |bits: u64| {
            if f64::from_bits(bits).is_nan() { f64::NAN.to_bits() } else { bits }
        };
        check(("f64", "f64", instruction), (&numbers, f64::to_bits, same), |a, b, c| {
            same(expected(a, b, c).to_bits())
        });
    };
    test("add.f64 %d, %a, %b;", &|a, b, _| a + b);
    test("sub.rn.f64 %d, %a, %b;", &|a, b, _| a - b);
    test("mul.f64 %d, %a, %b;", &|a, b, _| a * b);
    test("div.rn.f64 %d, %a, %b;", &|a, b, _| a / b);
    test("fma.rn.f64 %d, %a, %b, %c;", &|a, b, c| a.mul_add(b, c));
    test("neg.f64 %d, %a;", &|a, _, _| -a);
    test("abs.f64 %d, %a;", &|a, _, _| a.abs());
    test("sqrt.rn.f64 %d, %a;", &|a, _, _| a.sqrt());
    test("rcp.rn.f64 %d, %a;", &|a, _, _| 1.0 / a);
    let zero = |a: f64, b: f64| a == 0.0 && b == 0.0;
    test("min.f64 %d, %a, %b;", &|a, b, _| {
        if zero(a, b) { if a.is_sign_negative() { a } else { b } } else { a.min(b) }
    });
    test("max.f64 %d, %a, %b;", &|a, b, _| {
        if zero(a, b) { if a.is_sign_negative() { b } else { a } } else { a.max(b) }
    });
    for (name, holds) in [
        ("eq", (|a, b| a == b) as fn(f64, f64) -> bool),
        ("ne", |a, b| a != b && !a.is_nan() && !b.is_nan()),
        ("lt", |a, b| a < b),
        ("ge", |a, b| a >= b),
        ("neu", |a, b| a != b),
        ("equ", |a, b| a == b || a.is_nan() || b.is_nan()),
        ("ltu", |a, b| a < b || a.is_nan() || b.is_nan()),
        ("geu", |a, b| a >= b || a.is_nan() || b.is_nan()),
        ("num", |a, b| !a.is_nan() && !b.is_nan()),
        ("nan", |a, b| a.is_nan() || b.is_nan()),
    ] {
        let text = format!("setp.{name}.f64 %p, %a, %b;");
        check(("f64", "pred", &text), (&numbers, f64::to_bits, |bits| bits != 0), |a, b, _| holds(a, b));
    }
}

#[test]
fn numbers_are_converted() {
    let integers: Vec<i64> = values().into_iter().map(|value| value as i64).collect();
    check(("b64", "f64", "cvt.rn.f64.s64 %d, %a;"), (&integers, |a| a as u64, f64::from_bits), |a, _, _| {
        a as f64
    });
    check(("b64", "f64", "cvt.rn.f64.u64 %d, %a;"), (&integers, |a| a as u64, f64::from_bits), |a, _, _| {
        a as u64 as f64
    });
    check(
        ("b64", "f32", "cvt.rn.f32.s64 %d, %a;"),
        (&integers, |a| a as u64, |bits| f32::from_bits(bits as u32)),
        |a, _, _| a as f32,
    );
    check(("b64", "b32", "cvt.u32.u64 %d, %a;"), (&integers, |a| a as u64, |bits| bits as u32), |a, _, _| {
        a as u32
    });
    check(
        ("b32", "b64", "cvt.s64.s32 %d, %a;"),
        (&integers, |a| a as u32 as u64, |bits| bits as i64),
        |a, _, _| i64::from(a as i32),
    );
    check(("b32", "b64", "cvt.u64.u32 %d, %a;"), (&integers, |a| a as u32 as u64, |bits| bits), |a, _, _| {
        u64::from(a as u32)
    });
    check(
        ("b32", "b32", "cvt.s32.s8 %d, %a;"),
        (&integers, |a| a as u32 as u64, |bits| bits as i32),
        |a, _, _| i32::from(a as i8),
    );
    let floats = [0.0, -0.5, 2.7, -2.7, 1e10, -1e10, 1e300, f64::NAN, f64::NEG_INFINITY];
    check(
        ("f64", "b32", "cvt.rzi.s32.f64 %d, %a;"),
        (&floats, f64::to_bits, |bits| bits as i32),
        |a, _, _| a as i32,
    );
    check(("f64", "b64", "cvt.rzi.u64.f64 %d, %a;"), (&floats, f64::to_bits, |bits| bits), |a, _, _| {
        a as u64
    });
    check(
        ("f64", "f32", "cvt.rn.f32.f64 %d, %a;"),
        (&floats, f64::to_bits, |bits| bits as u32),
        |a, _, _| (a as f32).to_bits(),
    );
}

#[test]
fn words_are_joined_and_taken_apart() {
    let numbers = values();
    let of = |bits| bits;
    let text = "mov.b64 {%n, %h}, %a;\nmov.b64 %d, {%h, %n};";
    let text = format!(".reg .b32 %h;\n{text}");
    check(("b64", "b64", &text), (&numbers, |a| a, of), |a, _, _| a.rotate_left(32));
    check(
        ("b32", "b32", "shf.l.wrap.b32 %d, %a, %b, %n;"),
        (&numbers, |a| a & 0xffff_ffff, of),
        |a, b, _| {
            let both = (b & 0xffff_ffff) << 32 | (a & 0xffff_ffff);
            both << (b % 32) >> 32 & 0xffff_ffff
        },
    );
    check(("b32", "b64", "mul.wide.s32 %d, %a, %b;"), (&numbers, |a| a & 0xffff_ffff, of), |a, b, _| {
        (i64::from(a as i32) * i64::from(b as i32)) as u64
    });
    check(
        ("b32", "b64", "mad.wide.u32 %d, %a, %b, %from;"),
        (&numbers, |a| a & 0xffff_ffff, of),
        |a, b, _| ((a & 0xffff_ffff) * (b & 0xffff_ffff)).wrapping_add(Host::new(0).address(16)),
    );
}

#[test]
fn bits_are_inserted() {
    let numbers = values();
    let of = |bits| bits;
    for (begin, count) in [(8, 8), (0, 64), (0, 0), (56, 8), (63, 1), (3, 40)] {
        let mask = (0..count).fold(0u64, |mask, bit| mask | 1 << (begin + bit));
        let text = format!("bfi.b64 %d, %a, %b, {begin}, {count};");
        check(("b64", "b64", &text), (&numbers, |a| a, of), |a, b, _| b & !mask | a << begin & mask);
    }
    check(("b32", "b32", "bfi.b32 %d, %a, %b, 20, 12;"), (&numbers, |a| a & 0xffff_ffff, of), |a, b, _| {
        b & 0xf_ffff | (a & 0xfff) << 20
    });
}
