//! `generate`: configuration that an installation needs in addition to the daemon.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use jiff::{Span, Timestamp, tz::TimeZone};
use quota_client::{self, http::Token};
use quota_semantics::{
    admission::{Charging, WebhookRule, counted_kind, webhook_rules},
    group::manifest::{GROUP, PLURAL},
    object::{GroupResource, MEASURED, is_ignored},
    quota::selector::NAME_LABEL,
    syntax,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};

use crate::{
    args::{
        Alerts, Arguments, Audit, AuditPart, Bridge, Certs, FailurePolicy, Generate, RUNBOOKS,
        ServiceMonitor, Webhook,
    },
    config::Connection,
    failure::{Exit, Failure, Outcome},
    manifest::{self, Document},
    output::{Output, note, yaml},
};

/// Runs a `generate` command.
pub(crate) fn run(
    command: &Generate,
    output: &Output,
    connection: impl FnOnce() -> Outcome<Connection>,
) -> Outcome {
    match command {
        Generate::Webhook(wanted) => webhook(wanted, output),
        Generate::Audit(wanted) => audit(wanted, output),
        Generate::Bridge(wanted) => bridge(wanted, output),
        Generate::Kubeconfig => kubeconfig(&connection()?, output),
        Generate::Certs(wanted) => certs(wanted, output),
        Generate::Man { directory } => man(directory, output),
        Generate::Alerts(wanted) => alerts(wanted, output),
        Generate::Dashboard => dashboard(output),
        Generate::Servicemonitor(wanted) => service_monitor(wanted, output),
    }
}

// A ValidatingWebhookConfiguration that cannot lock a cluster out.
//
// Kinds are listed one by one. The webhook does not review deletions, the removal of finalizers, status writes of
// pods, or requests in namespaces that the cluster or the daemon itself needs to start again.

/// The namespaces that a cluster needs to start.
const OF_THE_CLUSTER: [&str; 3] = ["kube-system", "kube-node-lease", "kube-public"];

fn webhook(wanted: &Webhook, output: &Output) -> Outcome {
    let configuration = configuration(wanted)?;
    if output.is_structured() {
        return output.value(&configuration);
    }
    let name = &wanted.name;
    let removal = format!("kubectl delete validatingwebhookconfiguration {name}");
    output.line(format!("# In an emergency: {removal}\n{}", yaml(&configuration)?.trim_end()))
}

fn configuration(wanted: &Webhook) -> Outcome<Value> {
    let (place, own_namespace) = place(wanted)?;
    let mut client = place;
    if let Some(file) = &wanted.ca_bundle {
        client["caBundle"] = bundle(file)?.into();
    }
    let mut exempt: Vec<&str> = OF_THE_CLUSTER.to_vec();
    exempt.extend(wanted.exempt.iter().map(String::as_str));
    exempt.extend(own_namespace);
    exempt.sort_unstable();
    exempt.dedup();
    let failure_policy = match wanted.failure_policy {
        FailurePolicy::Ignore => "Ignore",
        FailurePolicy::Fail => "Fail",
    };
    Ok(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": wanted.name },
        "webhooks": [{
            // Also the prefix of the audit annotations.
            "name": format!("admission.{}.local", wanted.name),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "failurePolicy": failure_policy,
            "timeoutSeconds": wanted.timeout_seconds,
            "matchPolicy": "Equivalent",
            "clientConfig": client,
            "rules": rules(wanted)?,
            "namespaceSelector": { "matchExpressions": [{
                "key": NAME_LABEL,
                "operator": "NotIn",
                "values": exempt,
            }]},
            "matchConditions": conditions(),
        }],
    }))
}

/// `clientConfig`, and the namespace of the daemon, if the options contain it.
fn place(wanted: &Webhook) -> Outcome<(Value, Option<&str>)> {
    if let Some(url) = &wanted.url {
        let base = url.trim_end_matches('/');
        if !base.starts_with("https://") {
            return Err(Failure::usage("--url: must begin with https://"));
        }
        return Ok((json!({ "url": format!("{base}{}", quota_client::ADMIT) }), None));
    }
    let service = wanted.service.as_deref().unwrap_or_default();
    let unusable = || Failure::usage("--service: must be NAMESPACE/NAME or NAMESPACE/NAME:PORT");
    let (namespace, rest) = service.split_once('/').ok_or_else(unusable)?;
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, port.parse::<u16>().map_err(|_| unusable())?),
        None => (rest, 443),
    };
    if namespace.is_empty() || name.is_empty() {
        return Err(unusable());
    }
    let service =
        json!({ "namespace": namespace, "name": name, "port": port, "path": quota_client::ADMIT });
    Ok((json!({ "service": service }), Some(namespace)))
}

