//! A model that reads from a script, behind the real wires.
//!
//! A script in YAML says what the model says, thinks, calls and how it fails, also depending on what its calls came back with. It is served over
//! loopback HTTP in each of the four wires, so that the adapters that talk to real models are what talks to it.
//!
//! What this crate refuses to know: how the adapters are written. It shares no code with them, or a misreading would agree with itself.
