//! Asking a client of the older era, which waits for its answer meanwhile.

use std::pin::Pin;
use std::sync::Arc;

use rmcp::service::{Peer, RoleServer};
use toolgate_gate::{Approver, Nobody, Question, Reply};

use super::form::{form, reply};
use crate::mcp::connection::{Connection, Room};

/// A client that can be asked.
pub(crate) struct Live {
    pub(crate) peer: Peer<RoleServer>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) room: Arc<Room>,
}

impl Approver for Live {
    fn ask(&self, question: Question) -> Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
        Box::pin(async move {
            let form = match form(&question) {
                Ok(form) => form,
                Err(nobody) => return Reply::Nobody(nobody),
            };
            // Others go on while a person thinks. The time of a yes is not spent on waiting for room again.
            self.room.leave();
            tokio::select! {
                answer = self.peer.create_elicitation(form) => match answer {
                    Ok(result) => reply(&result),
                    Err(_) => Reply::Nobody(Nobody::openly("the client did not show the question")),
                },
                () = self.connection.closing.cancelled() => {
                    Reply::Nobody(Nobody::quietly("the client closed the connection before it answered"))
                }
            }
        })
    }
}
