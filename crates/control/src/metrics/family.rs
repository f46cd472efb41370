// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metric families and their text formats: OpenMetrics 1.0, and the older text format of Prometheus (0.0.4) for clients that do
//! not request OpenMetrics.

use std::fmt;

use hyper::header::HeaderValue;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use diolkos_figures::figures::Spread;

/// The samples of one metric name.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name without unit and suffix.
    pub name: &'static str,
    /// The help text, one sentence.
    pub help: &'static str,
    pub unit: Option<Unit>,
    pub samples: Vec<Sample>,
}

/// A value and its labels.
#[derive(Clone, Debug)]
pub struct Sample {
    pub labels: Vec<(&'static str, String)>,
    pub value: Value,
}

/// A value. All values of a family are of one kind.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// A number that only grows while the program runs.
    Counter(u64),
    /// A counter in seconds.
    Seconds(f64),
    /// A number that grows and falls.
    Gauge(u64),
    /// A point in time: seconds since 1970.
    Moment(f64),
    /// Always 1: the labels carry the information.
    Info,
    Histogram(Spread),
}

impl Family {
    /// A family without samples.
    pub fn new(name: &'static str, help: &'static str) -> Family {
        Family {
            name,
            help,
            unit: None,
            samples: Vec::new(),
        }
    }

    /// A gauge with one sample.
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Family {
        Family::new(name, help).with(&[], Value::Gauge(value))
    }

    pub fn unit(mut self, unit: Unit) -> Family {
        self.unit = Some(unit);
        self
    }

    /// The family with one more sample.
    pub fn with(mut self, labels: &[(&'static str, &str)], value: Value) -> Family {
        self.add(labels, value);
        self
    }

    /// Adds a sample.
    pub fn add(&mut self, labels: &[(&'static str, &str)], value: Value) {
        let labels = labels
            .iter()
            .map(|(key, value)| (*key, (*value).to_owned()));
        self.samples.push(Sample {
            labels: labels.collect(),
            value,
        });
    }

    fn kind(&self) -> MetricType {
        match self.samples.first().map(|sample| sample.value) {
            Some(Value::Counter(_) | Value::Seconds(_)) => MetricType::Counter,
            Some(Value::Gauge(_) | Value::Moment(_)) => MetricType::Gauge,
            Some(Value::Info) => MetricType::Info,
            Some(Value::Histogram(_)) => MetricType::Histogram,
            None => MetricType::Unknown,
        }
    }
}

impl Sample {
    fn encode(&self, family: &mut MetricEncoder<'_>) -> fmt::Result {
        match self.value {
            Value::Info => family.encode_info(&self.labels),
            value if self.labels.is_empty() => value.encode(family),
            value => value.encode(&mut family.encode_family(&self.labels)?),
        }
    }
}

impl Value {
    fn encode(self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Value::Counter(n) => encoder.encode_counter(&n, NO_EXEMPLAR),
            Value::Seconds(s) => encoder.encode_counter(&s, NO_EXEMPLAR),
            Value::Gauge(n) => encoder.encode_gauge(&n),
            Value::Moment(s) => encoder.encode_gauge(&s),
            Value::Info => encoder.encode_info(&NO_LABELS),
            Value::Histogram(spread) => {
                let buckets = spread.buckets.iter().enumerate();
                let buckets: Vec<(f64, u64)> = buckets
                    .map(|(at, n)| (Spread::bound(at).unwrap_or(f64::INFINITY), *n))
                    .collect();
                let sum = spread.sum_ns as f64 * 1e-9;
                let count = spread.buckets.iter().sum();
                encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
            }
        }
    }
}

const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, u64>> = None;
const NO_LABELS: [(&str, &str); 0] = [];

#[derive(Debug)]
struct Page(Vec<Family>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // A family without samples has no kind, so it is left out.
        for family in self.0.iter().filter(|family| !family.samples.is_empty()) {
            let (name, unit) = (family.name, family.unit.as_ref());
            let mut metric = encoder.encode_descriptor(name, family.help, unit, family.kind())?;
            for sample in &family.samples {
                sample.encode(&mut metric)?;
            }
        }
        Ok(())
    }
}

/// The text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Version 0.0.4 of the Prometheus text format, which every client supports.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format that the values of `Accept` request: OpenMetrics if they name it and do not prefer another one.
    pub fn wanted<'a>(accept: impl Iterator<Item = &'a HeaderValue>) -> Format {
        let (mut open, mut others) = (0.0_f32, 0.0_f32);
        let values = accept.filter_map(|value| value.to_str().ok());
        for range in values.flat_map(|value| value.split(',')) {
            let mut words = range.split(';').map(str::trim);
            let kind = words.next().unwrap_or_default().to_ascii_lowercase();
            let quality = words.find_map(|word| word.strip_prefix("q="));
            let quality = quality.map_or(1.0, |text| text.parse().unwrap_or(0.0));
            match kind.as_str() {
                "application/openmetrics-text" => open = open.max(quality),
                "text/plain" => others = others.max(quality),
                _ => {}
            }
        }
        match open > 0.0 && open >= others {
            true => Format::OpenMetrics,
            false => Format::Classic,
        }
    }

