//! Where a server is declared, and with which command: what its pins belong to.

use toolgate_connect::PinOrigin;
use toolgate_manifest::{ServerConfig, ServerTransport};

use crate::ambient::real_path;
use crate::settings::Settings;

/// The origin of a server. Variables stay unexpanded: another token, or a secret among the arguments, makes no other server.
pub(super) fn pin_origin(settings: &Settings, server: &ServerConfig) -> Option<PinOrigin> {
    let file = real_path(settings.loaded.file()?).to_string_lossy().into_owned();
    let connection: Vec<String> = match &server.transport {
        ServerTransport::Process(process) => {
            let arguments = process.arguments.iter().map(|argument| argument.value.as_written());
            // Without the version: an update has its own question.
            let package = process.package.iter().map(|package| package.value.newest().to_string());
            let entrypoint = process.entrypoint.iter().map(|program| program.value.clone());
            package.chain([process.program.value.clone()]).chain(entrypoint).chain(arguments).collect()
        }
        ServerTransport::Remote(remote) => vec![remote.url.value.as_written()],
    };
    Some(PinOrigin::new(&file, connection.iter().map(String::as_str)))
}
