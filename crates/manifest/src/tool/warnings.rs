//! stub
use super::ToolManifest;
use super::property::Properties;
use crate::decode::Section;
use crate::report::Report;
pub(super) fn of(_tool: &ToolManifest, _p: &Properties, _s: &Section, _r: &mut Report<'_>) {}
