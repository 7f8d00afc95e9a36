//! The machine code of the kernel that packs: its instructions for each word, its registers, and the time to compile it.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use haloport_conformance::nvrtc::{Compiled, Target, compilers};
use haloport_core::device::dialect::{
    COMBINE_WORDS, COPY_GROUP_THREADS, COPY_TILE_BYTES, COPY_WORDS, FETCH_WORD, FILL,
};

use super::disassembly::Code;

/// The most instructions for a word of a box of three axes.
const MOST_INSTRUCTIONS: f64 = 32.0;

/// The least part of the threads that a multiprocessor holds.
const LEAST_OCCUPANCY: f64 = 0.6;

/// The words that a thread loads before it stores the first.
const AT_ONCE: usize = 4;

/// The axes of rows of contiguous bytes that lists of indices select.
const AXES_OF_ROWS: usize = 2;

/// The most instructions of the kernels that a cold start compiles, in PTX: a quarter above those by NVRTC 12.9 and 13.
const COLD_START: usize = 1375;

/// The size of a word in bytes, and the ends of the names of its loads and stores.
const WORDS: [(usize, &str); 5] = [(1, ".U8"), (2, ".U16"), (4, ""), (8, ".64"), (16, ".128")];

#[test]
fn packing_takes_few_instructions_for_each_word() {
    let Some(disassembler) = disassembler() else { return };
    for compiler in compilers().unwrap() {
        let mut table = String::from(
            "| for | word, bytes | instructions for a word: a box | with the start | rows by list | registers | threads |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        );
        for capability in [80, 90] {
            let compiled = compiler.compile(COPY_WORDS, Target::Cubin(capability)).unwrap();
            let code = disassemble(Path::new(&disassembler), &compiled);
            assert_global(&code);
            let registers = registers(&compiled);
            let occupancy = occupancy(registers);
            for (bytes, suffix) in WORDS {
                let counted = count(&code, bytes, suffix);
                assert!(
                    counted.plain <= MOST_INSTRUCTIONS,
                    "{bytes} bytes, sm_{capability}: {}",
                    counted.plain
                );
                let Counted { plain, tile, rows } = counted;
                writeln!(
                    table,
                    "| sm_{capability} | {bytes} | {plain:.1} | {tile:.1} | {rows:.1} | {registers} | {:.0} % |",
                    100.0 * occupancy
                )
                .unwrap();
            }
            assert!(occupancy >= LEAST_OCCUPANCY, "sm_{capability}: {registers} registers");
        }
        println!("copy_words by {}:\n{table}", compiler.path());
    }
}

#[test]
fn combining_accesses_memory_that_is_known_to_be_global() {
    let Some(disassembler) = disassembler() else { return };
    for compiler in compilers().unwrap() {
        for capability in [80, 90] {
            let compiled = compiler.compile(COMBINE_WORDS, Target::Cubin(capability)).unwrap();
            assert_global(&disassemble(Path::new(&disassembler), &compiled));
        }
    }
}

/// Generic accesses take longer, and those of local memory are registers that were spilled.
fn assert_global(code: &Code) {
    let generic = |name: &&str| ["LD.", "ST.", "LDL", "STL"].iter().any(|other| name.starts_with(other));
    assert_eq!(code.names().find(generic), None, "memory that is not known to be global");
}

/// The compiler takes time for each instruction. Times themselves are printed: they differ from machine to machine.
#[test]
fn a_cold_start_compiles_few_instructions() {
    for compiler in compilers().unwrap() {
        let mut all = 0;
        for (name, source) in [("copy_words", COPY_WORDS), ("fill", FILL), ("fetch_word", FETCH_WORD)] {
            let begun = Instant::now();
            let compiled = compiler.compile(source, Target::Ptx(90)).unwrap();
            let time = begun.elapsed();
            let text = String::from_utf8(compiled.code).unwrap();
            let instructions = text.lines().filter(|line| is_instruction(line.trim())).count();
            println!("{name}: {instructions} instructions in {time:.0?}, by {}", compiler.path());
            all += instructions;
        }
        assert!(all > 0 && all < COLD_START, "{all} instructions");
    }
}

/// Of PTX: directives begin with a point, and nothing else ends with a semicolon.
fn is_instruction(line: &str) -> bool {
    line.ends_with(';') && !line.starts_with('.')
}

/// Instructions that a thread executes for a word.
struct Counted {
    /// The longest way around the loop for entries of three axes.
    plain: f64,
    /// The same with what comes before the loop, for a tile of the greatest size.
    tile: f64,
    /// The longest way around the loop for all entries, with two axes: lists on both sides, words in pieces.
    rows: f64,
}

/// Counts in the two loops that move words of 16 bytes whole: that without a loop within is for plain entries.
fn count(code: &Code, bytes: usize, suffix: &str) -> Counted {
    let moves = |first: &usize| code.around(*first, "STG.E.128", AT_ONCE, 1).is_some();
    let (plain, any): (Vec<usize>, Vec<usize>) =
        code.loops().map(|(first, _)| first).filter(moves).partition(|first| !code.has_loops(*first));
    let ([plain], [any]) = (&plain[..], &any[..]) else {
        panic!("expected a loop for plain entries and one for all, found {plain:?} and {any:?}");
    };
    let store = format!("STG.E{suffix}");
    let way = code.around(*plain, &store, AT_ONCE, 1).expect("a way with four stores");
    // All loads come before the first store.
    let load = format!("LDG.E{suffix}");
    let accesses: Vec<&str> = way
        .instructions
        .iter()
        .map(|at| code.name(*at))
        .filter(|name| *name == load || *name == store)
        .collect();
    assert_eq!(accesses, [vec![&load[..]; AT_ONCE], vec![&store[..]; AT_ONCE]].concat());
    let rows = code.around(*any, &store, AT_ONCE, AXES_OF_ROWS).expect("a way with four stores");
    let before = code.until(*plain).expect("a way to the loop").executed;
    let rounds = COPY_TILE_BYTES / (bytes * COPY_GROUP_THREADS * AT_ONCE);
    let a_word = |executed: usize, rounds: usize| executed as f64 / (rounds * AT_ONCE) as f64;
    Counted {
        plain: a_word(way.executed, 1),
        tile: a_word(before + rounds * way.executed, rounds),
        rows: a_word(rows.executed, 1),
    }
}

/// The part of the threads of a multiprocessor of sm_80 or sm_90 that registers allow: CUDA Programming Guide, "Compute
/// Capabilities", and Nsight Compute's occupancy calculator. It has 4 partitions of 16 warps and 16384 registers; a warp
/// of 32 threads takes registers by 256.
fn occupancy(registers: usize) -> f64 {
    let of_warp = (32 * registers).next_multiple_of(256);
    let warps = 4 * (16384 / of_warp).min(16);
    let warps_of_group = COPY_GROUP_THREADS / 32;
    (warps / warps_of_group * warps_of_group) as f64 / 64.0
}

/// `ptxas info    : Used 48 registers, used 0 barriers`
fn registers(compiled: &Compiled) -> usize {
    let used = compiled.log.split("Used ").nth(1).and_then(|rest| rest.split_once(" registers"));
    used.expect("a log of registers").0.parse().unwrap()
}

fn disassembler() -> Option<String> {
    let path = std::env::var("HALOPORT_NVDISASM").ok();
    if path.is_none() {
        eprintln!("skipped: HALOPORT_NVDISASM names no nvdisasm; scripts/opencl --install gets one");
    }
    path
}

fn disassemble(disassembler: &Path, compiled: &Compiled) -> Code {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernel.cubin");
    std::fs::write(&file, &compiled.code).unwrap();
    let printed = Command::new(disassembler).arg("-c").arg(&file).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    Code::new(&String::from_utf8(printed.stdout).unwrap())
}

#[test]
fn occupancy_is_that_of_the_calculator() {
    for (registers, expected) in [(32, 64), (40, 48), (48, 40), (49, 36), (56, 36), (64, 32), (70, 28)] {
        assert_eq!(occupancy(registers), f64::from(expected) / 64.0, "{registers} registers");
    }
}
