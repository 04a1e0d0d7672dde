//! Which metrics are written.

use crate::config::Prometheus;

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

    /// The families of a page that are written, with all their lines. A family begins with its
    /// `# HELP` or `# TYPE` line.
    pub fn apply(&self, page: String) -> String {
        if self.include.is_empty() && self.exclude.is_empty() {
            return page;
        }
        let mut is_wanted = true;
        let mut text = String::with_capacity(page.len());
        for line in page.split_inclusive('\n') {
            let name = line
                .strip_prefix("# HELP ")
                .or(line.strip_prefix("# TYPE "));
            if let Some(name) = name.and_then(|rest| rest.split_whitespace().next()) {
                is_wanted = self.takes(name);
            }
            if is_wanted {
                text.push_str(line);
            }
        }
        text
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
            Some(place) => rest = &rest[place + part.len()..],
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
        assert_eq!(filter(&[], &[]).apply(page.to_owned()), page);
        let only_c = filter(&["a_*"], &["*_seconds"]).apply(page.to_owned());
        assert_eq!(only_c, "# HELP a_c C.\n# TYPE a_c gauge\na_c 1\n");
        assert_eq!(filter(&["b*"], &[]).apply(page.to_owned()), "");
    }
}
