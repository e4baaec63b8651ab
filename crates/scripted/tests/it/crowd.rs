//! Many concurrent conversations with one script.

use tokio::task::JoinSet;
use toolgate_scripted::Wire;

use crate::client::{continued, post, request, serve, words};

const SCRIPT: &str = "
model: {context_window: 1000000}
steps:
  - {when: {prompt: even}, calls: [{tool: read_file, arguments: {path: even.txt}}]}
  - {when: {prompt: odd}, calls: [{tool: read_file, arguments: {path: odd.txt}}]}
  - {say: 'You asked {{prompt}} and it says {{last_result}}.'}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_conversations_never_see_each_other() {
    let server = std::sync::Arc::new(serve(SCRIPT).await);
    let mut all = JoinSet::new();
    for number in 0..500 {
        let server = std::sync::Arc::clone(&server);
        all.spawn(async move {
            let wire = Wire::ALL[number % 4];
            let prompt = format!("{} number {number}", if number % 2 == 0 { "even" } else { "odd" });
            let asked = request(wire, &prompt, false);
            let answer = post(&server, wire, &asked).await.json();
            let file = if number % 2 == 0 { "even.txt" } else { "odd.txt" };
            assert!(answer.to_string().contains(file), "{answer}");
            let next = continued(wire, &asked, &answer, &format!("content {number}"));
            let said = words(wire, &post(&server, wire, &next).await.json());
            assert_eq!(said, format!("You asked {prompt} and it says content {number}."));
        });
    }
    let mut done = 0;
    while let Some(finished) = all.join_next().await {
        finished.unwrap();
        done += 1;
    }
    assert_eq!(done, 500);
    assert_eq!(server.requests().len(), 1_000);
}
