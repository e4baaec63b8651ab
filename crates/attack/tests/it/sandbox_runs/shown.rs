//! What commands are shown of the host leads to no process of the host.

use std::path::{Path, PathBuf};
use std::process::Command;

use toolgate_sandbox::{Layer, Layers, Sandbox, SandboxOptions};

use super::Shop;
use crate::fixture::copy_program;
use crate::sandbox_host::secret;
use crate::sandbox_shown::Shown;

/// Everything that a command can do with a socket and two FIFOs, without blocking.
const ATTACK: &str = "./attacker escape connect $D/service.sock; dd if=$D/told.fifo iflag=nonblock bs=64 count=1 2>/dev/null; \
    echo x | dd of=$D/heard.fifo oflag=nonblock conv=notrunc,nocreat 2>/dev/null; ls $D >/dev/null && echo seen";

fn shop(options: SandboxOptions) -> Shop {
    let shop = Shop { sandbox: Sandbox::prepare(options).unwrap(), ..Shop::open() };
    let program = Path::new(env!("CARGO_BIN_EXE_toolgate-attacker"));
    copy_program(program, &shop.folder.path().join("attacker"));
    shop
}

/// The output of the attack; fails if it reached the host.
fn attack(shop: &Shop, shown: &Shown) -> String {
    let mut job = shop.shell(ATTACK);
    job.environment.push(("D".to_owned(), shown.path().display().to_string()));
    let said = shop.run(&job).unwrap().text();
    assert!(!shown.was_connected(), "the socket below {} was reached: {said}", shown.path().display());
    assert!(!shown.was_written(), "the FIFO below {} was written: {said}", shown.path().display());
    assert!(!said.contains(secret("outside")), "the FIFO below {} was read: {said}", shown.path().display());
    said
}

/// The same attack from the host succeeds, so that its failure inside means something.
fn assert_that_the_host_is_heard(shop: &Shop, shown: &Shown) {
    let line = ATTACK.replace("./attacker", &shop.folder.path().join("attacker").display().to_string());
    let ran = Command::new("sh").args(["-c", &line]).env("D", shown.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(said.contains(secret("outside")), "{said}");
    assert!(shown.was_connected() && shown.was_written(), "{said}");
}

#[test]
fn sockets_and_fifos_of_the_host_are_not_reached_in_what_is_shown_also_those_made_later() {
    let read = tempfile::Builder::new().prefix("toolgate-attack-").tempdir_in("/var/tmp").unwrap();
    let shop = shop(SandboxOptions { read: vec![read.path().to_path_buf()], ..SandboxOptions::default() });
    // The view is created before the sockets are.
    assert_eq!(shop.says("echo made"), "made\n");
    for parent in [read.path(), Path::new("/opt"), Path::new("/usr/local")] {
        // Only root can write below the system's directories.
        let Ok(shown) = Shown::within(parent, secret("outside")) else { continue };
        assert_eq!(attack(&shop, &shown), "seen\n");
        assert_that_the_host_is_heard(&shop, &shown);
    }
}

#[test]
fn where_no_overlay_can_be_made_the_sockets_that_are_there_are_hidden() {
    if !rustix::process::geteuid().is_root() {
        println!("note: only root makes a view without a user namespace; nothing was tried");
        return;
    }
    let shown = Shown::new(secret("outside"));
    let without = Layers::NONE.with(Layer::UserNamespace);
    let read = vec![shown.path().to_path_buf()];
    let shop = shop(SandboxOptions { read, without, ..SandboxOptions::default() });
    assert_eq!(attack(&shop, &shown), "seen\n");
    assert_that_the_host_is_heard(&shop, &shown);
}

#[test]
fn a_command_has_sockets_of_its_own_in_its_own_places() {
    let shop = shop(SandboxOptions::default());
    for place in ["/tmp/own.sock", "/mnt/project/own.sock"] {
        let said = shop.says(&format!("./attacker escape answer-itself {place}"));
        assert!(said.contains("itself"), "{place}: {said}");
    }
}

#[test]
fn a_program_that_is_installed_between_two_commands_is_found_by_the_second() {
    let shown = tempfile::Builder::new().prefix("toolgate-attack-").tempdir_in("/var/tmp").unwrap();
    let programs = shown.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let path = [programs.clone()].into_iter().chain(["/usr/bin", "/bin"].map(PathBuf::from)).collect();
    let read = vec![shown.path().to_path_buf()];
    let shop = shop(SandboxOptions { read, path, ..SandboxOptions::default() });
    assert_eq!(shop.says("fresh-program || echo missing"), "missing\n");
    copy_program(Path::new("/bin/echo"), &programs.join("fresh-program"));
    assert_eq!(shop.says("fresh-program installed"), "installed\n");
}
