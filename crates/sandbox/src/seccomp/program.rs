//! A filter as a program of the kernel's classic BPF.
//!
//! It is a tree of comparisons and not a list, as crates make it: when a filter is installed the kernel walks it once for every system call there is, and
//! for a list of this length that takes as long as starting a program.

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

/// An instruction: what, with which number, and how many to skip when it holds and when it does not.
const fn line(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

pub(super) const fn answer(with: u32) -> sock_filter {
    line(ANSWER, with, 0, 0)
}

pub(super) fn number(call: i64) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// The whole program: refuses these calls as their leaves say, knows none above `newest`, and allows all others.
pub(super) fn program(mut leaves: Vec<Leaf>, newest: u32) -> Vec<sock_filter> {
    leaves.sort_by_key(|leaf| leaf.first);
    let leaves = Leaf::joined(leaves);
    let mut program = vec![
        // The architecture is asked first: numbers mean something else on another one.
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

/// Calls with neighbouring numbers, and what is done about all of them.
pub(super) struct Leaf {
    first: u32,
    last: u32,
    lines: Vec<sock_filter>,
}

impl Leaf {
    pub(super) fn of(call: i64, lines: Vec<sock_filter>) -> Self {
        Self { first: number(call), last: number(call), lines }
    }

    /// Neighbours with one and the same short answer become one: the fewer instructions, the sooner a command starts.
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

    /// The answer, where it does not depend on arguments.
    fn answer(&self) -> Option<u32> {
        match &*self.lines {
            [only] if only.code == ANSWER => Some(only.k),
            _ => None,
        }
    }
}

/// Finds the call among sorted leaves, or allows it.
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

/// How far from an answer one that is the same may be to serve in its place: a jump skips at most 255 instructions, and those to an answer are short.
const SHARED_WITHIN: usize = 150;

/// The same program with each answer once for all that are near: half of a tree are answers, and the kernel compiles the program for every command that starts.
/// Measured: 315 instructions become 199. Nothing if an instruction cannot say how far its jump is.
fn with_shared_answers(program: &[sock_filter]) -> Option<Vec<sock_filter>> {
    // Made from its end, because jumps go forward. Places are counted from the end too.
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

/// Refuses when every condition of one case holds, or always when there is no case.
pub(super) fn refuse_cases(cases: &[&[Condition]]) -> Vec<sock_filter> {
    if cases.is_empty() {
        return vec![answer(REFUSED)];
    }
    let mut lines = Vec::new();
    for case in cases {
        let mut conditions: Vec<Vec<sock_filter>> = Vec::new();
        // From the last to the first, because each has to know how much to skip.
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

/// Goes on when a condition holds, and skips `otherwise` instructions when it does not. Arguments of interest fit in their lower half; the kernel looks
/// at no more of them either.
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
