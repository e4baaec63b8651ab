//! Which system calls a command may not make, as data.
//!
//! Each line says what is refused and why. Everything that is not named here is allowed up to the newest call that was looked at when this list was
//! made; what the kernel learned after that is unknown to commands. Calls whose arguments lie in memory, where a filter cannot look, are said not to
//! exist, so that programs fall back on their older sisters, whose arguments it can see.

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{self, Eq, Gt, Lt, MaskedEq, Ne};
use seccompiler::{SeccompAction, SeccompCondition, SeccompFilter, SeccompRule};

/// One refusal: the call answers "not permitted" when all conditions of one of the cases hold; no case is always.
struct Refusal {
    call: i64,
    cases: &'static [&'static [Condition]],
}

/// A condition on one argument: its number, the comparison, and what it is compared with.
type Condition = (u8, Comparison, u64);

#[derive(Clone, Copy)]
enum Comparison {
    Is,
    IsNot,
    Above,
    Below,
    /// All of these bits are set.
    Has,
    /// These bits, of those in the mask, and no others.
    Within(u64),
}

use Comparison::{Above, Below, Has, Is, IsNot, Within};

const fn refuse(call: i64) -> Refusal {
    Refusal { call, cases: &[] }
}

const fn refuse_if(call: i64, cases: &'static [&'static [Condition]]) -> Refusal {
    Refusal { call, cases }
}

