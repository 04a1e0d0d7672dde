//! Which metrics are written.

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
}
