//! Files for Prometheus and Grafana: alerts, a dashboard, and monitors for the Prometheus operator. The files are those
//! of `deploy/monitoring`.

use serde_json::{Value, json};

use crate::{
    args::{Alerts, RUNBOOKS, ServiceMonitor},
    failure::Outcome,
    output::{Output, yaml},
};

/// The rules, as a file for Prometheus.
const ALERTS: &str = include_str!("../../../../deploy/monitoring/alerts.yaml");

/// The dashboard, as Grafana imports it.
const DASHBOARD: &str = include_str!("../../../../deploy/monitoring/dashboard.json");

/// Prints the rules as a file of Prometheus, or as a PrometheusRule.
pub(super) fn alerts(wanted: &Alerts, output: &Output) -> Outcome {
    match wanted.operator {
        true => output.line(prometheus_rule(wanted).trim_end()),
        false => output.line(rules(wanted).trim_end()),
    }
}

/// The rules, with links to the runbooks that are wanted.
fn rules(wanted: &Alerts) -> String {
    ALERTS.replace(RUNBOOKS, &wanted.runbooks)
}

/// A PrometheusRule, whose spec is the content of the file of rules.
pub(super) fn prometheus_rule(wanted: &Alerts) -> String {
    let Alerts { monitoring_namespace, labels, .. } = wanted;
    let mut text = format!(
        "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: quota-ledger\n  \
         namespace: {monitoring_namespace}\n"
    );
    if !labels.is_empty() {
        text.push_str("  labels:\n");
    }
    for (name, value) in labels {
        text.push_str(&format!("    {name}: {}\n", Value::from(value.as_str())));
    }
    text.push_str("spec:\n");
    for line in rules(wanted).lines() {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

/// Prints the dashboard.
pub(super) fn dashboard(output: &Output) -> Outcome {
    output.line(DASHBOARD.trim_end())
}

/// Prints monitors that scrape the Service of the daemon and the pods of the bridge, by the labels of the chart.
pub(super) fn service_monitor(wanted: &ServiceMonitor, output: &Output) -> Outcome {
    let list = json!({
        "apiVersion": "v1", "kind": "List",
        "items": [
            monitor(wanted, "ServiceMonitor", "endpoints", "quotad"),
            monitor(wanted, "PodMonitor", "podMetricsEndpoints", "bridge"),
        ],
    });
    match output.is_structured() {
        true => output.value(&list),
        false => output.line(yaml(&list)?.trim_end()),
    }
}

pub(super) fn monitor(
    wanted: &ServiceMonitor,
    kind: &str,
    endpoints: &str,
    component: &str,
) -> Value {
    let labels: serde_json::Map<String, Value> = wanted
        .labels
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect();
    json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": kind,
        "metadata": {
            "name": format!("quota-ledger-{component}"),
            "namespace": wanted.monitoring_namespace,
            "labels": labels,
        },
        "spec": {
            "namespaceSelector": { "matchNames": [wanted.target_namespace] },
            "selector": { "matchLabels": {
                "app.kubernetes.io/name": "quota-ledger",
                "app.kubernetes.io/component": component,
            } },
            // The label namespace of a metric is that of a quota.
            endpoints: [{ "port": "metrics", "interval": "30s", "honorLabels": true }],
        },
    })
}
