// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every program fits in the stack of the oldest supported verifiers. Loading does not show this: before Linux 6.7 the
//! frame of each function is rounded up to 32 bytes, since then to 16, and all frames of a call chain may take 512
//! bytes.

use libbpf_rs::libbpf_sys::{bpf_insn, BPF_PSEUDO_CALL, BPF_PSEUDO_FUNC};
use libbpf_rs::ObjectBuilder;

const LIMIT: usize = 512;
const ROUNDED_TO: usize = 32;

const FRAME_POINTER: u8 = 10;
/// `include/uapi/linux/bpf_common.h` and `include/uapi/linux/bpf.h`.
const CLASS: u8 = 0x07;
const LDX: u8 = 0x01;
const ST: u8 = 0x02;
const STX: u8 = 0x03;
const MOV_REGISTER: u8 = 0xbf;
const ADD_NUMBER: u8 = 0x07;
const CALL: u8 = 0x85;
const LOAD_IMM64: u8 = 0x18;

/// A program, followed by the functions that libbpf has appended.
struct Code<'a>(&'a [bpf_insn]);

impl Code<'_> {
    /// The target of the call at `at`.
    fn callee(&self, at: usize) -> Option<usize> {
        let insn = &self.0[at];
        let is_function = insn.code == CALL && u32::from(insn.src_reg()) == BPF_PSEUDO_CALL;
        is_function.then(|| (at as i64 + 1 + i64::from(insn.imm)) as usize)
    }

    /// The beginnings of functions, in order.
    fn functions(&self) -> Vec<usize> {
        let mut begins: Vec<usize> = (0..self.0.len()).filter_map(|i| self.callee(i)).collect();
        begins.push(0);
        begins.sort_unstable();
        begins.dedup();
        begins
    }

    /// The number of stack bytes that a function uses, derived from its instructions with the frame pointer.
    fn frame(&self, function: std::ops::Range<usize>) -> usize {
        let of = |at: usize| {
            let insn = &self.0[at];
            let accessed = match insn.code & CLASS {
                LDX => insn.src_reg() == FRAME_POINTER,
                ST | STX => insn.dst_reg() == FRAME_POINTER,
                _ => false,
            };
            if accessed {
                return -i64::from(insn.off);
            }
            // An address on the stack is the frame pointer, immediately followed by an addition.
            if insn.code == MOV_REGISTER && insn.src_reg() == FRAME_POINTER {
                let next = &self.0[at + 1];
                assert_eq!((next.code, next.dst_reg()), (ADD_NUMBER, insn.dst_reg()));
                return -i64::from(next.imm);
            }
            0
        };
        function.map(of).max().unwrap_or(0).max(1) as usize
    }

    /// The total size of the frames of the deepest call chain from a function.
    fn depth(&self, begin: usize) -> usize {
        let begins = self.functions();
        let end = begins.iter().copied().find(|b| *b > begin);
        let function = begin..end.unwrap_or(self.0.len());
        let callees = function.clone().filter_map(|i| self.callee(i));
        let below = callees.map(|callee| self.depth(callee)).max();
        self.frame(function).next_multiple_of(ROUNDED_TO) + below.unwrap_or(0)
    }
}

fn every_program_fits(object: &str) {
    let path = format!("{}/{object}.bpf.o", env!("OUT_DIR"));
    let mut open = ObjectBuilder::default()
        .open_file(path)
        .expect("the build has made it");
    for mut program in open.progs_mut() {
        program.set_autoload(true);
    }
    // Callbacks of helpers would also be functions.
    let is_callback =
        |insn: &bpf_insn| insn.code == LOAD_IMM64 && u32::from(insn.src_reg()) == BPF_PSEUDO_FUNC;
    // Only a loaded program contains the functions that it calls.
    let loaded = open.load().expect("it loads (as root)");
    for program in loaded.progs() {
        assert!(!program.insns().iter().any(is_callback));
        let depth = Code(program.insns()).depth(0);
        assert!(
            depth <= LIMIT,
            "{} takes {depth} bytes of stack",
            program.name().to_string_lossy()
        );
    }
}

#[test]
fn of_a_clat() {
    every_program_fits("clat");
}

#[test]
fn of_a_translator_without_state() {
    every_program_fits("siit");
}

#[test]
fn of_a_nat64() {
    every_program_fits("nat64");
}

#[test]
fn of_the_answers_to_neighbours() {
    every_program_fits("answer");
}

#[test]
fn of_what_forwards_to_other_gateways() {
    every_program_fits("forward");
}

#[test]
fn of_what_keeps_marks() {
    every_program_fits("label");
}
