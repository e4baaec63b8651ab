//! A command's input and output, each stream complete and separate.

use toolgate_sandbox::{CapturedStdio, CommandStdio, Exit, Job, OnOutputLimit, TerminationReason};

use super::{PLENTY, Shop};

fn reading(content: Vec<u8>) -> CommandStdio<'static> {
    CommandStdio::Captured(CapturedStdio { input: Some(content), ..PLENTY })
}

#[test]
fn sixty_four_commands_at_once_each_hear_themselves() {
    let shop = Shop::open();
    std::thread::scope(|scope| {
        for number in 0..64 {
            let shop = &shop;
            scope.spawn(move || {
                let line = format!("echo {number}; cat; echo no {number} >&2; echo {number} > /tmp/own; cat /tmp/*; exit {number}");
                let job = Job { stdio: reading(format!("in {number}\n").into_bytes()), ..shop.shell(&line) };
                let ran = shop.run(&job).unwrap();
                assert_eq!(ran.ended.exit, Exit::Code(number));
                let error = String::from_utf8(ran.error.clone()).unwrap();
                assert!(error.starts_with(&format!("no {number}\n")), "{error}");
                assert_eq!(ran.text(), format!("{number}\nin {number}\n{number}\n"));
            });
        }
    });
}

#[test]
fn input_is_delivered_and_ends() {
    let shop = Shop::open();
    let content: Vec<u8> = (0..1_u32 << 20).map(|number| (number % 251) as u8).collect();
    let job = Job { stdio: reading(content.clone()), ..shop.job("cat", &[]) };
    let ran = shop.run(&job).unwrap();
    assert_eq!((ran.ended.exit, ran.ended.output_bytes), (Exit::Code(0), 1 << 20));
    assert!(ran.output == content);
    // Input need not be read, and an absent one is empty.
    let unread = Job { stdio: reading(content), ..shop.job("true", &[]) };
    assert_eq!(shop.run(&unread).unwrap().ended.exit, Exit::Code(0));
    assert_eq!(shop.run(&shop.job("cat", &[])).unwrap().output, b"");
}

#[test]
fn each_stream_comes_in_order_and_whole() {
    let shop = Shop::open();
    let line = "i=0; while [ $i -lt 3000 ]; do echo $i; echo $i >&2; i=$((i+1)); done";
    let ran = shop.run(&shop.shell(line)).unwrap();
    let expected: String = (0..3000).map(|number| format!("{number}\n")).collect();
    assert_eq!(ran.text(), expected);
    assert_eq!(ran.error, expected.as_bytes());
    assert_eq!(ran.ended.output_bytes + ran.ended.error_bytes, 2 * expected.len() as u64);
    assert!(!ran.ended.truncated);
}

#[test]
fn floods_are_drained_or_dammed() {
    let shop = Shop::open();
    let flood = |on_flood: OnOutputLimit| {
        let line = "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 5";
        let job = Job {
            stdio: CommandStdio::Captured(CapturedStdio {
                max_output: 1000,
                on_output_limit: on_flood,
                ..PLENTY
            }),
            ..shop.shell(line)
        };
        let ran = shop.run(&job).unwrap();
        assert_eq!(ran.output.len() + ran.error.len(), 1000);
        assert!(ran.ended.truncated);
        ran.ended
    };
    let drained = flood(OnOutputLimit::Drain(1 << 20));
    assert_eq!((drained.exit, drained.stopped), (Exit::Code(5), None));
    assert_eq!((drained.output_bytes, drained.error_bytes), (300_000, 300_000));
    for dammed in [flood(OnOutputLimit::Drain(100_000)), flood(OnOutputLimit::Stop)] {
        assert_eq!((dammed.exit, dammed.stopped), (Exit::Signal(9), Some(TerminationReason::OutputLimit)));
    }
}
