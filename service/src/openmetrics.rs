//! Converts metrics from the Prometheus text format 0.0.4 to the OpenMetrics text format 1.0.

/// The content type of the format.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether an `Accept` header prefers the format to any other, as Prometheus does.
pub(crate) fn is_wanted(accept: &str) -> bool {
    let first = accept.split(',').next().unwrap_or_default();
    first.trim().starts_with("application/openmetrics-text")
}

/// Converts metrics. A counter's family is named without `_total`, blank lines and comments are dropped, and the last
/// line marks the end.
pub(crate) fn convert(prometheus: &str) -> String {
    let mut text = String::with_capacity(prometheus.len() + 16);
    let mut families = Families::default();
    for line in prometheus.lines() {
        if line.is_empty() {
            continue;
        }
        match line.strip_prefix("# ") {
            Some(comment) => families.describe(comment),
            None => {
                families.write_head(&mut text);
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text.push_str("# EOF\n");
    text
}

/// The metadata lines before the samples of a family. The type of a counter determines the name in its help line.
#[derive(Default)]
struct Families<'a> {
    help: Option<&'a str>,
    kind: Option<&'a str>,
}

impl<'a> Families<'a> {
    fn describe(&mut self, comment: &'a str) {
        if let Some(help) = comment.strip_prefix("HELP ") {
            (self.help, self.kind) = (Some(help), None);
        } else if let Some(kind) = comment.strip_prefix("TYPE ") {
            let of_other = self.help.is_some_and(|help| name(help) != name(kind));
            if of_other {
                self.help = None;
            }
            self.kind = Some(kind);
        }
    }

    /// Writes the metadata, once, before the first sample. A family without samples is left out.
    fn write_head(&mut self, text: &mut String) {
        let Some(kind) = self.kind.take() else {
            return;
        };
        let (family, kind) = kind.split_once(' ').unwrap_or((kind, "unknown"));
        let family = match kind {
            "counter" => family.strip_suffix("_total").unwrap_or(family),
            _ => family,
        };
        if let Some(help) = self.help.take() {
            let help = help.split_once(' ').map_or("", |(_, help)| help);
            text.push_str(&format!("# HELP {family} {}\n", escape(help)));
        }
        text.push_str(&format!("# TYPE {family} {kind}\n"));
    }
}

fn name(comment: &str) -> &str {
    comment.split(' ').next().unwrap_or_default()
}

/// Escapes a help text. Unlike in the older format, quotes are escaped.
fn escape(help: &str) -> String {
    help.replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_asks_for_it_first() {
        let prometheus = "application/openmetrics-text;version=1.0.0,\
                          application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert!(is_wanted(prometheus));
        assert!(!is_wanted("text/plain"));
        assert!(!is_wanted("*/*"));
        assert!(!is_wanted(""));
    }

    #[test]
    fn counters_lose_their_suffix_and_the_end_is_marked() {
        let prometheus = "# HELP a_total Says \"a\".\n# TYPE a_total counter\na_total{b=\"c\"} 1\n\n\
                          # TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 2\nh_count 1\n\
                          # HELP none_total Nothing.\n# TYPE none_total counter\n# HELP g G.\n# TYPE g gauge\ng 1\n";
        let expected = "# HELP a Says \\\"a\\\".\n# TYPE a counter\na_total{b=\"c\"} 1\n\
                        # TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 2\nh_count 1\n\
                        # HELP g G.\n# TYPE g gauge\ng 1\n# EOF\n";
        assert_eq!(convert(prometheus), expected);
    }
}
