//! The system calls that commands may not make, as data.
//!
//! Each line says what is refused and why. Any other call is allowed, up to the newest call that was reviewed for this list; newer calls return
//! `ENOSYS`. Calls whose arguments are in memory, which a filter cannot read, also return `ENOSYS`, so that programs fall back to their older
//! variants, whose arguments it can check.

mod program;

use std::sync::OnceLock;

use libc::sock_filter;

use self::program::{Leaf, NOT_THERE, answer, program, refuse_cases};

/// One refusal: the call returns `EPERM` if all conditions of one case hold; without cases, always.
struct DenyRule {
    call: i64,
    cases: &'static [&'static [Condition]],
}

/// A condition on one argument: its index, the comparison, and the operand.
type Condition = (u8, Comparison, u64);

#[derive(Clone, Copy)]
enum Comparison {
    Is,
    IsNot,
    Above,
    Below,
    /// At least one of these bits is set.
    HasAny,
    /// The masked bits are exactly these.
    Within(u64),
}

use Comparison::{Above, Below, HasAny, Is, IsNot, Within};

const fn deny(call: i64) -> DenyRule {
    DenyRule { call, cases: &[] }
}

const fn deny_if(call: i64, cases: &'static [&'static [Condition]]) -> DenyRule {
    DenyRule { call, cases }
}

/// Set-user-id and set-group-id bits: a file with them outlives the sandbox.
const SET_ID: u64 = 0o6000;
const SET_ID_IN_1: &[&[Condition]] = &[&[(1, HasAny, SET_ID)]];
const SET_ID_IN_2: &[&[Condition]] = &[&[(2, HasAny, SET_ID)]];
/// Flags with which a call creates a file; without them the mode is ignored.
const CREATE: u64 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u64;
/// The socket type without its flags.
const KIND: u64 = 0xf;
const UNIX: u64 = libc::AF_UNIX as u64;
const NETLINK: u64 = libc::AF_NETLINK as u64;
const DATAGRAM: u64 = libc::SOCK_DGRAM as u64;
const RAW: u64 = libc::SOCK_RAW as u64;

/// The `clone` flags that create namespaces.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP) as u64;