fn bundle(file: &Path) -> Outcome<String> {
    let about = |failure: Failure| failure.about(file.display());
    let pem = fs::read(file).map_err(|error| about(error.into()))?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(STANDARD.encode(&pem)),
        Ok(_) => Err(about(Failure::general("holds no certificate"))),
        Err(error) => Err(about(Failure::general(error.to_string()))),
    }
}

/// The requests that the webhook reviews.
fn rules(wanted: &Webhook) -> Outcome<Vec<WebhookRule>> {
    let charged: Vec<String> = wanted.charge.iter().map(GroupResource::to_string).collect();
    Charging::new(charged.iter().map(String::as_str))
        .map_err(|error| Failure::usage(format!("--charge: {error}")))?;
    Ok(webhook_rules(&wanted.count, &wanted.charge))
}

/// The match conditions, in CEL. The webhook reviews a request only if all of them hold.
fn conditions() -> Value {
    json!([
        {
            // Mirror pods of nodes must never wait for the daemon.
            "name": "not-a-node",
            "expression": "!has(request.userInfo.groups) || !('system:nodes' in request.userInfo.groups)",
        },
        {
            // Finalizers have to be removable while the daemon is down. But an object that is kept by its finalizers can
            // still grow.
            "name": "not-a-mere-deletion",
            "expression": "request.operation == 'CREATE' || !has(object.metadata.deletionTimestamp) \
                || has(object.spec) && (!has(oldObject.spec) || object.spec != oldObject.spec)",
        },
        {
            // Except for pods/resize, the amounts of a pod change only with its deadline.
            "name": "not-a-mere-label",
            "expression": "request.operation == 'CREATE' || request.resource.resource != 'pods' \
                || has(request.subResource) \
                || has(object.spec.activeDeadlineSeconds) != has(oldObject.spec.activeDeadlineSeconds)",
        },
    ])
}

// The files with which an API server sends its audit events to the daemon: a policy, and a kubeconfig.

fn audit(wanted: &Audit, output: &Output) -> Outcome {
    let (policy, kubeconfig) = (policy(wanted), audit_kubeconfig(wanted)?);
    let is_known = wanted.client_cert.is_some() || wanted.api_server_token.is_some();
    if !is_known && wanted.only != Some(AuditPart::Policy) {
        note(
            "the daemon accepts audit events only from authenticated callers: add --client-cert and --client-key, or \
             --api-server-token",
        );
    }
    if output.is_structured() {
        return output.value(&match wanted.only {
            Some(AuditPart::Policy) => policy,
            Some(AuditPart::Kubeconfig) => kubeconfig,
            None => json!({ "policy": policy, "kubeconfig": kubeconfig }),
        });
    }
    let (policy, kubeconfig) = (yaml(&policy)?, yaml(&kubeconfig)?);
    output.line(match wanted.only {
        Some(AuditPart::Policy) => policy.trim_end().to_owned(),
        Some(AuditPart::Kubeconfig) => kubeconfig.trim_end().to_owned(),
        None => format!(
            "# Two files for kube-apiserver, which --only gives one by one. Besides them: \
             --audit-webhook-batch-max-wait=200ms\n\
             # --audit-policy-file\n{}\n---\n# --audit-webhook-config-file\n{}",
            policy.trim_end(),
            kubeconfig.trim_end()
        ),
    })
}

/// The audit policy: creations of counted kinds, at level Metadata.
fn policy(wanted: &Audit) -> Value {
    let more = wanted.count.iter().chain(&wanted.charge);
    let more = more.map(|kind| (&*kind.group, &*kind.resource));
    let mut groups = BTreeMap::<&str, Vec<&str>>::new();
    for (group, resource) in MEASURED.into_iter().chain(more) {
        let resources = groups.entry(group).or_default();
        if !resources.contains(&resource) {
            resources.push(resource);
        }
    }
    let resources = groups
        .into_iter()
        .map(|(group, resources)| json!({ "group": group, "resources": resources }));
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
        "rules": [
            { "level": "Metadata", "verbs": ["create"], "resources": resources.collect::<Vec<_>>() },
            { "level": "None" },
        ],
    })
}

