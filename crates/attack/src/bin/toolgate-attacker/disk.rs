pub(crate) fn full(_: &std::path::Path) {}
pub(crate) fn read_only(_: &std::path::Path) {}
