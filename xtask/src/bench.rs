//! Runs every benchmark and collects its comparisons with other programs into one table.
//!
//! A comparison is a line such as
//! `RATIO search/20k-files ours=41.2ms peer=40.0ms(rg) ratio=1.03 bound=1.15`.

use crate::Fault;
use crate::command::{Stream, cargo, listen};

pub(crate) fn run() -> Result<(), Fault> {
    crate::suite::prepare_benchmarks()?;
    let mut ratios = Vec::new();
    let succeeded =
        listen(cargo(&["bench", "--package", "toolgate-benches", "--benches"])?, Stream::Output, |line| {
            ratios.extend(Ratio::parse(line));
        })?;
    let succeeded = succeeded
        & listen(crate::page::measurements()?, Stream::Output, |line| ratios.extend(Ratio::parse(line)))?;
    print!("\n{}", table(&ratios));
    if !succeeded {
        return Err("a benchmark failed".into());
    }
    let over: Vec<&str> = ratios.iter().filter(|ratio| !ratio.holds()).map(|ratio| &*ratio.name).collect();
    if over.is_empty() { Ok(()) } else { Err(format!("over the bound: {}", over.join(", ")).into()) }
}

/// One comparison with another program.
#[derive(Debug, PartialEq)]
struct Ratio {
    name: String,
    ours: String,
    peer: String,
    ratio: f64,
    bound: Option<f64>,
}

impl Ratio {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("RATIO ")?.split_whitespace();
        let name = words.next()?.to_owned();
        let fields: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
        let field = |name: &str| fields.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        Some(Self {
            name,
            ours: field("ours").unwrap_or("-").to_owned(),
            peer: field("peer").unwrap_or("-").to_owned(),
            ratio: field("ratio")?.parse().ok()?,
            bound: field("bound").and_then(|bound| bound.parse().ok()),
        })
    }

    fn holds(&self) -> bool {
        self.bound.is_none_or(|bound| self.ratio <= bound)
    }

    fn row(&self) -> [String; 6] {
        let verdict = if self.holds() { "" } else { "OVER" };
        let bound = self.bound.map_or("-".to_owned(), |bound| format!("{bound:.2}"));
        let ratio = format!("{:.2}", self.ratio);
        [self.name.clone(), self.ours.clone(), self.peer.clone(), ratio, bound, verdict.to_owned()]
    }
}

fn table(ratios: &[Ratio]) -> String {
    if ratios.is_empty() {
        return "no benchmark compared itself with another program\n".to_owned();
    }
    let head = ["benchmark", "ours", "peer", "ratio", "bound", ""].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(ratios.iter().map(Ratio::row)).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_ratios_and_marks_those_over_their_bound() {
        let lines = [
            "running 1 test",
            "RATIO search/20k-files ours=41.2ms peer=40.0ms(rg) ratio=1.03 bound=1.15",
            "RATIO open ours=9us peer=4us(std) ratio=2.25 bound=1.5",
            "RATIO new ours=9us ratio=2.25",
            "RATIO broken ratio=fast",
            "RATIO",
        ];
        let ratios: Vec<Ratio> = lines.iter().filter_map(|line| Ratio::parse(line)).collect();
        assert_eq!(ratios.iter().map(Ratio::holds).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(
            table(&ratios),
            "benchmark         ours    peer        ratio  bound\n\
             search/20k-files  41.2ms  40.0ms(rg)  1.03   1.15\n\
             open              9us     4us(std)    2.25   1.50   OVER\n\
             new               9us     -           2.25   -\n"
        );
    }
}