fn audit_kubeconfig(wanted: &Audit) -> Outcome<Value> {
    const NAME: &str = "quotad";
    let base = wanted.url.trim_end_matches('/');
    if !base.starts_with("https://") {
        return Err(Failure::usage("--url: must begin with https://"));
    }
    let mut cluster = json!({ "server": format!("{base}{}", quota_client::AUDIT) });
    if let Some(file) = &wanted.ca_bundle {
        cluster["certificate-authority-data"] = bundle(file)?.into();
    }
    if let Some(name) = &wanted.server_name {
        cluster["tls-server-name"] = name.as_str().into();
    }
    let user = match (&wanted.client_cert, &wanted.client_key, &wanted.api_server_token) {
        (Some(certificate), Some(key), _) => {
            json!({ "client-certificate": certificate, "client-key": key })
        }
        (_, _, Some(token)) => json!({ "tokenFile": token }),
        _ => json!({}),
    };
    Ok(one_context(NAME, &cluster, &user, &json!({ "cluster": NAME, "user": NAME })))
}

// The rights that quota-bridge needs in the cluster: access to the counted kinds, and to its Lease.

/// ResourceQuotas, which the bridge always watches.
const QUOTAS: (&str, &str) = ("", "resourcequotas");

fn bridge(wanted: &Bridge, output: &Output) -> Outcome {
    let list = manifests(wanted)?;
    if output.is_structured() {
        return output.value(&list);
    }
    output.line(yaml(&list)?.trim_end())
}

/// The kinds whose number quotas and groups limit. Names that no kind can have are left out.
fn limited(documents: &[Document]) -> BTreeSet<GroupResource> {
    let hard = documents.iter().flat_map(|document| {
        let places = ["/spec/hard", "/spec/quota/hard", "/hard"];
        places.into_iter().filter_map(|place| document.value.pointer(place)?.as_object())
    });
    let kinds = hard.flat_map(|hard| hard.keys().filter_map(|limit| counted_kind(limit)));
    kinds
        .filter(|kind| !is_ignored(kind) && syntax::subdomain(&kind.to_string()).is_empty())
        .collect()
}

