//! `toolgate scripted`: a scripted model in the wires of real ones.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Map, Value, json};
use toolgate_scripted::{ServerOptions, Wire};

use super::{print, serving_runtime};
use crate::ambient::Surroundings;
use crate::arguments::Common;
use crate::conversation::{script, serve};
use crate::exit::{DONE, Failed};
use crate::interrupt::Interrupt;
use crate::terminal::complain;

pub(crate) fn run(common: &Common, file: &Path, listen: SocketAddr) -> Result<u8, Failed> {
    if !listen.ip().to_canonical().is_loopback() {
        return Err(Failed::usage(format!("`{listen}` can be reached from other machines"))
            .help("a scripted model asks nobody for a key: listen on 127.0.0.1"));
    }
    let file = (file != Path::new("demo")).then_some(file);
    let script = script(file, &Surroundings::look()?)?;
    let interrupt = Interrupt::listen();
    serving_runtime()?.block_on(async {
        let _watching = interrupt.watch()?;
        let server = serve(script, ServerOptions { listen, ..ServerOptions::default() }).await?;
        let urls = Wire::ALL.map(|wire| (wire.as_str(), server.base_url(wire)));
        match common.json {
            true => {
                let urls: Map<String, Value> =
                    urls.into_iter().map(|(wire, url)| (wire.to_owned(), json!(url))).collect();
                print(&format!("{}\n", Value::Object(urls)))?;
            }
            false => {
                let rows: Vec<String> =
                    urls.iter().map(|(wire, url)| format!("{wire:<12} {url}\n")).collect();
                print(&rows.concat())?;
            }
        }
        complain("any key is taken; Ctrl-C ends it");
        interrupt.token().cancelled().await;
        Ok(DONE)
    })
}
