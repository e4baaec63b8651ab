//! stub
/// stub
pub fn skeleton(_name: &str, _w: &[&str]) -> String { String::new() }