/// A List of all manifests.
fn manifests(wanted: &Bridge) -> Outcome<Value> {
    let limited = match &*wanted.filenames {
        [] => BTreeSet::new(),
        files => limited(&manifest::load(files)?),
    };
    let Bridge { namespace, name, namespaces, .. } = wanted;
    let account = json!([{ "kind": "ServiceAccount", "name": name, "namespace": namespace }]);
    let mut items = vec![json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": namespace },
    })];
    let mut grant = |kind: &str, metadata: Value, rules: Value| {
        items.push(json!({
            "apiVersion": RBAC, "kind": kind, "metadata": metadata, "rules": rules,
        }));
        items.push(json!({
            "apiVersion": RBAC, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
            "subjects": account,
        }));
    };
    let mut of_cluster = about_the_cluster();
    if let Some(webhook) = &wanted.webhook {
        of_cluster.push(json!({
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "resourceNames": [webhook], "verbs": ["get", "update"],
        }));
    }
    match namespaces.is_empty() {
        true => {
            of_cluster.push(json!({ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"] }));
            of_cluster.extend(groups(wanted.status));
            of_cluster.extend(objects(wanted, &limited));
        }
        false => {
            for namespace in namespaces {
                let metadata = json!({ "name": name, "namespace": namespace });
                grant("Role", metadata, json!(objects(wanted, &limited)));
            }
        }
    }
    grant("ClusterRole", json!({ "name": name }), json!(of_cluster));
    // The Lease has a Role of its own name, since the namespace may be one of those that are watched.
    let lease = format!("{name}-lease");
    let metadata = json!({ "name": lease, "namespace": namespace });
    items.push(json!({
        "apiVersion": RBAC, "kind": "Role", "metadata": metadata,
        "rules": [
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"] },
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
              "resourceNames": ["quota-bridge"], "verbs": ["get", "update"] },
        ],
    }));
    items.push(json!({
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": lease },
        "subjects": account,
    }));
    Ok(json!({ "apiVersion": "v1", "kind": "List", "items": items }))
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The rules for identifying the cluster, and for finding its kinds.
fn about_the_cluster() -> Vec<Value> {
    vec![
        json!({ "apiGroups": [""], "resources": ["namespaces"],
                "resourceNames": ["kube-system"], "verbs": ["get"] }),
        json!({ "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
                "verbs": ["get", "list", "watch"] }),
        json!({ "apiGroups": ["apiregistration.k8s.io"], "resources": ["apiservices"],
                "verbs": ["get", "list", "watch"] }),
    ]
}

/// The rules for ClusterResourceQuotas, and for their status if the bridge writes it.
fn groups(writes_status: bool) -> Vec<Value> {
    let status = format!("{PLURAL}/status");
    let read =
        json!({ "apiGroups": [GROUP], "resources": [PLURAL], "verbs": ["get", "list", "watch"] });
    let write = json!({ "apiGroups": [GROUP], "resources": [status], "verbs": ["update"] });
    [read].into_iter().chain(writes_status.then_some(write)).collect()
}

/// The rules for the counted kinds, one per API group.
fn objects(wanted: &Bridge, limited: &BTreeSet<GroupResource>) -> Vec<Value> {
    let more = wanted.count.iter().chain(&wanted.charge).chain(limited);
    let more = more.map(|kind| (&*kind.group, &*kind.resource));
    let mut groups = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (group, resource) in MEASURED.into_iter().chain([QUOTAS]).chain(more) {
        groups.entry(group).or_default().insert(resource);
    }
    let rule = |(group, resources): (&str, BTreeSet<&str>)| json!({ "apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"] });
    groups.into_iter().map(rule).collect()
}

// A CA and certificates, for a first try: use a PKI or cert-manager in production.

const CA: &str = "ca.crt";
const SERVER: [&str; 2] = ["tls.crt", "tls.key"];
const CLIENT: [&str; 2] = ["client.crt", "client.key"];

fn certs(wanted: &Certs, output: &Output) -> Outcome {
    let made = make_certificates(wanted)?;
    let dir = &wanted.dir;
    let about = |error: std::io::Error| Failure::from(error).about(dir.display());
    fs::create_dir_all(dir).map_err(about)?;
    if !wanted.force
        && let Some((name, _)) = made.iter().find(|(name, _)| dir.join(name).exists())
    {
        let failure = Failure::new(Exit::Conflict, "exists already");
        return Err(failure.about(dir.join(name).display()).hint("--force replaces what is there"));
    }
    for (name, pem) in &made {
        let file = dir.join(name);
        write_pem(&file, pem).map_err(|error| Failure::from(error).about(file.display()))?;
    }
    note(format!(
        "made in {}: a CA, the webhook's certificate, and {} for the API server; the CA's key is not kept",
        dir.display(),
        CLIENT.join(" and "),
    ));
    let path = |name: &str| format!("{:?}", dir.join(name).display().to_string());
    output.line(format!(
        "[tls]\ncert = {}\nkey = {}\nclient_ca = {}\nallowed_names = [{:?}]",
        path(SERVER[0]),
        path(SERVER[1]),
        path(CA),
        wanted.client_name,
    ))
}

/// The names and contents of the files.
fn make_certificates(wanted: &Certs) -> Outcome<Vec<(&'static str, String)>> {
    let unmade = |error: rcgen::Error| Failure::general(error.to_string());
    let mut ca = parameters(wanted, &[], "Quota Ledger webhook CA")?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().map_err(unmade)?;
    let ca = CertifiedIssuer::self_signed(ca, key).map_err(unmade)?;

    let mut server = parameters(wanted, &wanted.host, "quotad")?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // A SAN identifies a caller.
    let names = std::slice::from_ref(&wanted.client_name);
    let mut client = parameters(wanted, names, &wanted.client_name)?;
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let mut files = vec![(CA, ca.pem())];
    for (mut parameters, [certificate, key]) in [(server, SERVER), (client, CLIENT)] {
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.use_authority_key_identifier_extension = true;
        let pair = KeyPair::generate().map_err(unmade)?;
        let signed = parameters.signed_by(&pair, &ca).map_err(unmade)?;
        files.push((certificate, signed.pem()));
        files.push((key, pair.serialize_pem()));
    }
    Ok(files)
}

fn parameters(wanted: &Certs, hosts: &[String], common_name: &str) -> Outcome<CertificateParams> {
    let mut parameters = CertificateParams::new(hosts)
        .map_err(|error| Failure::usage(format!("--host: {error}")))?;
    parameters.distinguished_name.push(DnType::CommonName, common_name);
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    // Clocks differ.
    let from = now.saturating_sub(Span::new().days(1));
    let until = now.saturating_add(Span::new().days(wanted.days));
    let date = |time: &jiff::Zoned| {
        let (month, day) = (time.month().unsigned_abs(), time.day().unsigned_abs());
        rcgen::date_time_ymd(time.year().into(), month, day)
    };
    parameters.not_before = date(&from);
    parameters.not_after = date(&until);
    Ok(parameters)
}

/// Writes a file. A key is never readable by others, not even for a moment.
fn write_pem(file: &Path, pem: &str) -> std::io::Result<()> {
    let is_key = file.extension().is_some_and(|extension| extension == "key");
    // The mode of a file that exists would stay.
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mode = if is_key { 0o600 } else { 0o644 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    file.write_all(pem.as_bytes())?;
    file.sync_all()
}

// A kubeconfig with which kubectl calls the daemon, with the credentials of quotactl.

fn kubeconfig(connection: &Connection, output: &Output) -> Outcome {
    let kubeconfig = kubeconfig_of(connection)?;
    match output.is_structured() {
        true => output.value(&kubeconfig),
        false => output.line(yaml(&kubeconfig)?.trim_end()),
    }
}

/// A kubeconfig with one cluster, user and context, all of this name.
fn one_context(name: &str, cluster: &Value, user: &Value, context: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": cluster }],
        "users": [{ "name": name, "user": user }],
        "contexts": [{ "name": name, "context": context }],
        "current-context": name,
    })
}

