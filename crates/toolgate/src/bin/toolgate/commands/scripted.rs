//! `toolgate scripted`: serves a scripted model in the wire formats of real providers.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Map, Value, json};
use toolgate_assembly::ambient::HostEnvironment;
use toolgate_conversation::models::{load_script, serve};
use toolgate_scripted::{ServerOptions, Wire};

use super::{print, serving_runtime};
use crate::arguments::GlobalOptions;
use crate::exit::{CliError, SUCCESS};
use crate::interrupt::Interrupt;
use crate::terminal::warn;

pub(crate) fn run(common: &GlobalOptions, file: &Path, listen: SocketAddr) -> Result<u8, CliError> {
    if !listen.ip().to_canonical().is_loopback() {
        return Err(CliError::usage(format!("`{listen}` can be reached from other machines"))
            .help("a scripted model asks nobody for a key: listen on 127.0.0.1"));
    }
    let file = (file != Path::new("demo")).then_some(file);
    let script = load_script(file, &HostEnvironment::detect()?)?;
    let interrupt = Interrupt::install();
    serving_runtime()?.block_on(async {
        let _watching = interrupt.watch()?;
        let server = serve(script, ServerOptions { listen, ..ServerOptions::default() }).await?;
        let urls: Vec<_> = Wire::ALL.iter().map(|wire| (wire.as_str(), server.base_url(*wire))).collect();
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
        warn("any key is taken; Ctrl-C ends it");
        interrupt.token().cancelled().await;
        Ok(SUCCESS)
    })
}