const DENY_RULES: &[DenyRule] = &[
    // Read, control or take descriptors from other processes.
    deny(libc::SYS_ptrace),
    deny(libc::SYS_process_vm_readv),
    deny(libc::SYS_process_vm_writev),
    deny(libc::SYS_process_madvise),
    deny(libc::SYS_pidfd_getfd),
    deny(libc::SYS_kcmp),
    // Namespaces: in a new user namespace a process has every capability, and with it a large attack surface of the kernel.
    deny(libc::SYS_unshare),
    deny(libc::SYS_setns),
    deny_if(libc::SYS_clone, &[&[(0, HasAny, NAMESPACES)]]),
    // Change the mounts of the sandbox.
    deny(libc::SYS_mount),
    deny(libc::SYS_umount2),
    deny(libc::SYS_pivot_root),
    deny(libc::SYS_chroot),
    deny(libc::SYS_open_tree),
    deny(OPEN_TREE_ATTR),
    deny(libc::SYS_move_mount),
    deny(libc::SYS_fsopen),
    deny(libc::SYS_fsconfig),
    deny(libc::SYS_fsmount),
    deny(libc::SYS_fspick),
    deny(libc::SYS_mount_setattr),
    deny(libc::SYS_swapon),
    deny(libc::SYS_swapoff),
    deny(libc::SYS_quotactl),
    deny(libc::SYS_quotactl_fd),
    // Open files by handle, bypassing the directories of their path.
    deny(libc::SYS_open_by_handle_at),
    deny(libc::SYS_name_to_handle_at),
    deny(libc::SYS_fanotify_init),
    // The user's keys: keyrings are in no namespace.
    deny(libc::SYS_add_key),
    deny(libc::SYS_request_key),
    deny(libc::SYS_keyctl),
    // Large parts of the kernel that commands do not need and that have been used to escape sandboxes. `io_uring` performs file and network
    // operations that seccomp does not see.
    deny(libc::SYS_io_uring_setup),
    deny(libc::SYS_io_uring_enter),
    deny(libc::SYS_io_uring_register),
    deny(libc::SYS_bpf),
    deny(libc::SYS_perf_event_open),
    deny(libc::SYS_userfaultfd),
    // The machine as a whole.
    deny(libc::SYS_init_module),
    deny(libc::SYS_finit_module),
    deny(libc::SYS_delete_module),
    deny(libc::SYS_kexec_load),
    deny(libc::SYS_kexec_file_load),
    deny(libc::SYS_reboot),
    deny(libc::SYS_acct),
    deny(libc::SYS_syslog),
    deny(libc::SYS_settimeofday),
    deny(libc::SYS_clock_settime),
    deny(libc::SYS_clock_adjtime),
    deny(libc::SYS_adjtimex),
    deny(libc::SYS_sethostname),
    deny(libc::SYS_setdomainname),
    deny(libc::SYS_vhangup),
    deny(libc::SYS_lookup_dcookie),
    deny(libc::SYS_nfsservctl),
    // Memory placement, also of other processes.
    deny(libc::SYS_mbind),
    deny(libc::SYS_migrate_pages),
    deny(libc::SYS_move_pages),
    deny(libc::SYS_set_mempolicy),
    // Personalities other than `PER_LINUX`, the query (`0xffffffff`) and `ADDR_NO_RANDOMIZE` re-enable legacy behaviour with known holes.
    deny_if(libc::SYS_personality, &[&[(0, IsNot, 0), (0, IsNot, 0xffff_ffff), (0, IsNot, 0x0004_0000)]]),
    // Inject input into the terminal of the person in front of it.
    deny_if(libc::SYS_ioctl, &[&[(1, Is, libc::TIOCSTI)], &[(1, Is, libc::TIOCLINUX)]]),
    // Sockets: only Unix, IPv4, IPv6 and `NETLINK_ROUTE`. A Unix datagram socket can send to any socket file, and a raw Unix socket is a datagram
    // socket under another name. `AF_VSOCK` reaches the hypervisor from any network namespace.
    deny_if(
        libc::SYS_socket,
        &[
            &[(0, Above, libc::AF_INET6 as u64), (0, IsNot, NETLINK)],
            &[(0, Above, libc::AF_INET as u64), (0, Below, libc::AF_INET6 as u64)],
            &[(0, Is, NETLINK), (2, IsNot, libc::NETLINK_ROUTE as u64)],
            &[(0, Is, UNIX), (1, Within(KIND), DATAGRAM)],
            &[(1, Within(KIND), RAW)],
        ],
    ),
    deny_if(
        libc::SYS_socketpair,
        &[&[(1, Within(KIND), DATAGRAM)], &[(1, Within(KIND), RAW)], &[(0, IsNot, UNIX)]],
    ),
    // Set-user-id files run with their owner's privileges.
    deny_if(libc::SYS_fchmod, SET_ID_IN_1),
    deny_if(libc::SYS_fchmodat, SET_ID_IN_2),
    deny_if(FCHMODAT2, SET_ID_IN_2),
    deny_if(libc::SYS_mkdirat, SET_ID_IN_2),
    deny_if(libc::SYS_mknodat, SET_ID_IN_2),
    deny_if(libc::SYS_openat, &[&[(2, HasAny, CREATE), (3, HasAny, SET_ID)]]),
];

const FCHMODAT2: i64 = 452;
const OPEN_TREE_ATTR: i64 = 467;

/// The legacy variants of the calls above, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[DenyRule] = &[
    deny_if(libc::SYS_chmod, SET_ID_IN_1),
    deny_if(libc::SYS_mkdir, SET_ID_IN_1),
    deny_if(libc::SYS_mknod, SET_ID_IN_1),
    deny_if(libc::SYS_creat, SET_ID_IN_1),
    deny_if(libc::SYS_open, &[&[(1, HasAny, CREATE), (2, HasAny, SET_ID)]]),
    deny(libc::SYS_iopl),
    deny(libc::SYS_ioperm),
    deny(libc::SYS_modify_ldt),
    deny(libc::SYS_uselib),
    deny(libc::SYS_ustat),
    deny(libc::SYS_sysfs),
    deny(libc::SYS__sysctl),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[DenyRule] = &[];

