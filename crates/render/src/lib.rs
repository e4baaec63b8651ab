//! Untrusted text on a terminal.
//!
//! A model's text begins two columns in, is wrapped here instead of by the terminal, and has its control characters escaped, so that none of it is
//! mistaken for the gate's own rows or obeyed by the terminal. That holds for plain text, for Markdown while it streams, and for rows that are
//! redrawn in place. Memory is bounded, however long the text is.
//!
//! This crate writes nothing: it returns what to write. It knows no events, no calls and no questions.

// Characters and columns.
mod escape;
mod width;

// Text that is only appended.
mod streaming_wrapper;

// Text that is redrawn until it is complete.
mod styled;
mod highlight;
mod markdown;
mod text_stream;
mod live_region;

#[cfg(test)]
mod test_screen;

pub use escape::{ControlEscaper, escape_control_chars, escape_line, paint};
pub use live_region::{Frame, LiveRegion};
pub use streaming_wrapper::StreamingWrapper;
pub use styled::Layout;
pub use text_stream::{StreamKind, TextStream};
pub use width::{INDENT, char_columns, truncate_columns};