/// Set-user-id and set-group-id bits: a file that carries them outlives the sandbox.
const SET_ID_IN_1: &[&[Condition]] = &[&[(1, Has, 0o4000)], &[(1, Has, 0o2000)]];
const SET_ID_IN_2: &[&[Condition]] = &[&[(2, Has, 0o4000)], &[(2, Has, 0o2000)]];
/// The same for calls that make a file only when the flag says so.
const SET_ID_IN_OPENAT: &[&[Condition]] = &[
    &[(2, Has, CREATE), (3, Has, 0o4000)],
    &[(2, Has, CREATE), (3, Has, 0o2000)],
    &[(2, Has, UNNAMED), (3, Has, 0o4000)],
    &[(2, Has, UNNAMED), (3, Has, 0o2000)],
];
const CREATE: u64 = libc::O_CREAT as u64;
const UNNAMED: u64 = (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64;
/// The kind of socket without its flags.
const KIND: u64 = 0xf;
const UNIX: u64 = libc::AF_UNIX as u64;
const NETLINK: u64 = libc::AF_NETLINK as u64;
const DATAGRAM: u64 = libc::SOCK_DGRAM as u64;
const RAW: u64 = libc::SOCK_RAW as u64;

/// Namespaces that a process could be born into.
const NAMESPACES: [u64; 8] = [
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
    libc::CLONE_NEWCGROUP as u64,
    // CLONE_NEWTIME
    0x80,
];

const REFUSALS: &[Refusal] = &[
    // Reads, steers or borrows from other processes.
    refuse(libc::SYS_ptrace),
    refuse(libc::SYS_process_vm_readv),
    refuse(libc::SYS_process_vm_writev),
    refuse(libc::SYS_process_madvise),
    refuse(libc::SYS_pidfd_getfd),
    refuse(libc::SYS_kcmp),
    // Namespaces: inside one of its own a process has every capability again, and with it most of the kernel to attack.
    refuse(libc::SYS_unshare),
    refuse(libc::SYS_setns),
    refuse_if(
        libc::SYS_clone,
        &[
            &[(0, Has, NAMESPACES[0])],
            &[(0, Has, NAMESPACES[1])],
            &[(0, Has, NAMESPACES[2])],
            &[(0, Has, NAMESPACES[3])],
            &[(0, Has, NAMESPACES[4])],
            &[(0, Has, NAMESPACES[5])],
            &[(0, Has, NAMESPACES[6])],
        ],
    ),
    // Changes the view that was made for the command.
    refuse(libc::SYS_mount),
    refuse(libc::SYS_umount2),
    refuse(libc::SYS_pivot_root),
    refuse(libc::SYS_chroot),
    refuse(libc::SYS_open_tree),
    refuse(libc::SYS_move_mount),
    refuse(libc::SYS_fsopen),
    refuse(libc::SYS_fsconfig),
    refuse(libc::SYS_fsmount),
    refuse(libc::SYS_fspick),
    refuse(libc::SYS_mount_setattr),
    refuse(libc::SYS_swapon),
    refuse(libc::SYS_swapoff),
    refuse(libc::SYS_quotactl),
    // Opens files by number, past every folder on the way.
    refuse(libc::SYS_open_by_handle_at),
    refuse(libc::SYS_name_to_handle_at),
    refuse(libc::SYS_fanotify_init),
    // Keys of the user: the session's keyring is not in any namespace.
    refuse(libc::SYS_add_key),
    refuse(libc::SYS_request_key),
    refuse(libc::SYS_keyctl),
    // Large parts of the kernel that commands can do without, and that have been the way out of sandboxes. io_uring does file and network
    // operations that no filter sees.
    refuse(libc::SYS_io_uring_setup),
    refuse(libc::SYS_io_uring_enter),
    refuse(libc::SYS_io_uring_register),
    refuse(libc::SYS_bpf),
    refuse(libc::SYS_perf_event_open),
    refuse(libc::SYS_userfaultfd),
    // The machine as a whole.
    refuse(libc::SYS_init_module),
    refuse(libc::SYS_finit_module),
    refuse(libc::SYS_delete_module),
    refuse(libc::SYS_kexec_load),
    refuse(libc::SYS_kexec_file_load),
    refuse(libc::SYS_reboot),
    refuse(libc::SYS_acct),
    refuse(libc::SYS_syslog),
    refuse(libc::SYS_settimeofday),
    refuse(libc::SYS_clock_settime),
    refuse(libc::SYS_clock_adjtime),
    refuse(libc::SYS_adjtimex),
    refuse(libc::SYS_sethostname),
    refuse(libc::SYS_setdomainname),
    refuse(libc::SYS_vhangup),
    refuse(libc::SYS_lookup_dcookie),
    refuse(libc::SYS_nfsservctl),
    // Memory of other nodes and processes.
    refuse(libc::SYS_mbind),
    refuse(libc::SYS_migrate_pages),
    refuse(libc::SYS_move_pages),
    refuse(libc::SYS_set_mempolicy),
    // Execution domains other than the plain one (and asking which one it is) reopen old holes.
    refuse_if(libc::SYS_personality, &[&[(0, IsNot, 0), (0, IsNot, 0xffff_ffff), (0, IsNot, 0x0004_0000)]]),
    // Types what the person at the terminal seems to have typed.
    refuse_if(libc::SYS_ioctl, &[&[(1, Is, libc::TIOCSTI)], &[(1, Is, libc::TIOCLINUX)]]),
    // Sockets: own machine, IPv4, IPv6 and asking for interfaces. A datagram socket of the own machine can be aimed at any socket file, and a raw one of
    // that family is a datagram socket by another name. Virtual machine sockets reach the hypervisor past every network namespace.
    refuse_if(
        libc::SYS_socket,
        &[
            &[(0, Above, libc::AF_INET6 as u64), (0, IsNot, NETLINK)],
            &[(0, Above, libc::AF_INET as u64), (0, Below, libc::AF_INET6 as u64)],
            &[(0, Is, NETLINK), (2, IsNot, libc::NETLINK_ROUTE as u64)],
            &[(0, Is, UNIX), (1, Within(KIND), DATAGRAM)],
            &[(1, Within(KIND), RAW)],
        ],
    ),
    refuse_if(
        libc::SYS_socketpair,
        &[&[(1, Within(KIND), DATAGRAM)], &[(1, Within(KIND), RAW)], &[(0, IsNot, UNIX)]],
    ),
    // Files that give their owner's rights to whoever starts them.
    refuse_if(libc::SYS_fchmod, SET_ID_IN_1),
    refuse_if(libc::SYS_fchmodat, SET_ID_IN_2),
    refuse_if(FCHMODAT2, SET_ID_IN_2),
    refuse_if(libc::SYS_mkdirat, SET_ID_IN_2),
    refuse_if(libc::SYS_mknodat, SET_ID_IN_2),
    refuse_if(libc::SYS_openat, SET_ID_IN_OPENAT),
];

const FCHMODAT2: i64 = 452;

/// The older sisters of the calls above, which newer machines do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[Refusal] = &[
    refuse_if(libc::SYS_chmod, SET_ID_IN_1),
    refuse_if(libc::SYS_mkdir, SET_ID_IN_1),
    refuse_if(libc::SYS_mknod, SET_ID_IN_1),
    refuse_if(libc::SYS_creat, SET_ID_IN_1),
    refuse_if(
        libc::SYS_open,
        &[&[(1, Has, CREATE), (2, Has, 0o4000)], &[(1, Has, CREATE), (2, Has, 0o2000)]],
    ),
    refuse(libc::SYS_iopl),
    refuse(libc::SYS_ioperm),
    refuse(libc::SYS_modify_ldt),
    refuse(libc::SYS_uselib),
    refuse(libc::SYS_ustat),
    refuse(libc::SYS_sysfs),
    refuse(libc::SYS__sysctl),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[Refusal] = &[];

/// Calls that do not exist for commands: their arguments lie in memory, and older sisters do the same in sight.
const UNKNOWN: &[i64] = &[libc::SYS_clone3, libc::SYS_openat2];

/// The newest call that was looked at: `file_setattr`.
const NEWEST: u32 = 469;

/// Numbers from here on are those of the x32 interface, which would be a second way to every call.
const X32: u32 = 0x4000_0000;

/// The program for the kernel.
pub(crate) fn compile() -> Result<Vec<libc::sock_filter>, String> {
    let rules = REFUSALS.iter().chain(OLDER).map(|refusal| Ok((refusal.call, cases(refusal)?)));
    let rules = rules.collect::<Result<_, String>>()?;
    let architecture = std::env::consts::ARCH.try_into().map_err(|error| format!("{error}"))?;
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture);
    let program: seccompiler::BpfProgram =
        filter.and_then(TryInto::try_into).map_err(|error| format!("{error}"))?;
    let program = program.into_iter().map(|line| libc::sock_filter {
        code: line.code,
        jt: line.jt,
        jf: line.jf,
        k: line.k,
    });
    Ok(guard().into_iter().chain(program).collect())
}

