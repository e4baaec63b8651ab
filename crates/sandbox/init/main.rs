//! Process 1 of a sandbox: starts the command, forwards `SIGTERM`, reaps orphans, and reports how the command ended.
//!
//! When it exits, the kernel kills every other process of its PID namespace. Without such a namespace it is the subreaper of its descendants and
//! kills them one by one. It uses no memory but its stack, and makes no decisions.
//!
//! Arguments: `init`, `n` or `-` (whether there is a PID namespace), the program, the program's arguments. Descriptor 3 receives eight bytes: the
//! event (0 the command ended, 1 it could not be started) and its number (the `wait` status, or an errno).

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};

#[cfg(target_arch = "x86_64")]
mod number {
    pub const WRITE: usize = 1;
    pub const OPEN_AT: usize = 257;
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const SIGPROCMASK: usize = 14;
    pub const CLONE: usize = 56;
    pub const EXECVE: usize = 59;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const FCNTL: usize = 72;
    pub const SETPGID: usize = 109;
    pub const SIGTIMEDWAIT: usize = 128;
    pub const PRCTL: usize = 157;
    pub const EXIT_GROUP: usize = 231;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub const WRITE: usize = 64;
    pub const OPEN_AT: usize = 56;
    pub const READ: usize = 63;
    pub const CLOSE: usize = 57;
    pub const SIGPROCMASK: usize = 135;
    pub const CLONE: usize = 220;
    pub const EXECVE: usize = 221;
    pub const WAIT4: usize = 260;
    pub const KILL: usize = 129;
    pub const FCNTL: usize = 25;
    pub const SETPGID: usize = 154;
    pub const SIGTIMEDWAIT: usize = 137;
    pub const PRCTL: usize = 167;
    pub const EXIT_GROUP: usize = 94;
}

/// Passes the initial stack pointer to `start` in the first argument.
#[cfg(target_arch = "x86_64")]
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "mov rdi, rsp", "and rsp, -16", "call {start}", "ud2", start = sym start);
#[cfg(target_arch = "aarch64")]
global_asm!(".globl _start", "_start:", "mov x29, xzr", "mov x0, sp", "bl {start}", "brk #1", start = sym start);

#[cfg(target_arch = "x86_64")]
fn call(number: usize, arguments: [usize; 4]) -> isize {
    let [a, b, c, d] = arguments;
    let result: isize;
    // SAFETY: the kernel reads and writes only what the arguments point at, which every caller keeps alive.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") 0, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

#[cfg(target_arch = "aarch64")]
fn call(number: usize, arguments: [usize; 4]) -> isize {
    let [a, b, c, d] = arguments;
    let result: isize;
    // SAFETY: the kernel reads and writes only what the arguments point at, which every caller keeps alive.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result, in("x1") b, in("x2") c, in("x3") d, in("x4") 0,
            options(nostack));
    }
    result
}

const SIGINT: usize = 2;
const SIGKILL: usize = 9;
const SIGTERM: usize = 15;
const SIGCHLD: usize = 17;
const SIGCONT: usize = 18;
const REPORT: usize = 3;
/// `CLONE_VM | CLONE_VFORK`, with `SIGCHLD` on exit: the child shares this memory, on a stack of its own, until `execve`.
const START_CHILD: usize = 0x100 | 0x4000 | SIGCHLD;
/// How far below this process's stack the child's starts.
const CHILD_STACK: usize = 32 * 1024;

/// The command's `argv` and `envp`, as the kernel laid them out.
#[repr(C)]
struct Becoming {
    arguments: *const usize,
    environment: *const usize,
    is_namespace: bool,
}

extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: the kernel puts `argc` here, then the arguments, a null, the environment and another null.
    let (count, arguments) = unsafe { (*stack, stack.add(1)) };
    // SAFETY: the gate passes a mode and a program before the program's own arguments.
    let (mode, command) = unsafe { (*(*arguments.add(1) as *const u8), arguments.add(2)) };
    let is_namespace = mode == b'n';
    // SAFETY: the environment begins after the arguments and their null.
    let becoming = unsafe { Becoming { arguments: command, environment: arguments.add(count + 1), is_namespace } };
    // `PR_SET_DUMPABLE` 0: no process inside may ptrace this one or open its files through `/proc`. Without a namespace, `PR_SET_CHILD_SUBREAPER`
    // sends orphans here.
    call(number::PRCTL, [4, 0, 0, 0]);
    if !is_namespace {
        call(number::PRCTL, [36, 1, 0, 0]);
    }
    call(number::FCNTL, [REPORT, 2, 1, 0]);
    let waited: u64 = (1 << (SIGCHLD - 1)) | (1 << (SIGTERM - 1)) | (1 << (SIGINT - 1));
    mask(waited);
    let child = start_child((stack as usize - CHILD_STACK) & !15, &becoming);
    // Close the pipes: they must report end of file when the command ends, not when this process does.
    for file in 0..REPORT {
        call(number::CLOSE, [file, 0, 0, 0]);
    }
    let status = wait_for(child, waited, is_namespace);
    if !is_namespace {
        end_descendants();
    }
    report(0, status);
    exit(0)
}

