//! What SPIR-V modules say of the parameters of their kernels. The numbers are those of the specification,
//! <https://registry.khronos.org/SPIR-V/specs/unified1/SPIRV.html>.

use std::collections::HashMap;

/// A parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// An address in global memory.
    Address,
    /// An address in local memory, for which the caller gives a size.
    Local,
    /// A plain value with this number of bytes; 0 if that is not known.
    Value(usize),
}

/// The kernels of a module by their names, with their parameters; `None` if it is no module.
pub(crate) fn kernels(module: &[u8]) -> Option<HashMap<String, Vec<Parameter>>> {
    let words: Vec<u32> =
        module.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
    if words.first() != Some(&MAGIC) || words.len() < 5 || !module.len().is_multiple_of(4) {
        return None;
    }
    let mut read = Read::default();
    let mut at = 5;
    while at < words.len() {
        let (code, length) = (words[at] & 0xffff, (words[at] >> 16) as usize);
        let operands = words.get(at + 1..at + length.max(1))?;
        read.instruction(code, operands)?;
        at += length.max(1);
    }
    Some(read.kernels())
}

const MAGIC: u32 = 0x0723_0203;

/// What is known of a module so far.
#[derive(Debug, Default)]
struct Read {
    /// Names and functions of kernels.
    entries: Vec<(String, u32)>,
    types: HashMap<u32, Type>,
    constants: HashMap<u32, u32>,
    packed: Vec<u32>,
    /// The types of the parameters of a function.
    functions: HashMap<u32, Vec<u32>>,
    function: u32,
}

#[derive(Debug)]
enum Type {
    Scalar(usize),
    Vector(u32, usize),
    Array(u32, u32),
    Structure(Vec<u32>),
    Pointer(u32, u32),
}

impl Read {
    fn instruction(&mut self, code: u32, operands: &[u32]) -> Option<()> {
        match (code, operands) {
            // OpEntryPoint of the execution model Kernel
            (15, [6, function, name @ ..]) => self.entries.push((text(name), *function)),
            // OpTypeBool, OpTypeInt, OpTypeFloat
            (20, [id]) => drop(self.types.insert(*id, Type::Scalar(1))),
            (21 | 22, [id, bits, ..]) => drop(self.types.insert(*id, Type::Scalar(*bits as usize / 8))),
            // OpTypeVector, OpTypeArray, OpTypeStruct, OpTypePointer
            (23, [id, of, count]) => drop(self.types.insert(*id, Type::Vector(*of, *count as usize))),
            (28, [id, of, count]) => drop(self.types.insert(*id, Type::Array(*of, *count))),
            (30, [id, members @ ..]) => drop(self.types.insert(*id, Type::Structure(members.to_vec()))),
            (32, [id, class, of]) => drop(self.types.insert(*id, Type::Pointer(*class, *of))),
            // OpConstant
            (43, [_, id, value, ..]) => drop(self.constants.insert(*id, *value)),
            // OpFunction, OpFunctionParameter
            (54, [_, id, ..]) => self.function = *id,
            (55, [of, _]) => self.functions.entry(self.function).or_default().push(*of),
            // OpDecorate CPacked
            (71, [id, 10, ..]) => self.packed.push(*id),
            (15 | 20..=23 | 28 | 32 | 43 | 54 | 55, []) => return None,
            _ => {}
        }
        Some(())
    }

    fn kernels(&self) -> HashMap<String, Vec<Parameter>> {
        let parameters = |function: &u32| {
            let types = self.functions.get(function).map(Vec::as_slice).unwrap_or_default();
            types.iter().map(|of| self.parameter(*of)).collect()
        };
        self.entries.iter().map(|(name, function)| (name.clone(), parameters(function))).collect()
    }

    fn parameter(&self, of: u32) -> Parameter {
        match self.types.get(&of) {
            // UniformConstant, CrossWorkgroup and Generic
            Some(Type::Pointer(0 | 5 | 8, _)) => Parameter::Address,
            Some(Type::Pointer(4, _)) => Parameter::Local,
            // Function: a structure by value.
            Some(Type::Pointer(_, value)) => Parameter::Value(self.layout(*value).0),
            _ => Parameter::Value(self.layout(of).0),
        }
    }

    /// The size and the alignment of a type in OpenCL C.
    fn layout(&self, of: u32) -> (usize, usize) {
        match self.types.get(&of) {
            Some(Type::Scalar(bytes)) => (*bytes, *bytes),
            Some(Type::Vector(of, count)) => {
                let bytes = self.layout(*of).0 * count.next_power_of_two();
                (bytes, bytes)
            }
            Some(Type::Array(of, count)) => {
                let (bytes, alignment) = self.layout(*of);
                (bytes * self.constants.get(count).copied().unwrap_or_default() as usize, alignment)
            }
            Some(Type::Structure(members)) => {
                let packed = self.packed.contains(&of);
                let (mut end, mut largest) = (0_usize, 1);
                for (bytes, alignment) in members.iter().map(|member| self.layout(*member)) {
                    let alignment = if packed { 1 } else { alignment.max(1) };
                    end = end.next_multiple_of(alignment) + bytes;
                    largest = largest.max(alignment);
                }
                (end.next_multiple_of(largest), largest)
            }
            Some(Type::Pointer(..)) => (8, 8),
            None => (0, 1),
        }
    }
}

/// A text in words, which ends with 0.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn haloports_own_kernels_have_the_parameters_of_their_texts() {
        let module = include_bytes!("../../../backend-sycl/spirv/copy_words.spv");
        let expected = [Parameter::Address, Parameter::Address, Parameter::Value(8), Parameter::Value(536)];
        assert_eq!(kernels(module).expect("a module")["copy_words"], expected);
        let module = include_bytes!("../../../backend-sycl/spirv/fill.spv");
        let mut expected = vec![Parameter::Address];
        expected.extend([Parameter::Value(8); 4]);
        assert_eq!(kernels(module).expect("a module")["fill"], expected);
    }

    #[test]
    fn other_bytes_are_no_module() {
        assert_eq!(kernels(b"no module"), None);
        assert_eq!(kernels(&[]), None);
    }
}