fn cases(refusal: &Refusal) -> Result<Vec<SeccompRule>, String> {
    let rule = |conditions: &&[Condition]| {
        let conditions = conditions.iter().map(|(argument, comparison, value)| {
            let (operator, value) = operator(*comparison, *value);
            SeccompCondition::new(*argument, Dword, operator, value).map_err(|error| error.to_string())
        });
        SeccompRule::new(conditions.collect::<Result<_, _>>()?).map_err(|error| error.to_string())
    };
    refusal.cases.iter().map(rule).collect()
}

fn operator(comparison: Comparison, value: u64) -> (SeccompCmpOp, u64) {
    match comparison {
        Is => (Eq, value),
        IsNot => (Ne, value),
        Above => (Gt, value),
        Below => (Lt, value),
        Has => (MaskedEq(value), value),
        Within(mask) => (MaskedEq(mask), value),
    }
}

/// What comes before the rules: another architecture ends the process, and calls that do not exist for commands are said not to.
fn guard() -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const IF_ABOVE: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let not_there = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    // The architecture is asked first: numbers mean something else on another one.
    let mut lines = vec![
        line(LOAD, 4, 0, 0),
        line(IF_EQUAL, ARCHITECTURE, 1, 0),
        line(ANSWER, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        line(LOAD, 0, 0, 0),
    ];
    for number in UNKNOWN {
        let number = u32::try_from(*number).unwrap_or(u32::MAX);
        lines.extend([line(IF_EQUAL, number, 0, 1), line(ANSWER, not_there, 0, 0)]);
    }
    // Everything above the newest, and so everything of the x32 interface too.
    const { assert!(NEWEST < X32) };
    lines.extend([line(IF_ABOVE, NEWEST, 0, 1), line(ANSWER, not_there, 0, 0)]);
    lines
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiles_and_is_small_enough_for_the_kernel() {
        let program = compile().unwrap();
        assert!(program.len() > 100 && program.len() < 4096, "{}", program.len());
    }
}
