//! Amounts that no 64 bits hold: they are read as they are written, and shown so that they read back the same.

use quota_semantics::quantity::Quantity;
use serde_json::Value;
use ureq::http::Request;

use super::{
    Run, run_with,
    support::quotad::{Quotad, REQUEST, agent},
};

/// As numbers, so that whoever holds them as such loses something.
const AMOUNTS: [&str; 5] = [
    "1000000000000000000000",
    "1000000000000000000001",
    "0.000000001e30",
    "18446744073709551617",
    "123456789.123456781",
];

/// Limits are thousandths at the finest.
const LIMITS: [&str; 4] = [AMOUNTS[0], AMOUNTS[1], "1e24", AMOUNTS[3]];

fn ask(quotad: &Quotad, method: &str, path: &str, media_type: &str, body: &str) -> Value {
    let request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", quotad.api))
        .header("content-type", media_type)
        .body(body.to_owned());
    let mut response = agent(REQUEST).run(request.unwrap()).unwrap();
    let text = response.body_mut().read_to_string().unwrap();
    assert!(response.status().is_success(), "{method} {path}: {text}");
    serde_json::from_str(&text).unwrap()
}

fn is(shown: &Value, written: &str) {
    let read: Quantity = serde_json::from_value(shown.clone()).unwrap();
    assert!(shown.is_string() && read == written.parse().unwrap(), "{shown} for {written}");
}

fn manifest(name: &str, amount: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ResourceQuota","metadata":{{"name":"{name}"}},
            "spec":{{"hard":{{"requests.cpu":{amount}}}}}}}"#
    )
}

