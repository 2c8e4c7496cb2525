//! The stack of each program, as Linux 6.1 adds it up: what functions that call each other take, each rounded up to 32 bytes. Newer kernels
//! round to less, so a chain that 6.1 refuses loads here.
#![allow(clippy::unwrap_used, reason = "tests stop at the first thing that is wrong")]

use super::{Relocated, prepare, take};
use crate::skeleton::FirewallSkelBuilder;
use libbpf_rs::skel::{OpenSkel as _, SkelBuilder as _};
use libbpf_sys::bpf_insn;
use std::collections::BTreeMap;

/// What one program may take (`MAX_BPF_STACK` of the kernel).
const MOST_BYTES: u32 = 512;
/// What each function is rounded up to.
const ROUND_BYTES: u32 = 32;
const FRAME: u8 = 10;
/// `mov` and `add` of 64 bits, `call`, and `ld_imm64`.
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;
const CALL: u8 = 0x85;
const LOAD_LONG: u8 = 0x18;
/// A call of a function of the program, and such a function's address for a helper that calls it.
const CALLED: u8 = 1;
const HANDED: u8 = 4;

/// A function of a program.
#[derive(Default)]
struct Function {
    bytes: u32,
    /// Where the functions begin that it calls, or has a helper call.
    calls: Vec<usize>,
}

/// The functions of a program by where they begin.
fn functions(program: &Relocated) -> BTreeMap<usize, Function> {
    let begins: Vec<usize> = program.functions.iter().map(|function| function.insn_off as usize).collect();
    let ends = begins.iter().skip(1).copied().chain([program.instructions.len()]);
    begins.iter().zip(ends).map(|(begin, end)| (*begin, function(program, *begin, end))).collect()
}

fn function(program: &Relocated, begin: usize, end: usize) -> Function {
    let mut found = Function::default();
    // Registers that point into the frame.
    let mut pointers = [false; 16];
    for at in begin..end {
        let instruction = &program.instructions[at];
        let (to, from) = (instruction.dst_reg(), instruction.src_reg());
        let beside = |offset: i32| usize::try_from(at as i64 + 1 + i64::from(offset)).unwrap();
        let deepest = match (instruction.code, instruction.code & 7) {
            (CALL, _) if from == CALLED => {
                found.calls.push(beside(instruction.imm));
                0
            }
            (LOAD_LONG, _) if from == HANDED => {
                found.calls.push(beside(instruction.imm));
                0
            }
            (ADD, _) if pointers[usize::from(to)] => instruction.imm,
            // Loads, and stores of a constant or a register.
            (_, 1) if from == FRAME => instruction.off.into(),
            (_, 2 | 3) if to == FRAME => instruction.off.into(),
            _ => 0,
        };
        pointers[usize::from(to)] = instruction.code == MOVE && from == FRAME;
        found.bytes = found.bytes.max(u32::try_from(-deepest).unwrap_or(0));
    }
    found
}

/// The most that a function and those that it calls take, and the functions of that chain.
fn deepest(functions: &BTreeMap<usize, Function>, begin: usize) -> (u32, Vec<usize>) {
    let function = &functions[&begin];
    let below = function.calls.iter().map(|called| deepest(functions, *called)).max().unwrap_or_default();
    let own = function.bytes.max(1).next_multiple_of(ROUND_BYTES);
    (own + below.0, [vec![begin], below.1].concat())
}

#[test]
fn needs_root_no_program_takes_more_stack_than_the_oldest_kernel_has() {
    let mut storage = std::mem::MaybeUninit::uninit();
    let mut open = FirewallSkelBuilder::default().open(&mut storage).unwrap();
    let names: Vec<String> =
        (open.open_object().progs()).map(|program| program.name().to_string_lossy().into_owned()).collect();
    prepare(&open).unwrap();
    let mut chains = 0;
    for name in names {
        let program = take(&mut open, &name).unwrap();
        let functions = functions(&program);
        // One that is loaded in its own time alone is not made ready here.
        if functions.is_empty() {
            continue;
        }
        let (bytes, chain) = deepest(&functions, 0);
        let chain: Vec<_> = chain.iter().map(|begin| (begin, functions[begin].bytes)).collect();
        assert!(bytes <= MOST_BYTES, "{name}: {bytes} bytes, by functions at these instructions: {chain:?}");
        chains += usize::from(chain.len() > 3);
    }
    assert!(chains > 3, "the large programs have functions that call each other");
}

#[test]
fn a_chain_is_counted_with_what_helpers_call() {
    let instruction = |code, registers: [u8; 2], off, imm| {
        let mut made = bpf_insn { code, off, imm, ..bpf_insn::default() };
        made.set_dst_reg(registers[0]);
        made.set_src_reg(registers[1]);
        made
    };
    // Stores at -40; calls the second; hands the third to a helper. The second takes a pointer to -100, the third loads from -8.
    let instructions = vec![
        instruction(0x7b, [FRAME, 1], -40, 0),
        instruction(CALL, [0, CALLED], 0, 3),
        instruction(LOAD_LONG, [2, HANDED], 0, 5),
        instruction(0, [0, 0], 0, 0),
        instruction(0x95, [0, 0], 0, 0),
        instruction(MOVE, [2, FRAME], 0, 0),
        instruction(ADD, [2, 0], 0, -100),
        instruction(0x95, [0, 0], 0, 0),
        instruction(0x79, [1, FRAME], -8, 0),
        instruction(0x95, [0, 0], 0, 0),
    ];
    let begins = [0, 5, 8].map(|insn_off| libbpf_sys::bpf_func_info { insn_off, type_id: 0 });
    let mut program = Relocated {
        name: c"made".to_owned(),
        kind: 0,
        attach_type: 0,
        flags: 0,
        types: 0,
        instructions,
        functions: begins.to_vec(),
    };
    assert_eq!(deepest(&functions(&program), 0), (64 + 128, vec![0, 5]));
    program.instructions[6].imm = -8;
    program.instructions[8].off = -33;
    assert_eq!(deepest(&functions(&program), 0), (64 + 64, vec![0, 8]));
}
