//! Whether a call needs approval.

use toolgate_types::{ToolClass, Trust};

/// Whether a person must approve a permitted call of this class.
#[must_use]
pub fn needs_question(trust: Trust, class: ToolClass) -> bool {
    match trust {
        Trust::Supervised => true,
        Trust::Guided => class.has_effect(),
        Trust::Autonomous => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        for (trust, read, write, destructive) in [
            (Trust::Supervised, true, true, true),
            (Trust::Guided, false, true, true),
            (Trust::Autonomous, false, false, false),
        ] {
            let asked = [ToolClass::Read, ToolClass::Write, ToolClass::Destructive]
                .map(|class| needs_question(trust, class));
            assert_eq!(asked, [read, write, destructive], "{trust}");
        }
    }
}