#[test]
fn limits_are_what_was_written_however_they_are_written() {
    let home = tempfile::tempdir().unwrap();
    let quotad = Quotad::start(home.path(), &[]);
    let (own, kube) = ("/v1/namespaces/a/quotas", "/api/v1/namespaces/a/resourcequotas");
    let limit = |object: &Value, amount: &str| is(&object["spec"]["hard"]["requests.cpu"], amount);
    for (number, amount) in LIMITS.into_iter().enumerate() {
        let json = "application/json";
        let name = |way: &str| format!("{way}{number}");
        let yaml = |way: &str| {
            format!(
                "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: {}}}\nspec:\n  hard:\n    requests.cpu: '{amount}'\n",
                name(way)
            )
        };
        let put = |way: &str, media_type: &str, body: &str| {
            let path = format!("{own}/{}", name(way));
            limit(&ask(&quotad, "PUT", &path, media_type, body), amount);
        };
        put("json", json, &manifest(&name("json"), amount));
        put("yaml", "application/yaml", &yaml("yaml"));
        let created = ask(&quotad, "POST", kube, json, &manifest(&name("kube"), amount));
        limit(&created, amount);
        limit(&ask(&quotad, "POST", kube, "application/yaml", &yaml("kubeyaml")), amount);

        let patched = format!("{kube}/{}", name("kube"));
        let reset = || {
            let one = r#"{"spec":{"hard":{"requests.cpu":1}}}"#;
            limit(&ask(&quotad, "PATCH", &patched, "application/merge-patch+json", one), "1");
        };
        let merge = format!(r#"{{"spec":{{"hard":{{"requests.cpu":{amount}}}}}}}"#);
        let operation =
            format!(r#"[{{"op":"replace","path":"/spec/hard/requests.cpu","value":{amount}}}]"#);
        for (media_type, body) in [
            ("application/merge-patch+json", &merge),
            ("application/strategic-merge-patch+json", &merge),
            ("application/json-patch+json", &operation),
        ] {
            reset();
            limit(&ask(&quotad, "PATCH", &patched, media_type, body), amount);
        }
        for (way, text) in
            [("apply", manifest(&name("apply"), amount)), ("applyyaml", yaml("applyyaml"))]
        {
            let run = run_with(&quotad.api, "apply -n a -f -", &text);
            assert_eq!(run.code, 0, "{run:?}");
            let shown = run_with(&quotad.api, &format!("get quota {} -n a -o json", name(way)), "");
            limit(&serde_json::from_str(&shown.out).unwrap(), amount);
        }
    }
    let shown = run_with(&quotad.api, "get usage -n a", "");
    for line in shown.out.lines().filter(|line| line.starts_with("json0")) {
        assert_eq!(line.split_whitespace().nth(2), Some("1000E"), "{line}");
    }
    let cells = Request::get(format!("{}{kube}/json0", quotad.api))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(());
    let mut table = agent(REQUEST).run(cells.unwrap()).unwrap();
    let table: Value = serde_json::from_str(&table.body_mut().read_to_string().unwrap()).unwrap();
    assert_eq!(table["rows"][0]["cells"][1], "requests.cpu: 0/1000E");
}

fn offline(arguments: &str) -> Run {
    run_with("http://127.0.0.1:1", arguments, "")
}

#[test]
fn what_counts_is_exact_in_answers_entries_and_exports() {
    let home = tempfile::tempdir().unwrap();
    let quotad = Quotad::start(home.path(), &[]);
    let widget = |name: &str, usage: &str| {
        format!(
            r#"{{"type":"ADDED","namespace":"a","resource":"widgets.example.com","name":"{name}","uid":"{name}",
                "usage":{{{usage}}}}}"#
        )
        .replace('\n', " ")
    };
    let each = AMOUNTS.iter().enumerate();
    let usage: Vec<_> =
        each.map(|(number, amount)| format!(r#""example.com/r{number}":{amount}"#)).collect();
    let mut events = vec![widget("w", &usage.join(","))];
    // 2^63 of them, of which a binary suffix could not tell.
    events.extend(["m1", "m2"].map(|name| widget(name, r#""requests.memory":"4Ei""#)));
    let pushed = run_with(&quotad.api, "push -", &events.join("\n"));
    assert_eq!(pushed.code, 0, "{pushed:?}");

    let amount_of = |usage: &Value, resource: &str| {
        let mut all = usage["resources"].as_array().unwrap().iter();
        all.find(|item| item["resource"] == resource).unwrap()["used"].clone()
    };
    let check = |usage: &Value| {
        for (number, amount) in AMOUNTS.iter().enumerate() {
            is(&amount_of(usage, &format!("example.com/r{number}")), amount);
        }
        is(&amount_of(usage, "requests.memory"), "9223372036854775808");
    };
    check(&quotad.get("/v1/namespaces/a/usage"));
    let shown = run_with(&quotad.api, "get usage -n a -o json", "");
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    check(shown.pointer("/items/0").unwrap_or(&shown));
    let explained = quotad.get("/v1/namespaces/a/explain?resource=requests.memory");
    is(&explained["used"], "9223372036854775808");
    is(&explained["items"][0]["amount"], "4Ei");

    // The same is listed: no drift. One more is listed: that is what differs.
    let listing = |more: &str| {
        let mut listed = events.clone();
        listed[0] = listed[0].replace(AMOUNTS[1], more);
        listed
            .iter()
            .map(|event| event.replacen(r#""type":"ADDED","#, "", 1))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let same = run_with(&quotad.api, "drift -f -", &listing(AMOUNTS[1]));
    assert_eq!(same.code, 0, "{same:?}");
    let drift = run_with(&quotad.api, "drift -f - -o json", &listing("1000000000000000000002"));
    assert_eq!(drift.code, 12, "{drift:?}");
    assert!(drift.out.contains("1000000000000000000002") && drift.out.contains(AMOUNTS[1]));
    assert_eq!(quotad.stop().code(), Some(0));

    let place = |name: &str| home.path().join(name).display().to_string();
    let entry = |data: &str| -> Value {
        let dumped = offline(&format!("ledger dump --data-dir {} --to 1", place(data)));
        serde_json::from_str(dumped.out.lines().next().unwrap()).unwrap()
    };
    let exported =
        offline(&format!("ledger export {} --data-dir {}", place("text"), place("data")));
    assert_eq!(exported.code, 0, "{exported:?}");
    let imported =
        offline(&format!("ledger import {} --data-dir {}", place("text"), place("copy")));
    assert_eq!(imported.code, 0, "{imported:?}");
    assert_eq!(entry("copy"), entry("data"));
    let text = entry("copy").to_string();
    assert!(text.contains(AMOUNTS[1]) && text.contains("1000E"), "{text}");
    let replayed = offline(&format!("ledger replay -o json --data-dir {}", place("copy")));
    assert!(replayed.out.contains("9223372036854775808"), "{}", replayed.out);
}
