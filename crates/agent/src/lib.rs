//! The loop between a model and the gate.
//!
//! A person says something; the model answers or asks for calls; every call goes through the gate and is answered, whatever becomes of it; and so
//! on, within bounds. At each bound there is one last step without tools, so that the person gets an answer.
//!
//! What this crate refuses to know: wires, terminals, and how a call is decided.
