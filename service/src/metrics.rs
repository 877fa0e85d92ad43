//! Metrics: a program lists them in one table, which also makes the functions that record them.

use std::{borrow::Cow, time::Duration};

use ::metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its full name.
    pub name: &'static str,
    /// How it is counted.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [LabelKey],
    /// What it says.
    pub help: &'static str,
}

/// How a metric is counted.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// A current value.
    Gauge,
    /// Counts per upper bound.
    Histogram(&'static [f64]),
}

/// A label's name and values.
#[derive(Clone, Copy, Debug)]
pub struct LabelKey {
    /// Its name.
    pub name: &'static str,
    /// Its values; empty if they are unknown beforehand, but bounded otherwise.
    pub values: &'static [&'static str],
}

/// The value of a label.
pub trait Label {
    /// Every value; empty if they are unknown beforehand, but bounded otherwise.
    const VALUES: &'static [&'static str];
    /// This value.
    fn text(self) -> Cow<'static, str>;
}

impl Label for &str {
    const VALUES: &'static [&'static str] = &[];
    fn text(self) -> Cow<'static, str> {
        self.to_owned().into()
    }
}

/// What a metric can be set to or grow by. It is a float; sequences, bytes and counts stay exact up to 2^53.
pub trait Amount {
    /// This amount; of time, in seconds.
    fn float(self) -> f64;
}

macro_rules! amounts {
    ($($type:ty: $amount:ident => $float:expr;)*) => {$(
        impl Amount for $type {
            fn float(self) -> f64 {
                let $amount = self;
                $float
            }
        }
    )*};
}

amounts! {
    bool: is => f64::from(u8::from(is));
    f64: number => number;
    u64: number => number as f64;
    usize: number => number as f64;
    Duration: time => time.as_secs_f64();
}

/// Defines the metrics of a program: each as a constant, and all as one, which the first line names. The others are
///
/// ```text
/// ID Kind recorder[label: Type, …](amount: Type) "name" "help"
/// ```
///
/// A label's type is a [`Label`], an amount's an [`Amount`]. The recorder is a function that takes both: it adds to the
/// counter, sets the gauge, or adds a sample to the histogram; without an amount, by or to 1. Without labels the
/// brackets are left out. Without `recorder` and `(…)`, the metric is recorded by other code.
#[macro_export]
macro_rules! metric_table {
    (@amount) => { 1.0 };
    (@amount $amount:ident) => { $amount };
    (@labels $($label:ident: $type:ty),*) => {
        &[$($crate::metrics::LabelKey {
            name: stringify!($label),
            values: <$type as $crate::metrics::Label>::VALUES,
        }),*]
    };
    ($vis:vis const $all:ident: $(
        $id:ident $kind:ident
        $($recorder:ident $([$($label:ident: $type:ty),*])? ($($amount:ident: $number:ty)?))?
        $([$($key:ident: $values:ty),*])?
        $name:literal $help:literal
    )*) => {
        $(
            #[doc = $help]
            $vis const $id: $crate::metrics::Metric = $crate::metrics::Metric {
                name: $name,
                kind: $kind,
                labels: $crate::metric_table!(@labels $($($($label: $type),*)?)? $($($key: $values),*)?),
                help: $help,
            };
            $(
                #[doc = $help]
                $vis fn $recorder($($($label: $type,)*)? $($amount: $number)?) {
                    let labels = [$($($crate::metrics::Label::text($label)),*)?];
                    $id.record(labels, $crate::metric_table!(@amount $($amount)?));
                }
            )?
        )*

        /// Every metric.
        $vis const $all: &[$crate::metrics::Metric] = &[$($id),*];
    };
}