/// Calls that return `ENOSYS`: their arguments are in memory, and older variants do the same with checkable arguments.
const ENOSYS_CALLS: &[i64] = &[libc::SYS_clone3, libc::SYS_openat2];

/// The newest call that was reviewed: `file_setattr`.
const MAX_KNOWN_CALL: u32 = 469;

/// Numbers from here on belong to the x32 ABI, a second entry to every call.
const X32: u32 = 0x4000_0000;

/// Which sockets a command may create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// Those that reach only its own namespaces.
    Confined,
    /// The same without Unix sockets, because a socket file of the host in the view might be reachable.
    NoUnix,
    /// None: without a network namespace they reach the network, and without a view every socket file of the machine.
    None,
}

/// The compiled filters, each compiled on first use.
#[derive(Default)]
pub(crate) struct Filters([OnceLock<Vec<sock_filter>>; 3]);

impl Filters {
    pub(crate) fn get(&self, sockets: Sockets) -> &[sock_filter] {
        let Self([confined, no_unix, none]) = self;
        let kept = match sockets {
            Sockets::Confined => confined,
            Sockets::NoUnix => no_unix,
            Sockets::None => none,
        };
        kept.get_or_init(|| compile(sockets))
    }
}

/// Compiles a filter.
pub(crate) fn compile(sockets: Sockets) -> Vec<sock_filter> {
    let cases = |refusal: &DenyRule| match (refusal.call, sockets) {
        (libc::SYS_socket, Sockets::None) => refuse_cases(&[]),
        (libc::SYS_socket, Sockets::NoUnix) => refuse_cases(&[refusal.cases, &[&[(0, Is, UNIX)]]].concat()),
        _ => refuse_cases(refusal.cases),
    };
    let refused = DENY_RULES.iter().chain(OLDER).map(|refusal| Leaf::of(refusal.call, cases(refusal)));
    let unknown = ENOSYS_CALLS.iter().map(|call| Leaf::of(*call, vec![answer(NOT_THERE)]));
    // Everything above the newest call, which includes the x32 ABI.
    const { assert!(MAX_KNOWN_CALL < X32) };
    program(refused.chain(unknown).collect(), MAX_KNOWN_CALL)
}

#[cfg(test)]
mod tests {
    use super::program::{
        ANSWER, ARCHITECTURE, IF_ABOVE, IF_AT_LEAST, IF_EQUAL, LOAD, MASK, REFUSED, SKIP, number,
    };
    use super::*;

    /// The list compiles to 199 instructions on x86-64. Each unconditional refusal adds two (a comparison and half of an inner one), each condition
    /// two or three: this leaves room for about ten more refusals. Without shared returns the program has 315.
    const MAX_INSTRUCTIONS: usize = 240;

