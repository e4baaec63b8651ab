//! Why namespaces are missing on this machine, and the command that allows them.

use std::path::Path;

use toolgate_assembly::ambient::{exists, read_regular_file, this_program};

/// What the kernel and the surroundings say about user namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamespaceRestrictions {
    /// `kernel.apparmor_restrict_unprivileged_userns` is 1: Ubuntu since 23.10.
    apparmor: bool,
    /// `kernel.unprivileged_userns_clone` is 0: Debian's and Arch's hardened kernels.
    clone: bool,
    /// `user.max_user_namespaces` is 0.
    max: bool,
    /// Docker, Podman or another container runtime started this process.
    container: bool,
    /// This program, for a profile that allows it alone.
    program: Option<String>,
}

/// A cause, and the command that removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamespaceRemedy {
    pub(super) cause: &'static str,
    pub(super) command: String,
}

impl NamespaceRestrictions {
    /// Reads them from this machine.
    pub(super) fn detect() -> Self {
        let value = |name: &str| {
            let bytes = read_regular_file(&Path::new("/proc/sys").join(name)).ok()?;
            String::from_utf8(bytes).ok()?.trim().parse::<u64>().ok()
        };
        Self {
            apparmor: value("kernel/apparmor_restrict_unprivileged_userns") == Some(1),
            clone: value("kernel/unprivileged_userns_clone") == Some(0),
            max: value("user/max_user_namespaces") == Some(0),
            container: ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| exists(Path::new(mark))),
            program: this_program().ok().and_then(|path| path.to_str().map(str::to_owned)),
        }
    }

    /// The first cause that explains missing namespaces; `None` if none is known.
    pub(super) fn remedy(&self) -> Option<NamespaceRemedy> {
        let remedy = |cause, command: &str| Some(NamespaceRemedy { cause, command: command.to_owned() });
        if self.max {
            return remedy(
                "`user.max_user_namespaces` is 0",
                "sudo sysctl -w user.max_user_namespaces=15000",
            );
        }
        if self.clone {
            return remedy(
                "`kernel.unprivileged_userns_clone` is 0",
                "sudo sysctl -w kernel.unprivileged_userns_clone=1",
            );
        }
        // In a container the host's AppArmor setting cannot be changed, and the runtime's seccomp profile refuses namespaces first.
        if self.container {
            return remedy(
                "the container runtime's seccomp profile refuses user namespaces",
                "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined …",
            );
        }
        if self.apparmor {
            return Some(NamespaceRemedy {
                cause: "AppArmor restricts user namespaces of unprivileged programs (`kernel.apparmor_restrict_unprivileged_userns`)",
                command: self.apparmor_profile(),
            });
        }
        None
    }

    /// A profile for this program alone. A path that the shell or AppArmor would not take literally gets the setting for the whole machine.
    fn apparmor_profile(&self) -> String {
        let is_plain = |path: &&String| {
            path.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-'))
        };
        match self.program.as_ref().filter(is_plain) {
            Some(program) => format!(
                "printf 'abi <abi/4.0>,\\nprofile toolgate {program} flags=(unconfined) {{\\n  userns,\\n}}\\n' | sudo tee \
                 /etc/apparmor.d/toolgate && sudo apparmor_parser -r /etc/apparmor.d/toolgate"
            ),
            None => "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_restriction_has_the_command_that_lifts_it() {
        let none = NamespaceRestrictions::default();
        let program = Some("/usr/bin/toolgate".to_owned());
        let table = [
            none.clone(),
            NamespaceRestrictions { apparmor: true, program: program.clone(), ..none.clone() },
            NamespaceRestrictions { apparmor: true, program: Some("/my $(x)".to_owned()), ..none.clone() },
            NamespaceRestrictions { clone: true, ..none.clone() },
            NamespaceRestrictions { max: true, clone: true, ..none.clone() },
            NamespaceRestrictions { container: true, apparmor: true, program, ..none },
        ];
        let lines: Vec<String> = table
            .iter()
            .map(|found| match found.remedy() {
                Some(NamespaceRemedy { cause, command }) => format!("{cause}\n  {command}"),
                None => "no cause is known".to_owned(),
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
