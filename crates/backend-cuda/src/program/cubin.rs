//! Checks that bytes are complete machine code for NVIDIA GPUs: the driver gets an address without a length, and
//! follows the offsets that it finds there.

/// `EM_CUDA`, the machine in the header of an ELF file.
const MACHINE: u64 = 190;

/// Whether `bytes` are an ELF file for NVIDIA GPUs whose tables and sections lie within it.
///
/// The numbers and offsets are those of "Tool Interface Standard, Executable and Linking Format", for files of 64 bits,
/// lowest byte first.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    whole(bytes).unwrap_or(false)
}

fn whole(bytes: &[u8]) -> Option<bool> {
    const NO_BITS: u64 = 8;

    // Magic number, 64 bits, lowest byte first.
    if !bytes.starts_with(b"\x7fELF\x02\x01") || number(bytes, 18, 2)? != MACHINE {
        return Some(false);
    }
    let [programs, sections] = [number(bytes, 32, 8)?, number(bytes, 40, 8)?];
    let [program_bytes, program_count, section_bytes, section_count] =
        [number(bytes, 54, 2)?, number(bytes, 56, 2)?, number(bytes, 58, 2)?, number(bytes, 60, 2)?];
    let length = bytes.len() as u64;
    let within = |begin: u64, extent: u64| begin.checked_add(extent).is_some_and(|end| end <= length);
    if section_count == 0
        || !within(programs, program_bytes * program_count)
        || !within(sections, section_bytes * section_count)
    {
        return Some(false);
    }
    for section in (0..section_count).map(|section| (sections + section * section_bytes) as usize) {
        let kind = number(bytes, section.checked_add(4)?, 4)?;
        let (begin, extent) =
            (number(bytes, section.checked_add(24)?, 8)?, number(bytes, section.checked_add(32)?, 8)?);
        if kind != NO_BITS && !within(begin, extent) {
            return Some(false);
        }
    }
    Some(true)
}

/// The number in `length` bytes from `begin` on, lowest byte first.
fn number(bytes: &[u8], begin: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(begin..begin.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::compiler::{Request, compiler};

    #[test]
    fn what_is_cut_off_or_of_another_machine_is_none() {
        assert!(!is_whole(b"") && !is_whole(b"\x7fELF") && !is_whole(b".version 8.0"));
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!is_whole(&program), "a program of this machine");
        let Ok(compiler) = compiler(12) else {
            eprintln!("skipped: no NVRTC");
            return;
        };
        let text = "extern \"C\" __global__ void f(int *x) { *x = 1; }";
        let request = Request { name: "f", text, capability: 80, device: crate::driver::functions::ANY };
        let cubin = compiler.compile(&request).unwrap();
        assert!(is_whole(&cubin));
        for length in 0..cubin.len() {
            // Only padding behind the last table may be missing.
            assert!(!is_whole(&cubin[..length]) || length + 64 > cubin.len(), "the first {length} bytes");
        }
    }
}