#[cfg(target_arch = "x86_64")]
fn start_child(stack: usize, becoming: &Becoming) -> isize {
    let result: isize;
    // SAFETY: the child runs `become_command` on a stack that nothing else uses and never returns; this process waits until it is done with the
    // shared memory.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r9", "call {child}", "ud2", "2:", child = sym become_command,
            inlateout("rax") number::CLONE as isize => result, in("rdi") START_CHILD, in("rsi") stack, in("rdx") 0, in("r10") 0, in("r8") 0,
            in("r9") becoming, lateout("rcx") _, lateout("r11") _);
    }
    result
}

#[cfg(target_arch = "aarch64")]
fn start_child(stack: usize, becoming: &Becoming) -> isize {
    let result: isize;
    // SAFETY: the child runs `become_command` on a stack that nothing else uses and never returns; this process waits until it is done with the
    // shared memory.
    unsafe {
        asm!("svc 0", "cbnz x0, 2f", "mov x29, xzr", "mov x0, x9", "bl {child}", "brk #1", "2:", child = sym become_command,
            in("x8") number::CLONE, inlateout("x0") START_CHILD as isize => result, in("x1") stack, in("x2") 0, in("x3") 0, in("x4") 0,
            in("x9") becoming, lateout("x30") _);
    }
    result
}

extern "C" fn become_command(becoming: &Becoming) -> ! {
    // Without a namespace: a process group of its own (`setpgid`), which `SIGTERM` is sent to, and `PR_SET_PDEATHSIG`, so that the command does not
    // outlive a process 1 that is killed.
    if !becoming.is_namespace {
        call(number::SETPGID, [0, 0, 0, 0]);
        call(number::PRCTL, [1, SIGKILL, 0, 0]);
    }
    mask(0);
    // SAFETY: the program's path is the first of its arguments.
    let program = unsafe { *becoming.arguments };
    let error = call(number::EXECVE, [program, becoming.arguments as usize, becoming.environment as usize, 0]);
    report(1, -error as i32);
    exit(127)
}

/// Blocks exactly these signals.
fn mask(signals: u64) {
    call(number::SIGPROCMASK, [2, &raw const signals as usize, 0, 8]);
}

/// Reaps children until the command ends, or until the gate sends `SIGINT`: kill everything. With a namespace the gate kills this process instead, and
/// the kernel the rest.
fn wait_for(child: isize, waited: u64, is_namespace: bool) -> i32 {
    loop {
        loop {
            let mut status = 0_i32;
            let ended = call(number::WAIT4, [usize::MAX, &raw mut status as usize, 1, 0]);
            if ended == child || ended == -10 {
                return status;
            }
            if ended <= 0 {
                break;
            }
        }
        let signal = call(number::SIGTIMEDWAIT, [&raw const waited as usize, 0, 0, 8]);
        if signal == SIGINT as isize {
            return SIGKILL as i32;
        }
        if signal == SIGTERM as isize {
            // All processes except this one; without a namespace, the command's process group.
            let whom = if is_namespace { -1 } else { -child };
            call(number::KILL, [whom as usize, SIGTERM, 0, 0]);
            // A stopped process handles `SIGTERM` only after `SIGCONT`.
            call(number::KILL, [whom as usize, SIGCONT, 0, 0]);
        }
    }
}

/// Kills what the command left running, repeatedly, until no descendant is left.
fn end_descendants() {
    loop {
        kill_children();
        let ended = call(number::WAIT4, [usize::MAX, 0, 0, 0]);
        if ended == -10 {
            return;
        }
    }
}

/// The kernel lists the children as PIDs, each followed by a space.
fn kill_children() {
    let file = call(number::OPEN_AT, [-100_isize as usize, c"/proc/thread-self/children".as_ptr() as usize, 0, 0]);
    if file < 0 {
        return;
    }
    let (mut byte, mut process) = (0_u8, 0_usize);
    while call(number::READ, [file as usize, &raw mut byte as usize, 1, 0]) == 1 {
        if byte.is_ascii_digit() {
            process = process * 10 + usize::from(byte - b'0');
        } else if process > 0 {
            call(number::KILL, [process, SIGKILL, 0, 0]);
            process = 0;
        }
    }
    call(number::CLOSE, [file as usize, 0, 0, 0]);
}

fn report(what: u32, number: i32) {
    let message: [u8; 8] = ((u64::from(number as u32) << 32) | u64::from(what)).to_le_bytes();
    call(number::WRITE, [REPORT, message.as_ptr() as usize, message.len(), 0]);
}

fn exit(code: usize) -> ! {
    loop {
        call(number::EXIT_GROUP, [code, 0, 0, 0]);
    }
}

/// Nothing in here panics; the language requires a handler all the same.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(126)
}