/// Files are named by their absolute paths: kubectl looks for relative ones beside the kubeconfig.
fn kubeconfig_of(connection: &Connection) -> Outcome<Value> {
    const NAME: &str = "quotad";
    let options = &connection.options;
    let mut cluster = json!({ "server": connection.server });
    if let Some(ca) = &options.ca {
        cluster["certificate-authority"] = absolute(ca)?.into();
    }
    let mut user = json!({});
    if let Some((cert, key)) = &options.identity {
        user["client-certificate"] = absolute(cert)?.into();
        user["client-key"] = absolute(key)?.into();
    }
    match &options.token {
        Some(_) if !connection.server.starts_with("https://") => {
            let wrong = "kubectl sends no token over http, so that it would be an unknown caller";
            return Err(Failure::usage(wrong).hint("use an https:// server, or no token"));
        }
        Some(Token::File(file)) => user["tokenFile"] = absolute(file)?.into(),
        Some(Token::Text(text)) => user["token"] = text.as_str().into(),
        None => {}
    }
    let mut context = json!({ "cluster": NAME, "user": NAME });
    if let Some(namespace) = &connection.namespace {
        context["namespace"] = namespace.as_str().into();
    }
    Ok(one_context(NAME, &cluster, &user, &context))
}

fn absolute(path: &Path) -> Outcome<String> {
    let absolute = std::path::absolute(path).map_err(Failure::from)?;
    Ok(absolute.display().to_string())
}

/// Writes the pages into a directory, which is created if it does not exist.
fn man(directory: &Path, output: &Output) -> Outcome {
    let about = |error: io::Error| Failure::from(error).about(directory.display());
    fs::create_dir_all(directory).map_err(about)?;
    let pages = manual_pages().map_err(about)?;
    for (name, page) in &pages {
        fs::write(directory.join(name), page).map_err(about)?;
    }
    let count = pages.len();
    output.line(format!("{count} pages in {}", directory.display()))
}

/// The file names and pages: `quotactl.1`, `quotactl-get.1`, `quotactl-get-quota.1`, …
fn manual_pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = Arguments::command().disable_help_subcommand(true);
    // Gives commands their whole names, and the options that all of them have.
    root.build();
    let mut pages = Vec::new();
    add_manual_pages(&root, &mut pages)?;
    Ok(pages)
}

fn add_manual_pages(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((page.get_filename(), text));
    let visible = command.get_subcommands().filter(|it| !it.is_hide_set());
    visible.into_iter().try_for_each(|it| add_manual_pages(it, pages))
}

// Files for Prometheus and Grafana: alerts, a dashboard, and monitors for the Prometheus operator. The files are those
// of `deploy/monitoring`.

/// The rules, as a file for Prometheus.
const ALERTS: &str = include_str!("../../../../deploy/monitoring/alerts.yaml");

/// The dashboard, as Grafana imports it.
const DASHBOARD: &str = include_str!("../../../../deploy/monitoring/dashboard.json");

/// Prints the rules as a file of Prometheus, or as a PrometheusRule.
fn alerts(wanted: &Alerts, output: &Output) -> Outcome {
    match wanted.operator {
        true => output.line(prometheus_rule(wanted).trim_end()),
        false => output.line(alert_rules(wanted).trim_end()),
    }
}

/// The rules, with links to the runbooks that are wanted.
fn alert_rules(wanted: &Alerts) -> String {
    ALERTS.replace(RUNBOOKS, &wanted.runbooks)
}

/// A PrometheusRule, whose spec is the content of the file of rules.
fn prometheus_rule(wanted: &Alerts) -> String {
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
    for line in alert_rules(wanted).lines() {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

/// Prints the dashboard.
fn dashboard(output: &Output) -> Outcome {
    output.line(DASHBOARD.trim_end())
}

/// Prints monitors that scrape the Service of the daemon and the pods of the bridge, by the labels of the chart.
fn service_monitor(wanted: &ServiceMonitor, output: &Output) -> Outcome {
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

fn monitor(wanted: &ServiceMonitor, kind: &str, endpoints: &str, component: &str) -> Value {
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