    /// The value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The text of all families.
    pub fn text(self, families: &[Family]) -> String {
        let text = text(families.to_vec());
        match self {
            Format::OpenMetrics => text,
            Format::Classic => classic(&text),
        }
    }
}

/// Converts the text to the older format: it has neither units nor an end marker, its counters have the names of their samples,
/// and it has no type for values that consist of labels only.
fn classic(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    // `HELP` precedes `TYPE`, which decides the name.
    let mut help = None;
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
            continue;
        }
        if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                text += &format!("# HELP {name}{suffix} {help}\n");
            }
            text += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}

/// The text of all families in OpenMetrics.
pub fn text(families: Vec<Family>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page(families)));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes everything");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_as_openmetrics_wants_it() {
        let mut spread = Spread::default();
        spread.buckets[0] = 2;
        spread.buckets[16] = 1;
        spread.sum_ns = 1_500_000_000;
        let page = text(vec![
            Family::new("a", "Bytes of it.")
                .unit(Unit::Bytes)
                .with(&[("path", "fast"), ("say", "\"so\"\n")], Value::Counter(7)),
            Family::new("empty", "Nothing."),
            Family::new("b", "Now.").with(&[], Value::Gauge(3)),
            Family::new("c", "What.").with(&[("version", "1")], Value::Info),
            Family::new("d", "How long.")
                .unit(Unit::Seconds)
                .with(&[], Value::Histogram(spread)),
        ]);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(
            lines[..9],
            [
                "# HELP a_bytes Bytes of it.",
                "# TYPE a_bytes counter",
                "# UNIT a_bytes bytes",
                "a_bytes_total{path=\"fast\",say=\"\\\"so\\\"\\n\"} 7",
                "# HELP b Now.",
                "# TYPE b gauge",
                "b 3",
                "# HELP c What.",
                "# TYPE c info",
            ]
        );
        assert_eq!(lines[9], "c_info{version=\"1\"} 1");
        assert!(
            page.contains("\nd_seconds_sum 1.5\nd_seconds_count 3\n"),
            "{page}"
        );
        assert!(
            page.contains("\nd_seconds_bucket{le=\"+Inf\"} 3\n"),
            "{page}"
        );
        assert!(page.ends_with("# EOF\n"));
    }

    #[test]
    fn the_older_format_has_the_same_samples() {
        let families = [
            Family::new("a", "Bytes of \"it\".")
                .unit(Unit::Bytes)
                .with(&[("path", "fast")], Value::Counter(7)),
            Family::new("b", "Now.").with(&[], Value::Gauge(3)),
            Family::new("c", "What.").with(&[("version", "1")], Value::Info),
        ];
        let open = Format::OpenMetrics.text(&families);
        let classic = Format::Classic.text(&families);
        assert_eq!(
            classic,
            "# HELP a_bytes_total Bytes of \"it\".\n# TYPE a_bytes_total counter\na_bytes_total{path=\"fast\"} 7\n\
             # HELP b Now.\n# TYPE b gauge\nb 3\n# HELP c_info What.\n# TYPE c_info gauge\nc_info{version=\"1\"} 1\n"
        );
        let samples = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(samples(&open), samples(&classic));
    }

    #[test]
    fn who_does_not_ask_for_openmetrics_gets_what_everybody_knows() {
        let wanted = |accept: &[&'static str]| {
            let values: Vec<HeaderValue> = accept
                .iter()
                .map(|its| HeaderValue::from_static(its))
                .collect();
            Format::wanted(values.iter())
        };
        // The value that Prometheus 2.42 sends.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for open in [
            &[prometheus][..],
            &["Application/OpenMetrics-Text"],
            &["text/html", "application/openmetrics-text; q=0.1"],
        ] {
            assert_eq!(wanted(open), Format::OpenMetrics, "{open:?}");
        }
        for other in [
            &[][..],
            &["*/*"],
            &["text/plain"],
            &["application/openmetrics-text;q=0"],
            &["application/openmetrics-text;q=0.3, text/plain;q=0.4"],
            &["application/openmetrics-text;q=many"],
        ] {
            assert_eq!(wanted(other), Format::Classic, "{other:?}");
        }
    }
}
