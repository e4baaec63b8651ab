//! Compiles a filter to classic BPF.
//!
//! It is a binary search tree and not a linear list, as existing crates generate: on installation the kernel evaluates the filter once for every
//! system call (for its constant-action bitmap), and for a list of this length that takes as long as starting a program.

use libc::sock_filter;

use super::Comparison::{Above, Below, HasAny, Is, IsNot, Within};
use super::Condition;

pub(super) const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
pub(super) const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
pub(super) const IF_ABOVE: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
pub(super) const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
pub(super) const SKIP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
pub(super) const MASK: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
pub(super) const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
pub(super) const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
pub(super) const NOT_THERE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();

#[cfg(target_arch = "x86_64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_00b7;

/// An instruction: opcode, operand, and how many instructions to skip if it holds and if it does not.
const fn line(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

pub(super) const fn answer(with: u32) -> sock_filter {
    line(ANSWER, with, 0, 0)
}

pub(super) fn number(call: i64) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// The whole program: refuses these calls as their leaves say, returns `ENOSYS` for calls above `newest`, and allows all others.
pub(super) fn program(mut leaves: Vec<Leaf>, newest: u32) -> Vec<sock_filter> {
    leaves.sort_by_key(|leaf| leaf.first);
    let leaves = Leaf::joined(leaves);
    let mut program = vec![
        // The architecture is checked first: call numbers differ between architectures.
        line(LOAD, 4, 0, 0),
        line(IF_EQUAL, ARCHITECTURE, 1, 0),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        line(LOAD, 0, 0, 0),
        line(IF_ABOVE, newest, 0, 1),
        answer(NOT_THERE),
    ];
    program.extend(tree(&leaves));
    with_shared_answers(&program).unwrap_or(program)
}

/// Calls with consecutive numbers, and their common code.
pub(super) struct Leaf {
    first: u32,
    last: u32,
    lines: Vec<sock_filter>,
}

impl Leaf {
    pub(super) fn of(call: i64, lines: Vec<sock_filter>) -> Self {
        Self { first: number(call), last: number(call), lines }
    }

    /// Joins neighbours with the same unconditional result: fewer instructions make commands start faster.
    fn joined(sorted: Vec<Self>) -> Vec<Self> {
        let mut joined: Vec<Self> = Vec::new();
        for leaf in sorted {
            match joined.last_mut() {
                Some(before)
                    if before.last + 1 == leaf.first
                        && before.answer().is_some()
                        && before.answer() == leaf.answer() =>
                {
                    before.last = leaf.last;
                }
                _ => joined.push(leaf),
            }
        }
        joined
    }

    /// The result, if it does not depend on arguments.
    fn answer(&self) -> Option<u32> {
        match &*self.lines {
            [only] if only.code == ANSWER => Some(only.k),
            _ => None,
        }
    }
}

/// Searches the call among sorted leaves; allows it if it is not found.
fn tree(leaves: &[Leaf]) -> Vec<sock_filter> {
    match leaves {
        [] => vec![answer(libc::SECCOMP_RET_ALLOW)],
        [leaf] => {
            let mut found = match leaf.first == leaf.last {
                true => vec![line(IF_EQUAL, leaf.first, 1, 0)],
                false => vec![line(IF_AT_LEAST, leaf.first, 0, 1), line(IF_ABOVE, leaf.last, 0, 1)],
            };
            found.push(answer(libc::SECCOMP_RET_ALLOW));
            found.extend(leaf.lines.iter().copied());
            found
        }
        several => {
            let (lower, upper) = several.split_at(several.len() / 2);
            let middle = upper.first().map_or(u32::MAX, |leaf| leaf.first);
            let (lower, upper) = (tree(lower), tree(upper));
            let mut whole = match u8::try_from(lower.len()) {
                Ok(past_lower) => vec![line(IF_AT_LEAST, middle, past_lower, 0)],
                Err(_) => {
                    let past_lower = u32::try_from(lower.len()).unwrap_or(u32::MAX);
                    vec![line(IF_AT_LEAST, middle, 0, 1), line(SKIP, past_lower, 0, 0)]
                }
            };
            whole.extend(lower);
            whole.extend(upper);
            whole
        }
    }
}

/// How far an identical return instruction may be to be shared: a jump skips at most 255 instructions, and this leaves a margin.
const SHARED_WITHIN: usize = 150;

/// Shares identical return instructions that are near each other: half of the tree are returns, and the kernel compiles the program for every command
/// that starts. Measured: 315 instructions become 199. `None` if a jump does not fit its field.
fn with_shared_answers(program: &[sock_filter]) -> Option<Vec<sock_filter>> {
    // Built from the end, because BPF jumps only forward. Positions are counted from the end too.
    let mut reversed: Vec<sock_filter> = Vec::with_capacity(program.len());
    let mut places = vec![0; program.len()];
    for (at, instruction) in program.iter().enumerate().rev() {
        let here = reversed.len();
        let skipped = |offset: usize| here.checked_sub(places.get(at + 1 + offset)? + 1);
        let sock_filter { code, jt, jf, k } = *instruction;
        let moved = match code {
            ANSWER => {
                let same = reversed.iter().rposition(|known| known.code == ANSWER && known.k == k);
                if let Some(near) = same.filter(|place| here - place <= SHARED_WITHIN) {
                    *places.get_mut(at)? = near;
                    continue;
                }
                *instruction
            }
            SKIP => line(SKIP, u32::try_from(skipped(usize::try_from(k).ok()?)?).ok()?, 0, 0),
            IF_EQUAL | IF_ABOVE | IF_AT_LEAST => {
                let jump = |offset: u8| u8::try_from(skipped(usize::from(offset))?).ok();
                line(code, k, jump(jt)?, jump(jf)?)
            }
            _ => *instruction,
        };
        reversed.push(moved);
        *places.get_mut(at)? = here;
    }
    reversed.reverse();
    Some(reversed)
}

/// Refuses if every condition of one case holds, or always if there are no cases.
pub(super) fn refuse_cases(cases: &[&[Condition]]) -> Vec<sock_filter> {
    if cases.is_empty() {
        return vec![answer(REFUSED)];
    }
    let mut lines = Vec::new();
    for case in cases {
        let mut conditions: Vec<Vec<sock_filter>> = Vec::new();
        // From last to first, because each condition must know how much to skip.
        let mut to_next_case = 1_usize;
        for condition in case.iter().rev() {
            let made = holds(*condition, to_next_case);
            to_next_case += made.len();
            conditions.push(made);
        }
        lines.extend(conditions.into_iter().rev().flatten());
        lines.push(answer(REFUSED));
    }
    lines.push(answer(libc::SECCOMP_RET_ALLOW));
    lines
}

/// Continues if a condition holds, and skips `otherwise` instructions if not. Only the low 32 bits are compared: the kernel uses no more of these
/// arguments either.
fn holds((argument, comparison, value): Condition, otherwise: usize) -> Vec<sock_filter> {
    let load = line(LOAD, 16 + 8 * u32::from(argument), 0, 0);
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    let skip = u8::try_from(otherwise).unwrap_or(u8::MAX);
    match comparison {
        Is => vec![load, line(IF_EQUAL, value, 0, skip)],
        IsNot => vec![load, line(IF_EQUAL, value, skip, 0)],
        Above => vec![load, line(IF_ABOVE, value, 0, skip)],
        Below => vec![load, line(IF_AT_LEAST, value, skip, 0)],
        HasAny => vec![load, line(MASK, value, 0, 0), line(IF_EQUAL, 0, skip, 0)],
        Within(mask) => {
            let mask = u32::try_from(mask).unwrap_or(u32::MAX);
            vec![load, line(MASK, mask, 0, 0), line(IF_EQUAL, value, 0, skip)]
        }
    }
}