impl Kind {
    /// Its name in the Prometheus text format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

impl Metric {
    /// The counter with these values of the labels.
    pub fn counter<const N: usize>(&self, values: [Cow<'static, str>; N]) -> Counter {
        counter!(self.name, self.labelled(values))
    }

    /// The gauge with these values of the labels.
    pub fn gauge<const N: usize>(&self, values: [Cow<'static, str>; N]) -> Gauge {
        gauge!(self.name, self.labelled(values))
    }

    /// The histogram with these values of the labels.
    pub fn histogram<const N: usize>(&self, values: [Cow<'static, str>; N]) -> Histogram {
        histogram!(self.name, self.labelled(values))
    }

    /// Adds to the counter, sets the gauge, or adds a sample to the histogram with these values of the labels.
    pub fn record<const N: usize>(&self, values: [Cow<'static, str>; N], amount: impl Amount) {
        let amount = amount.float();
        match self.kind {
            Kind::Counter => self.counter(values).increment(amount as u64),
            Kind::Gauge => self.gauge(values).set(amount),
            Kind::Histogram(_) => self.histogram(values).record(amount),
        }
    }

    fn labelled<const N: usize>(&self, values: [Cow<'static, str>; N]) -> Vec<::metrics::Label> {
        debug_assert_eq!(self.labels.len(), N, "{}", self.name);
        let labels = self.labels.iter().zip(values);
        labels.map(|(label, value)| ::metrics::Label::new(label.name, value)).collect()
    }

    /// Its item in a list of Markdown: name, kind, labels with up to 16 possible values, help.
    pub fn item(&self) -> String {
        let mut about = vec![self.kind.name().to_owned()];
        about.extend(self.labels.iter().map(|label| match label.values {
            values if values.is_empty() || values.len() > 16 => format!("`{}`", label.name),
            values => format!("`{}`: {}", label.name, values.join(", ")),
        }));
        format!("- `{}` ({}). {}\n", self.name, about.join("; "), self.help)
    }
}

/// The recorder of a process, with the buckets of these metrics.
///
/// # Errors
/// A histogram has no buckets.
pub fn builder(metrics: &[Metric]) -> Result<PrometheusBuilder, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for metric in metrics {
        if let Kind::Histogram(buckets) = metric.kind {
            builder =
                builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)?;
        }
    }
    Ok(builder)
}

/// Describes metrics, and sets every counter with a closed set of labels to 0, so that rates include the first event.
pub fn initialise<'m>(metrics: impl IntoIterator<Item = &'m Metric>) {
    for metric in metrics {
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, metric.help),
            Kind::Histogram(_) => describe_histogram!(metric.name, metric.help),
        }
        if matches!(metric.kind, Kind::Counter) {
            for labels in combinations(metric.labels) {
                counter!(metric.name, &labels).absolute(0);
            }
        }
    }
}

/// Every combination of label values; none if a label has an open set of values.
fn combinations(labels: &[LabelKey]) -> Vec<Vec<(&'static str, &'static str)>> {
    labels.iter().fold(vec![Vec::new()], |shorter, label| {
        let longer = |labels: &Vec<_>| {
            let labels = labels.clone();
            label.values.iter().map(move |value| {
                let mut labels = labels.clone();
                labels.push((label.name, *value));
                labels
            })
        };
        shorter.iter().flat_map(longer).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::{
        Kind::{Counter, Gauge},
        *,
    };

    #[derive(Clone, Copy)]
    struct Closed(&'static str);

    impl Label for Closed {
        const VALUES: &'static [&'static str] = &["a", "b"];
        fn text(self) -> Cow<'static, str> {
            self.0.into()
        }
    }

    const SECONDS: Kind = Kind::Histogram(&[0.5, 2.0]);

    metric_table! { const ALL:
        PLAIN Counter plain() "plain_total" "One at a time."
        CLOSED Counter closed[which: Closed](count: usize) "closed_total" "By a closed set."
        OPEN Counter open[name: &str, which: Closed]() "open_total" "By an open set."
        IS Gauge is(is: bool) "is" "A state."
        TOOK SECONDS took(time: Duration) "took_seconds" "A time."
        BY_HAND Gauge [which: Closed] "by_hand" "Recorded by hand."
    }

    #[test]
    fn a_line_makes_the_metric_its_recorder_and_its_row() {
        let recorder = builder(ALL).unwrap().build_recorder();
        let text = ::metrics::with_local_recorder(&recorder, || {
            initialise(ALL);
            plain();
            plain();
            closed(Closed("b"), 3);
            open("x", Closed("a"));
            is(true);
            took(Duration::from_secs(1));
            BY_HAND.record([Closed("a").text()], 7_u64);
            recorder.handle().render()
        });
        for line in [
            "# HELP plain_total One at a time.",
            "plain_total 2",
            "closed_total{which=\"a\"} 0",
            "closed_total{which=\"b\"} 3",
            "open_total{name=\"x\",which=\"a\"} 1",
            "is 1",
            "took_seconds_bucket{le=\"0.5\"} 0",
            "took_seconds_bucket{le=\"2\"} 1",
            "by_hand{which=\"a\"} 7",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in {text}");
        }
        assert_eq!(text.matches("open_total{").count(), 1, "{text}");
        let item = "- `open_total` (counter; `name`; `which`: a, b). By an open set.\n";
        assert_eq!(OPEN.item(), item);
    }
}
