//! Which metrics are written.

use std::fmt::{self, Write};

use contract::config::Prometheus;

/// Names of metrics, as patterns with `*` for any characters.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl From<&Prometheus> for Filter {
    fn from(prometheus: &Prometheus) -> Self {
        Self {
            include: prometheus.include.clone(),
            exclude: prometheus.exclude.clone(),
        }
    }
}

impl Filter {
    /// Whether the metric of that name is written.
    pub fn takes(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }

    /// Writes to `page` only the families that are taken, with all their lines. A family begins with
    /// its `# HELP` or `# TYPE` line.
    pub fn before<W: Write>(&self, page: W) -> Filtered<'_, W> {
        Filtered {
            filter: self,
            is_wanted: true,
            page,
        }
    }

    fn takes_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }
}

/// A page that only some families reach. What is written at a time are whole lines.
#[derive(Debug)]
pub struct Filtered<'f, W> {
    filter: &'f Filter,
    is_wanted: bool,
    page: W,
}

impl<W: Write> Write for Filtered<'_, W> {
    fn write_str(&mut self, lines: &str) -> fmt::Result {
        if self.filter.takes_all() {
            return self.page.write_str(lines);
        }
        debug_assert!(lines.is_empty() || lines.ends_with('\n'), "{lines}");
        for line in lines.split_inclusive('\n') {
            let name = line
                .strip_prefix("# HELP ")
                .or(line.strip_prefix("# TYPE "));
            if let Some(name) = name.and_then(|rest| rest.split_whitespace().next()) {
                self.is_wanted = self.filter.takes(name);
            }
            if self.is_wanted {
                self.page.write_str(line)?;
            }
        }
        Ok(())
    }
}

/// Whether `*`s of a pattern can stand for some characters each, so that it reads as `name`.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(start) => rest = &rest[start + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        let cases = [
            ("vernier_port_*", "vernier_port_info", true),
            ("vernier_port_*", "vernier_ports", false),
            ("*_total", "vernier_flows_new_total", true),
            ("*_total", "vernier_flows_new_totals", false),
            ("*flow*_total", "vernier_flows_new_total", true),
            ("*_total*_total", "vernier_new_total", false),
            ("vernier_state", "vernier_state", true),
            ("vernier_state", "vernier_state_of", false),
            ("*", "", true),
            ("a*a", "a", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn whole_families_stay_or_go() {
        let page = "# HELP a_b_seconds Of b.\n# TYPE a_b_seconds histogram\n\
                    a_b_seconds_bucket{le=\"1\"} 1\na_b_seconds_sum 1\n\n\
                    # HELP a_c C.\n# TYPE a_c gauge\na_c 1\n";
        let filter = |include: &[&str], exclude: &[&str]| {
            let owned = |patterns: &[&str]| patterns.iter().map(|&p| p.to_owned()).collect();
            Filter {
                include: owned(include),
                exclude: owned(exclude),
            }
        };
        // Line by line, as a page comes in parts.
        let apply = |filter: &Filter| {
            let mut text = String::new();
            let mut filtered = filter.before(&mut text);
            for line in page.split_inclusive('\n') {
                filtered.write_str(line).unwrap();
            }
            text
        };
        assert_eq!(apply(&filter(&[], &[])), page);
        let only_c = apply(&filter(&["a_*"], &["*_seconds"]));
        assert_eq!(only_c, "# HELP a_c C.\n# TYPE a_c gauge\na_c 1\n");
        assert_eq!(apply(&filter(&["b*"], &[])), "");
    }
}
