//! Streams that are piped to a peer of the command.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use toolgate_sandbox::{CommandStdio, Exit, Job, PipeEnds, PipedStdio, SandboxError, TerminationReason};
use toolgate_types::Deadline;

use super::{Ran, Shop};

/// Runs a command on a thread of its own, and talks with it until `talk` is done; then it is terminated.
fn talked_with(
    shop: &Shop,
    line: &str,
    talk: impl FnOnce(&mut PipeWriter, &mut PipeReader),
) -> Result<Ran, SandboxError> {
    let (until, leash) = std::io::pipe().unwrap();
    let (sender, ends) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let running = scope.spawn(move || {
            let take = |taken: PipeEnds| sender.send(taken).unwrap();
            let streams = CommandStdio::Piped(PipedStdio { on_start: &take, stop_fd: until.as_fd() });
            // The cancellation must be ignored here: it would terminate the command right away.
            shop.run_until(
                &Job { stdio: streams, ..shop.shell(line) },
                &Deadline::never().with_signal(|| true),
                &mut |_| {},
            )
        });
        let ends = ends.recv().unwrap();
        for file in [&ends.input, &ends.output] {
            rustix::fs::fcntl_setfl(file, rustix::fs::OFlags::empty()).unwrap();
        }
        let (mut input, mut output) = (PipeWriter::from(ends.input), PipeReader::from(ends.output));
        talk(&mut input, &mut output);
        drop(leash);
        let ran = running.join().unwrap();
        // The other ends are closed, except that a process forked by another test may hold them for a moment.
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).unwrap();
        rustix::fs::fcntl_setfl(&input, rustix::fs::OFlags::NONBLOCK).unwrap();
        let refused = std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(5));
            input.write(b"x").err()
        });
        let refused = refused.take(12_000).flatten().next().map(|error| error.kind());
        assert_eq!(refused, Some(std::io::ErrorKind::BrokenPipe));
        ran
    })
}

fn line(output: &mut PipeReader) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\n") && output.read(&mut byte).unwrap() == 1 {
        line.extend(byte);
    }
    String::from_utf8(line).unwrap()
}

#[test]
fn whoever_is_handed_the_streams_talks_with_the_command_until_it_is_to_end() {
    let shop = Shop::open();
    let echo = "trap 'echo bye >&2; exit 3' TERM; while read word; do echo \"heard $word\"; done; echo over; exec sleep 300";
    let ran = talked_with(&shop, echo, |input, output| {
        for word in ["one", "two"] {
            writeln!(input, "{word}").unwrap();
            assert_eq!(line(output), format!("heard {word}\n"));
        }
    });
    let ran = ran.unwrap();
    assert_eq!((ran.ended.exit, ran.ended.stopped), (Exit::Code(3), Some(TerminationReason::Cancelled)));
    assert_eq!((ran.text().as_str(), ran.error.as_slice()), ("", b"bye\n".as_slice()));
    // All of its descendants end with it, whatever signals they ignore.
    let family =
        "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 300' & (sleep 300 &); echo ready; sleep 300";
    let ran = talked_with(&shop, family, |_, output| assert_eq!(line(output), "ready\n")).unwrap();
    assert_eq!((ran.ended.exit, ran.ended.stopped), (Exit::Signal(9), Some(TerminationReason::Cancelled)));
    // A command may also end by itself.
    let ran =
        talked_with(&shop, "seq 1 100000 >&2; exit 5", |_, output| assert_eq!(line(output), "")).unwrap();
    assert_eq!((ran.ended.exit, ran.ended.truncated), (Exit::Code(5), false));
    assert!(ran.error.ends_with(b"\n100000\n"));
    assert_eq!(shop.says("echo fine"), "fine\n");
}
