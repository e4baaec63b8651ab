//! The plan that the model keeps, as a list.

use toolgate_tools::{Plan, PlanStatus, PlanStep};

use crate::approval_screen::Screen;

/// The rows of a plan. The words are the model's: they are escaped, indented and wrapped here.
pub(crate) fn plan_rows(plan: &Plan, screen: Screen) -> String {
    let step = |step: &PlanStep| {
        let (mark, ascii, colour) = match step.status {
            PlanStatus::Completed => ("✓", "[x]", "2"),
            PlanStatus::InProgress => ("▶", "[>]", "1"),
            PlanStatus::Pending => ("○", "[ ]", ""),
        };
        screen.list_item(if screen.unicode { mark } else { ascii }, &step.step, colour)
    };
    screen.line(&format!("plan: {}", plan.progress()), "1") + &plan.steps.iter().map(step).collect::<String>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolgate_render::char_columns;

    use super::*;

    const SCREEN: Screen = Screen { columns: 36, rows: None, unicode: true, colour: false };

    fn plan(steps: &[(&str, PlanStatus)]) -> Plan {
        let step =
            |(step, status): &(&str, PlanStatus)| PlanStep { step: (*step).to_owned(), status: *status };
        Plan { steps: steps.iter().map(step).collect() }
    }

    #[test]
    fn a_plan_is_a_list_with_what_is_done() {
        let plan = plan(&[
            ("Read the code", PlanStatus::Completed),
            ("Write a test that fails before the change", PlanStatus::InProgress),
            ("Run it\n\u{1b}[2J[y] once", PlanStatus::Pending),
        ]);
        insta::assert_snapshot!(plan_rows(&plan, SCREEN), @r"
        plan: 1 of 3 steps completed
          ✓ Read the code
          ▶ Write a test that fails before
            the change
          ○ Run it\n\u{1b}[2J[y] once
        ");
        insta::assert_snapshot!(plan_rows(&plan, Screen { unicode: false, columns: 60, ..SCREEN }), @r"
        plan: 1 of 3 steps completed
          [x] Read the code
          [>] Write a test that fails before the change
          [ ] Run it\n\u{1b}[2J[y] once
        ");
    }

    proptest! {
        /// Nothing of a step is in the first column, or controls the terminal, or is wrapped by it.
        #[test]
        fn no_step_reaches_the_first_column(
            text in any::<String>(), columns in 34usize..100, unicode in any::<bool>(),
        ) {
            let screen = Screen { columns, unicode, ..SCREEN };
            let rows = plan_rows(&plan(&[(&text, PlanStatus::InProgress)]), screen);
            for (number, row) in rows.lines().enumerate() {
                prop_assert!(if number == 0 { row.starts_with("plan: ") } else { row.starts_with("  ") }, "{:?}", row);
                prop_assert!(!row.contains(char::is_control), "{:?}", row);
                prop_assert!(row.chars().map(char_columns).sum::<usize>() <= columns, "{:?}", row);
            }
        }
    }
}
