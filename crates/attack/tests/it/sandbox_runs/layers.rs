//! Sandboxes with missing layers.

use std::path::Path;

use toolgate_attack::{Order, Report};

use crate::sandbox_host::{Host, Who, secret};

/// Every namespace, by name.
const NAMESPACES: [&str; 7] = [
    "user_namespace",
    "pid_namespace",
    "mount_namespace",
    "network_namespace",
    "ipc_namespace",
    "uts_namespace",
    "private_proc",
];

/// What commands try without namespaces, and must not be able to do.
const PRISON: &str = "cat $OUTSIDE/secret.txt; echo x > $OUTSIDE/new; kill -9 $NEIGHBOUR; \
    bash -c 'echo > /dev/tcp/127.0.0.1/'$TCP; $ATTACKER connect $OUTSIDE/run/docker.sock; \
    $ATTACKER abstract $ABSTRACT; cat /proc/$GATE/environ; echo in > inside; cat inside; echo ran";

#[test]
fn without_namespaces_the_other_layers_still_hold() {
    for who in [Who::Root, Who::User].into_iter().filter(|who| who.is_possible()) {
        let mut host = Host::new(who, false);
        let mut order = host.order(PRISON);
        order.without = NAMESPACES.map(str::to_owned).to_vec();
        // If namespaces are required, the command is refused, and so it is if something must be masked.
        let covered = Order { require: Some(Vec::new()), ..order.clone() };
        let refused = host.carry_out(covered).refused.unwrap();
        assert!(refused.contains("must be protected"), "{refused}");
        for place in &mut order.mounts {
            place.covers.clear();
        }
        order.require = Some(Vec::new());
        let report = host.carry_out(order);
        assert_eq!((report.output.as_str(), report.code), ("in\nran\n", Some(0)), "{report:?}");
        assert_eq!(crate::sandbox_table::damage(&mut host, &report), Vec::<String>::new(), "{report:?}");
    }
}

/// A sandbox inside a sandbox.
fn nested(host: &Host, order: &Order) -> Report {
    let order = serde_json::to_string(order).unwrap();
    assert!(!order.contains('\''));
    let outer = host.carry_out(host.order(&format!("echo '{order}' | ${{ATTACKER% escape}} gate")));
    assert_eq!(outer.refused, None);
    serde_json::from_str(&outer.output).unwrap_or_else(|error| panic!("{error}: {outer:?}"))
}

#[test]
fn a_sandbox_in_a_sandbox_says_what_it_lacks() {
    for who in [Who::Root, Who::User].into_iter().filter(|who| who.is_possible()) {
        let host = Host::new(who, false);
        let mut order = Order {
            program: "/bin/sh".to_owned(),
            arguments: vec![
                "-c".to_owned(),
                "echo inner; echo x > /mnt/project/outer; ls /mnt/project".to_owned(),
            ],
            directory: "/usr".into(),
            secret: secret("gate").to_owned(),
            ..Order::default()
        };
        let refused = nested(&host, &order).refused.unwrap();
        for layer in ["user_namespace", "mount_namespace", "network_namespace", "private_proc"] {
            assert!(refused.contains(layer), "{refused}");
        }
        assert!(!refused.contains("landlock") && !refused.contains("seccomp"), "{refused}");
        assert!(!refused.contains(host.path("w").to_str().unwrap()), "{refused}");
        // With lower requirements it runs with what is available: Landlock and seccomp, once more.
        order.require = Some(["landlock", "seccomp", "no_new_privileges"].map(str::to_owned).to_vec());
        let report = nested(&host, &order);
        assert_eq!(report.output, "inner\n", "{report:?}");
        assert!(!Path::new(&host.path("w/outer")).exists());
    }
}