    /// Interprets the program for a call, as the kernel would.
    fn judge(program: &[sock_filter], architecture: u32, call: u32, arguments: [u64; 6]) -> (u32, usize) {
        let word = |offset: u32| match offset {
            0 => call,
            4 => architecture,
            offset => (arguments[((offset - 16) / 8) as usize] >> (8 * (offset % 8))) as u32,
        };
        let (mut accumulator, mut at, mut steps) = (0_u32, 0_usize, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            steps += 1;
            let jump = |holds: bool| usize::from(if holds { jt } else { jf });
            match code {
                LOAD => accumulator = word(k),
                MASK => accumulator &= k,
                SKIP => at += k as usize,
                IF_EQUAL => at += jump(accumulator == k),
                IF_ABOVE => at += jump(accumulator > k),
                IF_AT_LEAST => at += jump(accumulator >= k),
                ANSWER => return (k, steps),
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    fn plainly(call: u32, arguments: [u64; 6]) -> u32 {
        if ENOSYS_CALLS.iter().any(|unknown| number(*unknown) == call) || call > MAX_KNOWN_CALL {
            return NOT_THERE;
        }
        let holds = |(argument, comparison, value): &Condition| {
            let given = arguments[usize::from(*argument)] & 0xffff_ffff;
            match comparison {
                Is => given == *value,
                IsNot => given != *value,
                Above => given > *value,
                Below => given < *value,
                HasAny => given & value != 0,
                Within(mask) => given & mask == *value,
            }
        };
        let refusal = DENY_RULES.iter().chain(OLDER).find(|refusal| number(refusal.call) == call);
        match refusal {
            Some(refusal) if refusal.cases.is_empty() => REFUSED,
            Some(refusal) if refusal.cases.iter().any(|case| case.iter().all(holds)) => REFUSED,
            _ => libc::SECCOMP_RET_ALLOW,
        }
    }

    #[test]
    fn the_program_says_what_the_list_says() {
        let program = compile(Sockets::Confined);
        let values = [
            0,
            1,
            2,
            3,
            5,
            10,
            11,
            16,
            17,
            40,
            0o644,
            0o4755,
            0o2755,
            0x5412,
            0x541c,
            0x1000_0000,
            0x4000_0000,
            0x0004_0000,
            u64::MAX,
            1 << 40,
        ];
        let mut longest = 0;
        for call in (0..600).chain([X32, X32 + 1, X32 + 101, u32::MAX]) {
            for (index, value) in values.iter().enumerate() {
                for other in values.iter().skip(index % 3) {
                    let arguments = [*value, *other, *value, *other, 0, 0];
                    let (said, steps) = judge(&program, ARCHITECTURE, call, arguments);
                    longest = longest.max(steps);
                    assert_eq!(said, plainly(call, arguments), "call {call} with {arguments:x?}");
                }
            }
        }
        assert!(longest < 60, "a call is decided after {longest} steps");
        assert!(program.len() <= MAX_INSTRUCTIONS, "{} instructions: answers are not shared", program.len());
    }

    #[test]
    fn another_architecture_ends_the_process() {
        // `AUDIT_ARCH_I386`, and values that no architecture has.
        for architecture in [0x4000_0003, 0, !ARCHITECTURE] {
            assert_eq!(
                judge(&compile(Sockets::Confined), architecture, 1, [0; 6]).0,
                libc::SECCOMP_RET_KILL_PROCESS
            );
        }
    }

    #[test]
    fn without_namespaces_there_are_no_sockets() {
        for arguments in [[1, 1, 0, 0, 0, 0], [2, 1, 0, 0, 0, 0], [10, 2, 0, 0, 0, 0]] {
            let call = number(libc::SYS_socket);
            assert_eq!(judge(&compile(Sockets::None), ARCHITECTURE, call, arguments).0, REFUSED);
            assert_eq!(
                judge(&compile(Sockets::Confined), ARCHITECTURE, call, arguments).0,
                libc::SECCOMP_RET_ALLOW
            );
        }
    }

    #[test]
    fn where_a_socket_file_may_lead_out_there_are_no_unix_sockets_but_pairs() {
        let program = compile(Sockets::NoUnix);
        let judged = |call, arguments| judge(&program, ARCHITECTURE, number(call), arguments).0;
        assert_eq!(judged(libc::SYS_socket, [1, 1, 0, 0, 0, 0]), REFUSED);
        assert_eq!(judged(libc::SYS_socket, [1, 5, 0, 0, 0, 0]), REFUSED);
        assert_eq!(judged(libc::SYS_socket, [17, 3, 0, 0, 0, 0]), REFUSED);
        assert_eq!(judged(libc::SYS_socket, [2, 1, 0, 0, 0, 0]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(judged(libc::SYS_socketpair, [1, 1, 0, 0, 0, 0]), libc::SECCOMP_RET_ALLOW);
    }

    #[test]
    fn no_call_is_named_twice() {
        let mut numbers: Vec<i64> = DENY_RULES
            .iter()
            .chain(OLDER)
            .map(|refusal| refusal.call)
            .chain(ENOSYS_CALLS.iter().copied())
            .collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
